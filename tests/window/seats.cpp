#include "window/seats.hpp"

#include <csignal>

#include "communicator/ranks.hpp"

namespace tutti::test {

namespace {

Seat seat_of(Communicator& comm, bool library_memory) {
  Seat seat;
  seat.rank = comm.rank();
  seat.size = comm.size();
  seat.communicator = &comm;
  seat.barrier = [&comm] { comm.barrier(); };
  seat.window = [&comm](std::span<std::byte> memory, const WindowOptions& options) {
    return Window(comm, memory, options);
  };
  seat.allocate = [&comm, library_memory](std::size_t bytes) -> std::shared_ptr<std::byte> {
    if (library_memory) {
      auto buffer = std::make_shared<Buffer<std::uint8_t>>(comm.allocate<std::uint8_t>(bytes));
      return {buffer, reinterpret_cast<std::byte*>(buffer->data())};
    }
    auto words = std::make_shared<std::vector<std::uint64_t>>(bytes / 8 + 1);
    return {words, reinterpret_cast<std::byte*>(words->data())};
  };
  return seat;
}

}  // namespace

std::string why_not(Way way) {
  return way == Way::verbs_fake || way == Way::verbs_devices ? "not there yet" : "";
}

std::string name_of(Way way) {
  switch (way) {
    case Way::threads:
      return "threads";
    case Way::mapped:
      return "mapped";
    case Way::attached:
      return "attached";
    case Way::tcp_threads:
      return "tcp_threads";
    case Way::tcp_processes:
      return "tcp_processes";
    case Way::verbs_fake:
      return "verbs_fake";
    case Way::verbs_devices:
      return "verbs_devices";
  }
  return "?";
}

bool has_processes(Way way) {
  return way == Way::mapped || way == Way::attached || way == Way::tcp_processes;
}

void run(Way way, int ranks, const std::function<void(Seat&)>& body, std::chrono::milliseconds timeout,
         Rank victim) {
  const bool over_tcp = way == Way::tcp_threads || way == Way::tcp_processes;
  const Options options = over(over_tcp ? "tcp" : "shm", timeout);
  const auto on_communicator = [&](Communicator& comm) {
    Seat seat = seat_of(comm, way == Way::mapped);
    body(seat);
  };
  if (!has_processes(way)) {
    run_local(ranks, on_communicator, options);
    return;
  }
  auto children = fork_ranks(ranks, options, on_communicator);
  for (Rank r = 0; r < ranks; ++r)
    EXPECT_EQ(children[static_cast<std::size_t>(r)].wait(), r == victim ? -SIGKILL : 0) << "rank " << r;
}

}  // namespace tutti::test
