#include <tutti/local.hpp>

#include <algorithm>
#include <exception>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

#include "base/quiet_thread.hpp"
#include "bootstrap/rendezvous.hpp"

namespace tutti {

namespace {

// How likely it is that others failed because of what `rank` threw: one that fails because another one went
// away says so, and mostly names it. 0: it threw nothing.
int blame(const std::exception_ptr& failure, Rank rank) {
  if (!failure) return 0;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::peer_lost && e.code() != ErrorCode::aborted) return 3;
    return e.ranks().empty() || e.ranks() == std::vector{rank} ? 2 : 1;
  } catch (...) {
    return 3;
  }
}

// Where ranks meet. Rank 0 takes the listener of the id, unless it never comes to that.
struct Meeting {
  explicit Meeting(int ranks) {
    if (ranks > 1) id = UniqueId::create("lo");
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting() { bootstrap::drop_listener(id); }
  UniqueId id;
};

}  // namespace

void run_local(int ranks, const std::function<void(Communicator&)>& body, const Options& options) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument,
                "run_local needs at least one rank, not " + std::to_string(ranks));
  const Meeting meeting(ranks);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  // Nobody joins a group of which a rank cannot be started.
  std::promise<bool> complete;
  const std::shared_future<bool> begin(complete.get_future());
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    try {
      for (Rank r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
          if (!begin.get()) return;
          try {
            Communicator comm(meeting.id, r, ranks, options);
            body(comm);
          } catch (...) {
            failures[static_cast<std::size_t>(r)] = std::current_exception();
          }
        });
    } catch (const std::system_error& error) {
      complete.set_value(false);
      throw no_thread(error);
    } catch (...) {
      complete.set_value(false);
      throw;
    }
    complete.set_value(true);
  }
  const auto blame_of = [&](const std::exception_ptr& one) {
    return blame(one, static_cast<Rank>(&one - failures.data()));
  };
  if (const auto& cause = *std::ranges::max_element(failures, {}, blame_of)) std::rethrow_exception(cause);
}

}  // namespace tutti
