/// \file
/// The state behind a Window.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/deadline.hpp"
#include "window/counters.hpp"
#include "window/peers.hpp"
#include "window/setting.hpp"

namespace tutti::detail {

/// How long a call may wait, counted from the first look: what is done already looks at no clock. Of the
/// communicator's timeout only a part of what passes between two looks counts, since a process that is
/// stopped sees nothing come.
class Limit {
 public:
  /// `given` by the caller, or else the communicator's `timeout`.
  Limit(std::optional<std::chrono::milliseconds> given, std::chrono::milliseconds timeout)
      : length_(given.value_or(timeout)), is_timeout_(!given) {}
  /// `has_deadline`: what is waited for has a deadline, which takes the place of the communicator's timeout.
  bool passed(bool has_deadline = false) {
    const auto now = Clock::now();
    if (end_ == Clock::time_point{}) end_ = now + bounded(length_), looked_ = now;
    const auto unseen = now - std::exchange(looked_, now) - longest_unseen;
    if (is_timeout_) end_ += std::max(unseen, Clock::duration{});
    return !(is_timeout_ && has_deadline) && now >= end_;
  }
  [[nodiscard]] std::chrono::milliseconds length() const { return length_; }

 private:
  std::chrono::milliseconds length_;
  bool is_timeout_;
  Clock::time_point end_{};  ///< the epoch: nobody has looked yet
  Clock::time_point looked_;
};

class WindowState : public std::enable_shared_from_this<WindowState> {
 public:
  explicit WindowState(WindowSetting setting);
  ~WindowState();
  WindowState(const WindowState&) = delete;
  WindowState& operator=(const WindowState&) = delete;
  /// For tests, which make windows without a communicator.
  static Window make_window(WindowSetting setting);

  [[nodiscard]] const transport::Group& group() const { return setting_.group; }
  [[nodiscard]] const WindowPeer& peer(Rank rank) const;
  WindowPeer& peer(Rank rank);
  /// Returns when nothing that peers send to this rank's server is done any more. Once the communicator ends.
  void stop_serving() { peers_->server.reset(); }

  // state.cpp: starting.
  enum class Direction : std::uint8_t { put, get };
  Transfer move(Direction direction, Rank target, const Block& block, const TransferOptions& options);
  Transfer notify(Rank target, std::uint32_t id);
  Batch prepare(Direction direction, Rank target, std::span<const Block> blocks);
  Transfer post(const Batch& batch, const TransferOptions& options);
  std::uint64_t atomic(Rank target, std::size_t offset,
                       const std::function<void(transport::RemoteMemory&, std::uint64_t*)>& start);

  // wait.cpp: until something is done, or something has happened to somebody.
  void wait(const Transfer& transfer, std::optional<std::chrono::milliseconds> timeout);
  bool test(const Transfer& transfer);
  void flush(Rank target);
  void flush();
  void wait_notification(std::uint32_t id, std::uint64_t count, Rank from,
                         std::optional<std::chrono::milliseconds> timeout);
  bool test_notification(std::uint32_t id, std::uint64_t count, Rank from);

 private:
  /// What an error is about.
  struct Subject {
    const char* verb;  ///< "put", "get", "atomic", ...
    Rank target;
    std::size_t offset = 0, bytes = 0;
  };
  /// "window "kv" on rank 0: put of 64 bytes, rank 1 at offset 128".
  [[nodiscard]] std::string describe(const Subject& subject) const;
  [[nodiscard]] std::string title() const;
  void check_block(const Subject& subject, const Block& block) const;
  /// What a rank moves within its own memory.
  void check_apart(const Subject& subject, const Block& block) const;
  void check_number(std::uint32_t id) const;
  void check_notification(std::uint32_t id, Rank from) const;
  bool take_notification(std::uint32_t id, std::uint64_t count, Rank from);
  Transfer start(const Subject& subject, Direction direction, std::span<const Block> blocks,
                 const TransferOptions& options);
  static Subject subject_of(const Transfer& transfer) {
    return {transfer.verb_, transfer.target_, transfer.offset_, transfer.bytes_};
  }
  /// Runs what uses a way to a target. A failure is kept for all later uses, be it a lack of memory; but a
  /// target that has not answered in time may be asked again, and so may one that this rank had not the means
  /// to connect to.
  template <class Use>
  auto use(const Subject& subject, const transport::RemoteMemory& way, Use use_it) {
    WindowPeer& to = peer(subject.target);
    if (to.failure) raise(subject, *to.failure);
    if (to.out_of_memory) raise(subject, out_of_memory(setting_.group.rank));
    try {
      return use_it();
    } catch (const Error& error) {
      const bool connecting = way.started() == 0;
      if (error.code() != ErrorCode::timeout && !(connecting && error.code() == ErrorCode::system))
        to.failure = error;
      raise(subject, error);
    } catch (const std::bad_alloc&) {
      to.out_of_memory = way.started() != 0;  // what is queued would be sent with what comes next
      raise(subject, out_of_memory(setting_.group.rank));
    }
  }
  /// The ranks at fault stay those of `why`; where it names none, it is the target.
  [[noreturn]] void raise(const Subject& subject, const Error& why) const;

  /// What somebody waits for: the operations of a way up to `number`.
  struct Awaited {
    enum class Kind : std::uint8_t { transfer, all_transfers, atomic };
    Subject subject;
    transport::RemoteMemory* way;
    std::uint64_t number;
    Kind kind = Kind::transfer;
  };
  [[nodiscard]] Awaited all_transfers(Rank target) const;
  /// `all_moved`: `progress` was called right before.
  bool is_done(const Awaited& one, bool all_moved);
  /// Throws when there is nothing to wait for any more.
  void check(const Awaited& one, Limit& limit);
  /// Until all are done, or each is given up. Then throws what it met first; an abort at once.
  void wait_until(std::span<Awaited> left, Limit limit);
  /// Throws when the window is over or the target gone; `grace`: what a rank sent before it went may still
  /// arrive for so long.
  void check_target(const Subject& subject, Clock::duration grace);
  /// Throws when the deadline of the operation with this number has passed, or with `all` that of any; true
  /// when there is one.
  bool check_deadlines(WindowPeer& to, std::uint64_t number, bool all) const;
  void check_sources(std::uint32_t id, Rank from);
  /// Rarely more than a look at the clock.
  void require_usable() const;
  void look_around();
  void mark_busy(Rank target);
  /// Moves what is under way to all targets.
  void progress();
  void sleep(std::chrono::microseconds longest);

  WindowSetting setting_;
  Counters counters_;
  std::optional<WindowPeers> peers_;
  std::vector<Rank> busy_;  ///< targets with transfers that may not be done
  Clock::time_point looked_;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace tutti::detail
