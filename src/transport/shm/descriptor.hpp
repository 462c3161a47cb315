/// \file
/// Descriptors on their way to other processes of this host and user, as SCM_RIGHTS (unix(7)).
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "base/file_descriptor.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::shm {

/// Runs `talk`. When it throws Error, `check` is asked for a while what has happened, and may throw that
/// instead: who closes a socket may have died, which is heard a little later.
void talk_checking(const std::function<void()>& talk, const std::function<void()>& check);

/// Error(timeout) of `ranks`: "rank 3 " and what it did not do.
Error nothing_from(std::vector<Rank> ranks, std::string_view did_not, std::chrono::milliseconds timeout);

/// `note` goes with the descriptor. Throws Error(system).
void send_descriptor(int connection, int fd, Rank note = -1);
/// Nothing when what came is no descriptor.
std::pair<FileDescriptor, Rank> receive_descriptor(int connection);

/// A descriptor that a rank has sent.
struct Passed {
  Rank from = -1;
  FileDescriptor descriptor;
};
/// Sends `fd` to the ranks `peers`, which are on this host, in other processes, and send theirs to this one;
/// returns those. Collective over the group, also for who has no peers. What does not get through somewhere
/// is thrown on all ranks, and names it: Error(system), Error(unsupported) where ranks run as different
/// users, or Error(timeout) for a rank that has left another one of its peers out.
std::vector<Passed> exchange_descriptors(const Group& group, int fd, std::span<const Rank> peers);

}  // namespace tutti::transport::shm
