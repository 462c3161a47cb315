/// \file
/// A rank's side of the session: one connection to the hub.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/deadline.hpp"
#include "bootstrap/connection.hpp"
#include "bootstrap/hub.hpp"
#include "bootstrap/session.hpp"

namespace tutti::bootstrap {

class Member final : public Session {
 public:
  struct Identity {
    Rank rank = 0;
    int size = 1;
    Secret secret{};  ///< of the id
    std::string address;
  };
  /// `hub`: rank 0's, else null.
  Member(Identity identity, FileDescriptor socket, std::unique_ptr<Hub> hub);
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Returns nothing when the hub says that all have joined. A fault: why the group did not form that this
  /// rank had given up and came to again; the next one can be met now. Throws as Session::join.
  std::optional<Fault> await_welcome(std::chrono::milliseconds timeout);

  [[nodiscard]] Rank rank() const override { return identity_.rank; }
  [[nodiscard]] int size() const override { return identity_.size; }
  [[nodiscard]] const Secret& secret() const override { return secret_; }
  [[nodiscard]] std::string address() const override { return identity_.address; }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine, std::chrono::milliseconds timeout) override;
  std::optional<Notice> poll() override;
  bool hub_has_ended() override;
  void announce_failure(std::uint64_t communicator, const Error& why) noexcept override;
  void announce_abort(std::uint64_t communicator, const Error& why) noexcept override;
  void announce_closed(std::uint64_t communicator, std::span<const Rank> members) noexcept override;
  void report_stuck(std::uint64_t communicator, Rank me, std::span<const CallRecord> calls) noexcept override;
  void leave(std::chrono::milliseconds linger) noexcept override;

 private:
  /// Reads and writes what it can; mutex held.
  void pump();
  void take(FrameKind kind, std::span<const std::byte> payload);
  /// Pumps until `done` (evaluated with the mutex held) or nothing more can come; false after the deadline.
  bool wait(const Deadline& deadline, const std::function<bool()>& done);
  void announce(Notice::Kind kind, std::uint64_t communicator, const Error& why) noexcept;
  /// Queues a frame and pushes it out, for at most `patience`.
  void push(const Frame& frame, std::chrono::milliseconds patience);
  /// Says goodbye before there was a welcome. Where there will be none, returns when the hub has ended: until
  /// then who comes again would meet the same one.
  void give_up() noexcept;
  /// Asks the hub for whom this rank waits, unless that comes to an end meanwhile.
  void ask_who_is_missing();
  /// After a wait that was in vain, or before one; mutex held. The first returns when nothing speaks against
  /// success.
  void throw_if_impossible(const std::string& what) const;
  [[noreturn]] void throw_timeout(const std::string& what, std::chrono::milliseconds timeout) const;
  [[nodiscard]] bool is_forked_copy() const { return generation_ != fork_generation(); }

  const Identity identity_;
  const std::uint64_t generation_;
  std::unique_ptr<Hub> hub_;

  std::mutex mutex_;  ///< guards all below
  std::optional<Connection> connection_;
  bool waiting_ = false;  ///< a thread is in `wait` and pumps; others leave the input to it
  bool welcome_ = false;
  Secret secret_{};  ///< of the group; as it is once there was a welcome
  bool leaving_ = false;
  bool cut_off_ = false;  ///< nothing more can come from the hub
  std::deque<Notice> notices_;
  std::vector<Notice> gone_;  ///< lost and left, ever
  std::uint64_t gather_ = 0;  ///< all_gathers begun
  std::optional<std::vector<Bytes>> gathered_;
  std::optional<Fault> rejected_, ended_, missing_;
};

}  // namespace tutti::bootstrap
