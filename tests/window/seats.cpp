#include "window/seats.hpp"

#include <barrier>
#include <csignal>

#include "communicator/ranks.hpp"
#include "window/state.hpp"
#ifdef TUTTI_HAVE_VERBS
#include "transport/verbs_devices.hpp"
#endif

namespace tutti::test {

namespace {

std::shared_ptr<std::byte> zeroed(std::size_t bytes) {
  auto words = std::make_shared<std::vector<std::uint64_t>>(bytes / 8 + 1);
  return {words, reinterpret_cast<std::byte*>(words->data())};
}

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
    return zeroed(bytes);
  };
  return seat;
}

#ifdef TUTTI_HAVE_VERBS
/// Ranks as threads, each with a verbs transport and nothing else.
void run_over_verbs(Way way, int ranks, const std::function<void(Seat&)>& body,
                    std::chrono::milliseconds timeout) {
  using namespace transport::testing;
  const auto fake = fake_verbs(fabric_for(ranks, 1));
  const auto transports = way == Way::verbs_fake ? verbs_ranks(ranks, same(fake)) : device_ranks(ranks, 1);
  const auto not_ready = [&] {
    return way == Way::verbs_fake ? static_cast<long>(counters_of(*fake).receiver_not_ready)
                                  : receivers_not_ready(device_nodes(1));
  };
  const long not_ready_before = not_ready();
  const auto listeners = listeners_at("127.0.0.1", ranks);
  const auto groups = local_groups(ranks);
  std::barrier meeting(ranks);
  const auto window = [&](Rank rank, std::span<std::byte> memory, const WindowOptions& options,
                          std::uint64_t number) {
    detail::WindowSetting setting;
    setting.options = options;
    setting.memory = memory;
    setting.group = groups[static_cast<std::size_t>(rank)];
    setting.group.timeout = timeout;
    setting.number = number;
    setting.counters = zeroed(detail::Counters::bytes_for(options.notifications, ranks));
    setting.network = transports[static_cast<std::size_t>(rank)].get();
    setting.listener = [&listeners, rank] { return listeners[static_cast<std::size_t>(rank)]; };
    setting.secret = tcp_secret;
    return detail::WindowState::make_window(std::move(setting));
  };
  bootstrap::test::on_threads(ranks, [&](Rank rank) {
    std::uint64_t windows = 0;
    Seat seat;
    seat.rank = rank;
    seat.size = ranks;
    seat.barrier = [&] { meeting.arrive_and_wait(); };
    seat.allocate = zeroed;
    seat.lose_device = [&] { take_away(*fake, "fake" + std::to_string(rank)); };
    seat.window = [&](std::span<std::byte> memory, const WindowOptions& options) {
      return window(rank, memory, options, 1000 + ++windows);
    };
    body(seat);
  });
  EXPECT_EQ(not_ready(), not_ready_before) << "a notification met an empty receive queue";
}
#endif

}  // namespace

std::string why_not(Way way) {
  if (way == Way::attached && !kernel_permits_attach()) return "no cross-memory attach here";
#ifdef TUTTI_HAVE_VERBS
  if (way == Way::verbs_devices && transport::testing::device_nodes(1).empty()) return "no RDMA device";
#else
  if (way == Way::verbs_fake || way == Way::verbs_devices) return "built without rdma-core";
#endif
  return "";
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

std::string path_of(Way way) {
  switch (way) {
    case Way::threads:
      return "memory of the same process";
    case Way::mapped:
      return "shared memory, mapped";
    case Way::attached:
      return "cross-memory attach, because it is plain memory of another process";
    case Way::tcp_threads:
    case Way::tcp_processes:
      return "tcp to 127.0.0.1 port ";
    case Way::verbs_fake:
    case Way::verbs_devices:
      return "verbs: RDMA WRITE and READ via ";
  }
  return "?";
}

bool has_processes(Way way) {
  return way == Way::mapped || way == Way::attached || way == Way::tcp_processes;
}

void run(Way way, int ranks, const std::function<void(Seat&)>& body, std::chrono::milliseconds timeout,
         Rank victim) {
#ifdef TUTTI_HAVE_VERBS
  if (way == Way::verbs_fake || way == Way::verbs_devices) return run_over_verbs(way, ranks, body, timeout);
#endif
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
