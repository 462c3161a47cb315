#include <tutti/local.hpp>

#include <exception>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

namespace tutti {

namespace {

// A rank that fails because another one went away is not the cause.
bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    return e.code() == ErrorCode::peer_lost || e.code() == ErrorCode::aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace

void run_local(int ranks, const std::function<void(Communicator&)>& body, const Options& options) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument,
                "run_local needs at least one rank, not " + std::to_string(ranks));
  UniqueId id;
  if (ranks > 1) id = UniqueId::create("lo");
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    for (Rank r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        try {
          Communicator comm(id, r, ranks, options);
          body(comm);
        } catch (...) {
          failures[static_cast<std::size_t>(r)] = std::current_exception();
        }
      });
  }
  std::exception_ptr first;
  for (const auto& failure : failures) {
    if (!failure) continue;
    if (!is_consequence(failure)) std::rethrow_exception(failure);
    if (!first) first = failure;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti
