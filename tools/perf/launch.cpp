#include "perf/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/local.hpp>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "base/processors.hpp"
#include "base/system_error.hpp"
#include "bootstrap/environment.hpp"
#include "children.hpp"
#include "run_tool.hpp"

namespace tutti::perf {

namespace {

/// Pins this thread to one of the cores that this process may use, round-robin over ranks.
void pin(Rank rank, const std::vector<int>& allowed) {
  if (!run_on({allowed[static_cast<std::size_t>(rank) % allowed.size()]})) throw_errno("sched_setaffinity");
}

std::vector<int> cores_allowed() {
  std::vector<int> allowed = allowed_processors();
  if (allowed.empty()) throw_errno("sched_getaffinity");
  return allowed;
}

/// The id that the child of rank 0 made: its listening socket must be in the process that is rank 0. Nothing
/// where the child failed, which says why itself.
std::optional<UniqueId> read_id(int pipe, const Deadline& deadline) {
  UniqueId id;
  pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, deadline.poll_ms()) <= 0)
    throw Error(ErrorCode::peer_lost, "rank 0 could not make the group's id", {0});
  if (::read(pipe, id.bytes.data(), UniqueId::size) != static_cast<ssize_t>(UniqueId::size))
    return std::nullopt;
  return id;
}

/// `body` with the communicator that `make` makes. Throws Printed, which lets the others know as it passes
/// the communicator.
template <class Make>
bool run_as(const char* tool, Rank rank, const Make& make, const Body& body) {
  Communicator comm = printing_as(tool, rank, make);
  return printing_as(tool, rank, [&] { return body(comm); });
}

bool run_threads(const char* tool, const Settings& settings, const Body& body) {
  const std::vector<int> allowed = cores_allowed();
  std::atomic<bool> well = true;
  run_local(
      settings.ranks,
      [&](Communicator& comm) {
        if (settings.pin) pin(comm.rank(), allowed);
        if (!printing_as(tool, comm.rank(), [&] { return body(comm); })) well = false;
      },
      settings.options);
  return well;
}

}  // namespace

bool run_processes(const char* tool, const Settings& settings, const Body& body) {
  const std::vector<int> allowed = cores_allowed();
  const Deadline deadline(settings.options.timeout);
  const auto as_rank = [&](Rank rank, const std::function<UniqueId()>& id) {
    const auto make = [&] {
      if (settings.pin) pin(rank, allowed);
      return Communicator(id(), rank, settings.ranks, settings.options);
    };
    return run_as(tool, rank, make, body);
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2");
  FileDescriptor read_end(ends[0]), write_end(ends[1]);

  Children children(tool);
  if (children.begin(0))
    return as_rank(0, [&] {
      const UniqueId id = UniqueId::create(settings.options.interface);
      if (::write(write_end.get(), id.bytes.data(), UniqueId::size) < 0) throw_errno("write");
      write_end.reset();
      return id;
    });
  write_end.reset();
  const std::chrono::milliseconds grace = settings.options.timeout + std::chrono::seconds(5);
  const std::optional<UniqueId> id = read_id(read_end.get(), deadline);
  if (!id) {
    children.wait(grace, true);
    return false;
  }
  for (Rank rank = 1; rank < settings.ranks; ++rank)
    if (children.begin(rank)) return as_rank(rank, [&] { return *id; });
  return children.wait(grace) == EXIT_SUCCESS;
}

bool run_ranks(const char* tool, const Settings& settings, const Body& body) {
  if (settings.ranks > 0 && settings.threads) return run_threads(tool, settings, body);
  if (settings.ranks > 0) return run_processes(tool, settings, body);
  const auto launch =
      bootstrap::launch_from_environment(settings.options.interface, settings.options.timeout);
  return run_as(
      tool, launch.rank, [&] { return Communicator::from_environment(settings.options); }, body);
}

}  // namespace tutti::perf
