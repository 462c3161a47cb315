#include "transport/shm/descriptor.hpp"

#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "base/system_error.hpp"
#include "base/uninterrupted.hpp"
#include "transport/all_gather.hpp"
#include "transport/fail_together.hpp"
#include "transport/shm/keyed_socket.hpp"

namespace tutti::transport::shm {

namespace {

/// One note and room for one descriptor, as sendmsg and recvmsg take them.
class Envelope {
 public:
  explicit Envelope(Rank note = -1) : note_(note) {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_.data();
    message_.msg_controllen = control_.size();
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  [[nodiscard]] msghdr* message() { return &message_; }
  [[nodiscard]] cmsghdr* header() { return CMSG_FIRSTHDR(&message_); }
  [[nodiscard]] Rank note() const { return note_; }

 private:
  Rank note_;
  iovec data_{&note_, sizeof note_};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
  msghdr message_{};
};

// Of all ranks together, as many of a user's descriptors may be under way as one process may have open
// (unix(7), ETOOMANYREFS), which may be 1024.
constexpr int at_once = 8;

/// Those of the peers that are some steps on from this rank, or, `direction` -1, before it.
std::vector<Rank> in_step(int step, const Group& group, std::span<const Rank> peers, int direction) {
  std::vector<Rank> some;
  for (const Rank peer : peers)
    if ((direction * (peer - group.rank) + group.size) % group.size / at_once == step) some.push_back(peer);
  return some;
}

/// Those of `from`, who have sent them.
void take_descriptors(std::vector<Passed>& all, Listener& listener, const Group& group,
                      std::vector<Rank> from) {
  const bootstrap::Limit limit(Deadline(group.timeout), group.check_members);
  while (!from.empty()) {
    const FileDescriptor connection = listener.accept(limit);
    if (!connection)
      throw nothing_from(std::move(from), "did not pass memory to others of this host", group.timeout);
    if (!bootstrap::wait_for(connection.get(), POLLIN, limit)) continue;
    auto [descriptor, note] = receive_descriptor(connection.get());
    if (descriptor && std::erase(from, note) != 0) all.push_back({note, std::move(descriptor)});
  }
}

}  // namespace

void talk_checking(const std::function<void()>& talk, const std::function<void()>& check) {
  constexpr std::chrono::milliseconds heard_within{300};
  try {
    talk();
  } catch (const Error&) {
    for (const Deadline deadline(heard_within); check && !deadline.passed(); ::sched_yield()) check();
    throw;
  }
}

Error nothing_from(std::vector<Rank> ranks, std::string_view did_not, std::chrono::milliseconds timeout) {
  std::ranges::sort(ranks);
  std::string text = fmt::format("rank{} {} {} in {} ms", ranks.size() == 1 ? "" : "s",
                                 fmt::join(ranks, ", "), did_not, timeout.count());
  return {ErrorCode::timeout, text, std::move(ranks)};
}

void send_descriptor(int connection, int fd, Rank note) {
  Envelope envelope(note);
  cmsghdr* header = envelope.header();
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (uninterrupted([&] { return ::sendmsg(connection, envelope.message(), MSG_NOSIGNAL); }) != sizeof note)
    throw_errno(errno == ETOOMANYREFS ? "cannot pass memory to a rank of this host, since too much is on its "
                                        "way to ranks that take none (ulimit -n)"
                                      : "cannot pass memory to a rank of this host");
}

std::pair<FileDescriptor, Rank> receive_descriptor(int connection) {
  Envelope envelope;
  const auto got = uninterrupted([&] { return ::recvmsg(connection, envelope.message(), MSG_CMSG_CLOEXEC); });
  if (got > 0 && (envelope.message()->msg_flags & MSG_CTRUNC) != 0)
    throw_errno("cannot take the memory of a rank of this host", EMFILE);
  const cmsghdr* header = got == sizeof(Rank) ? envelope.header() : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return {FileDescriptor(fd), envelope.note()};
}

// Who connects waits for nobody, but for room: what it sends stays in the socket until it is accepted.
std::vector<Passed> exchange_descriptors(const Group& group, int fd, std::span<const Rank> peers) {
  Key mine;
  ::randombytes_buf(mine.data(), mine.size());
  std::optional<Listener> listener;
  do_together(group, [&] { listener.emplace(mine); });
  const std::vector<Key> keys = all_gather(group, mine);
  std::vector<Passed> all;
  for (int step = 0; step * at_once < group.size; ++step) {
    do_together(group, [&] {
      const bootstrap::Limit limit(Deadline(group.timeout), group.check_members);
      for (const Rank to : in_step(step, group, peers, 1)) {
        const Key& theirs = keys[static_cast<std::size_t>(to)];
        talk_checking(
            [&] {
              const auto connection = connect_to(theirs, to, limit);
              send_descriptor(connection.get(), fd, group.rank);
            },
            group.check_members);
      }
    });
    do_together(group, [&] { take_descriptors(all, *listener, group, in_step(step, group, peers, -1)); });
  }
  return all;
}

}  // namespace tutti::transport::shm
