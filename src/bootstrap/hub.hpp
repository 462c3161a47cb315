/// \file
/// The centre of the star: forms the group, relays what concerns all, notices who dies.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "bootstrap/connection.hpp"
#include "bootstrap/lobby.hpp"
#include "bootstrap/referee.hpp"

namespace tutti::bootstrap {

/// One thread of rank 0's process, asleep in poll(2). All that is private is its own.
class Hub {
 public:
  /// `own`: the hub's end of a socket pair with rank 0. Ranks that have not joined after `timeout` are named
  /// to the others. Throws Error(system).
  Hub(FileDescriptor listener, const Secret& secret, int size, std::chrono::milliseconds timeout,
      FileDescriptor own);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;
  /// Relays what has arrived, closes all connections and returns.
  ~Hub();
  /// Serves on until all ranks have gone, or, of a group that cannot form, all others have heard why; then
  /// ends. Returns whether that took at most `patience`.
  bool end_with_last(std::chrono::milliseconds patience) noexcept;
  [[nodiscard]] bool over() const;
  /// Returns once what rank 0 has said before is relayed, or `by` has passed.
  void settle(const Deadline& by) noexcept;
  /// In a child made by fork, where its thread is not: to be left as it is.
  [[nodiscard]] bool is_copy() const { return generation_ != fork_generation(); }
  /// So many failures and aborts it remembers to have relayed, the latest: more than come at the same time.
  /// One that comes again later is told again, and changes nothing for those who know it.
  static constexpr std::size_t most_relayed = 16'384;

 private:
  enum class Presence : std::uint8_t { absent, present, left, lost };
  struct Member {
    Presence presence = Presence::absent;
    bool came = false;                     ///< ever
    bool gave_up = false;                  ///< on this group, before it formed; who comes again may stay
    bool heard = false;                    ///< why the group cannot form; or it died, and will not come
    std::optional<Connection> connection;  ///< while present
    std::optional<Bytes> contribution;     ///< to the all_gather under way
    std::string origin;                    ///< address and port
  };

  void wake() noexcept;
  [[nodiscard]] std::uint64_t asked();
  void set_settled(std::uint64_t until);
  void run() noexcept;
  void serve_once(int timeout_ms);
  [[nodiscard]] bool finished() const;
  [[nodiscard]] int poll_ms() const;
  void flush_all();

  void enter(FileDescriptor socket, const Hello& hello);
  void form_when_complete();
  void reject(const Fault& fault);
  /// What a rank is told of a group that cannot form.
  [[nodiscard]] Frame farewell(const Member& member) const;
  void serve(Rank rank);
  void handle(Rank from, FrameKind kind, std::span<const std::byte> payload);
  void contribute(Rank from, std::span<const std::byte> payload);
  void relay(Rank from, Notice notice);
  void depart(Rank rank, Presence how);
  void broadcast(const Frame& frame, Rank except = -1);
  void send(Rank to, const Frame& frame);
  [[nodiscard]] Fault who_is_missing() const;

  const int size_;
  const Deadline formation_;
  std::mutex wake_mutex_;
  PrivateDescriptor wake_;  ///< until its thread ends
  std::atomic<bool> stop_{false}, ends_with_last_{false};
  std::mutex settling_;  ///< guards what follows
  std::condition_variable settled_now_;
  std::uint64_t asked_ = 0;    ///< how often to settle
  std::uint64_t settled_ = 0;  ///< how often it has; only its thread changes that
  std::promise<void> ended_;
  std::future<void> over_ = ended_.get_future();
  Lobby lobby_;
  std::vector<Member> members_;
  std::set<Rank> doomed_;  ///< to be lost at the next opportunity
  bool formed_ = false;
  Frame rejection_;                             ///< once the group cannot form: for everybody who still comes
  Frame end_;                                   ///< likewise, for who gave up before and comes again
  std::vector<PrivateDescriptor> turned_away_;  ///< who came then; open until nobody can come any more
  std::uint64_t gather_ = 0;
  Referee referee_;
  using Told = std::pair<std::uint64_t, Notice::Kind>;
  std::set<Told> relayed_;             ///< of which communicators what was told
  std::deque<Told> order_of_relayed_;  ///< those, the latest last
  std::vector<pollfd> waiting_;        ///< what it polls; a member, not to look leaked in a child of fork
  std::vector<Rank> polled_;           ///< whose connections are among those
  std::uint64_t generation_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tutti::bootstrap
