/// \file
/// The state behind a Communicator.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/communicator.hpp>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "communicator/host_buffers.hpp"
#include "communicator/plan.hpp"
#include "communicator/reused_buffers.hpp"
#include "communicator/task.hpp"
#include "communicator/waiting.hpp"
#include "communicator/watch.hpp"
#include "topology/world.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/why_not.hpp"

namespace tutti::detail {

class WindowState;

/// The order of sends to one peer, or of receives from one: that of their calls.
struct Tickets {
  std::uint64_t given = 0, served = 0;
};
/// What sends and receives have in common that run by one program.
struct MessageKey {
  Operation operation;
  Within within;
  Rank peer;
  std::size_t bytes;
  bool plain;  ///< its memory is not CUDA's
  bool operator==(const MessageKey&) const = default;
};

/// Registered memory; ends with its last owner or with the communicator.
struct Region {
  std::weak_ptr<transport::shm::DirectMemory*> memory;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> devices;  ///< keeps it registered with RDMA devices
  ~Region();
};

/// FIFOs to each peer over the transport chosen for it.
class Routes final : public execution::Channels {
 public:
  Routes(transport::shm::ShmTransport* shm, transport::Transport* verbs, transport::tcp::TcpTransport* tcp,
         bool multicast)
      : shm_(shm), verbs_(verbs), tcp_(tcp), multicast_(multicast) {}
  transport::Transport& to(Rank peer);
  transport::Sender& sender(Rank peer, int channel) override { return to(peer).sender(peer, channel); }
  transport::Receiver& receiver(Rank peer, int channel) override { return to(peer).receiver(peer, channel); }
  transport::Sender& stream_sender(Rank peer, int channel) override;
  transport::Receiver& stream_receiver(Rank peer, int channel) override;
  [[nodiscard]] bool multicasts() const override { return multicast_; }
  transport::Sender* multicast_sender(int channel) override;
  transport::Receiver* multicast_receiver(Rank from, int channel) override;

 private:
  transport::shm::ShmTransport* shm_;  ///< nullptr: not to be used for messages
  transport::Transport* verbs_;        ///< nullptr: leads to nobody
  transport::tcp::TcpTransport* tcp_;  ///< nullptr: all peers share memory
  bool multicast_;
};

/// What a rank sent before it went is still delivered: so long it is not held against it.
inline constexpr std::chrono::milliseconds gone_grace{100};

struct Impl {
  Impl(std::shared_ptr<Watch> watch, std::shared_ptr<transport::tcp::TcpListener> listener,
       transport::Group group, const Options& options, std::shared_ptr<const tuning::Tuning> tuning);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // impl.cpp: while the communicator is made, collectively.
  void connect();  ///< makes the transports, and `routes` over them
  [[nodiscard]] std::size_t max_message() const;
  [[nodiscard]] Planner::Setting planner_setting(std::shared_ptr<const tuning::Tuning> tuning) const;

  // choices.cpp: which algorithms calls take; likewise.
  /// As this rank sees it.
  [[nodiscard]] tuning::Scene scene(int node_size) const;
  /// Rank 0 decides. Collective.
  [[nodiscard]] std::shared_ptr<const tuning::Choices> agree_on_choices(const tuning::Tuning& tuning,
                                                                        const tuning::Scene& mine) const;

  /// Who leaves the library owes nobody a wake.
  struct Leaving {
    transport::shm::ShmTransport& shm;
    ~Leaving() { shm.progress(); }
  };

  // submit.cpp: from a call to a task that has its place among the others.
  void run(const Call& call);
  /// The task that remembers the call, if one does.
  Task* recall(const Call& call);
  void run_anew(const Call& call);
  /// Whether calls that it must come after are under way.
  [[nodiscard]] bool queued(const Call& call) const {
    return is_point_to_point(call) ? !point_to_point.empty() : !collectives.empty();
  }
  Sizes admit(const Call& call);
  void prepare(Task& task, const Call& call, const Sizes& sizes);
  /// Whether the task has just that call behind it, so that what was planned holds. It then has this one's
  /// counts, where they lie now.
  [[nodiscard]] bool is_ready(Task& task, const Call& call) const {
    if (task.generation != planner->generation() || !same_but_counts(call, task.call)) return false;
    return (!task.counted && !has_counts(call)) || adopts_counts(task, call);
  }
  static bool adopts_counts(Task& task, const Call& call);
  /// What a call runs by: one of the two. Holds until the next one is looked for.
  struct Found {
    const std::shared_ptr<const Plan>* plan;
    const std::shared_ptr<const execution::Program>* program;
    /// Calls need nothing but an execution.
    [[nodiscard]] bool plain() const { return plan == nullptr || ((*plan)->plain() && !(*plan)->empty); }
    /// Worth remembering: plain, soon over, and small.
    [[nodiscard]] bool brief() const {
      constexpr std::size_t most_operands = 128;
      const execution::Program& runs = plan == nullptr ? **program : (*plan)->program;
      return plain() && runs.brief && runs.sources.size() + runs.sinks.size() <= most_operands;
    }
  };
  /// Of an admitted call. What fails on the way to a peer ends the communicator, as in a call under way.
  Found find_plan(const Call& call, const Sizes& sizes);
  void take_plan(Task& task, const Call& call, const Sizes& sizes, const Found& found);
  /// A task of a blocking call with its plan.
  Task& planned(const Call& call, const Sizes& sizes);
  const std::shared_ptr<const execution::Program>& point_to_point_program(const Call& call,
                                                                          const Sizes& sizes);
  void issue(Task& task, bool again);
  void repeat(Task& task);
  void count_in(Task& task);
  void take_ticket(Task& task);
  void take_number(Task& task);
  [[nodiscard]] bool read_by_attach(const Call& call) const;
  /// Of a call that blocked, where a trial wants it.
  static void record_times(const Task& task);

  // begin.cpp: what a task does once it is its turn.
  void begin(Task& task);
  [[nodiscard]] static PathTrial::Turn own_turn(const Plan& plan, const PathTrial::Turn& of_all);
  /// For what peers reach by attach, if the call goes that way; before the first trial of long ones.
  void use_huge_pages(const Task& task);
  /// Where they are, and how others reach them; of v-forms, whose ranks read blocks, the input only.
  [[nodiscard]] OfferedMemory::Offer own_buffers(const Plan& plan, const Call& call, const Sizes& sizes);
  void offer(Task& task);
  const execution::Program& offer_program(bool each);
  void check_offered(const Task& task) const;
  static void decide(Task& task);
  void begin_main(Task& task);
  void copy_input(Task& task) const;
  void make_scratch(Task& task, std::uint64_t bytes) const;
  /// True when something moved.
  bool advance(Task& task) {
    if (task.done) return false;
    if (!task.begun) [[unlikely]]
      begin(task);
    const bool moved = task.on_others ? advance_on_others(task) : task.execution.advance();
    if (!task.execution.done()) return moved;
    go_on(task);
    return true;
  }
  void go_on(Task& task);
  bool advance_on_others(Task& task);

  // together.cpp: several calls.
  void run(std::span<const Call> calls);
  std::shared_ptr<Pending> start(std::span<const Call> calls);
  /// Sends and receives have been admitted, or are the library's own.
  void admit_together(std::span<const Call> calls);
  [[nodiscard]] bool repeats_last(std::span<const Call> calls) const;
  void deliver_own(std::span<const Call> calls);
  [[nodiscard]] bool to_itself(const Call& call) const;
  [[nodiscard]] std::shared_ptr<Pending> new_pending();

  // wait.cpp and diagnose.cpp: until something happens, or something has happened to somebody.
  void wait(Pending& pending, std::optional<Deadline> limit);
  void wait_direct(Task& task);
  [[gnu::noinline]] void wait_longer(Task& task);
  /// `current`: the task that moves or is waited for, for messages about what it meets.
  void wait_together(std::span<const std::unique_ptr<Task>> tasks, const Task*& current);
  template <class Advance, class Unfinished>
  void wait_until_done(Advance advance, Unfinished unfinished);
  bool test(Pending& pending);
  [[nodiscard]] bool is_over(const Pending& pending);
  void enqueue(const std::shared_ptr<Pending>& work);
  /// `why`: of a Work, by a task of it that is not done. Throws nothing.
  void end_queued(const std::function<std::exception_ptr(const Task&)>& why);
  void move_networks();
  bool advance_queues();
  bool advance(const Queued& queued);
  [[nodiscard]] std::uint64_t parts_until_now() const;
  [[nodiscard]] Movements movements_until_now() const;
  /// Those that the call takes its turn by.
  Tickets& tickets(const Call& call) {
    const std::size_t kind =
        (call.operation == Operation::send ? 0U : 1U) + (call.within == Within::nothing ? 0U : 2U);
    return message_tickets.at(kind)[static_cast<std::size_t>(call.root)];
  }
  [[nodiscard]] bool is_next(const Task& task) { return task.ticket == tickets(task.call).served; }
  Task& first_before(const Task& task);
  /// Looks around for who does not wait, or not for long enough.
  void look(Pending& pending, Clock::time_point now);
  [[noreturn]] void throw_not_done(const Task& unfinished);
  [[nodiscard]] bool waits_for_peer(const Task& task) const;
  [[nodiscard]] bool gains_by_leaving(const Wait& wait, const Task& task);
  [[nodiscard]] transport::Sleep& sleeper_for(const Task& task);
  void idle(Wait& wait, Task& task);
  void look_for_parts(Wait& wait, Clock::time_point now) const;
  void look_now_and_then(Wait& wait, Task& task, Clock::time_point now);
  void look_around(Wait& wait, Task& task, Clock::time_point now);
  std::vector<Rank> ranks_awaited(Task& task);
  [[nodiscard]] std::optional<Watch::Gone> gone(Rank rank) const;
  [[nodiscard]] Error sizes_differ(const Task& task, Rank from) const;
  [[nodiscard]] Error message_differs(const Task& task, const transport::Mismatch& mismatch) const;
  [[nodiscard]] std::optional<Rank> first_dead() const;
  [[nodiscard]] Error member_gone(const Task* task, Rank rank) const;
  [[nodiscard]] Error failure_of_others(const Task* task, const bootstrap::Notice& notice) const;
  std::optional<Error> failure_in_memory(const Task* task);
  [[nodiscard]] Error failure_of(const Task* task, Rank failed_rank, ErrorCode code,
                                 const std::vector<Rank>& at_fault) const;
  /// What has happened to others, as far as it was heard.
  std::optional<Error> heard(const Task* task);
  void check_others();
  Error explain_loss(const Task* task, const Error& loss);
  void check_members(Task& task);
  void check_calls(const Task& task);
  void report_calls();
  [[nodiscard]] std::string named(Rank rank, const std::string& more = "") const;
  /// For a sentence: who is awaited, and what each of them last called, as far as that is known.
  [[nodiscard]] std::string what_they_do(std::span<const Rank> ranks) const;
  /// Of a wait that takes too long: those of this host that have not made the call, and others that are
  /// awaited and may not have; or, where there are none, all that are awaited.
  [[nodiscard]] std::vector<Rank> at_fault(const Task& task, const std::vector<Rank>& awaited) const;
  /// `what_they_do`, also of those at fault that are not awaited.
  [[nodiscard]] std::string whom(const std::vector<Rank>& awaited, const std::vector<Rank>& at_fault) const;
  [[noreturn]] void give_up(Task& task, Clock::duration waited);
  [[noreturn]] void mismatched(const Task& task, const transport::Mismatch& mismatch);
  /// The error that is being handled, with the call it broke.
  [[nodiscard]] Error caught(const Task* task);
  /// The same; poisons the communicator and tells the others.
  std::exception_ptr fail(const Task* task);
  void close_buffers();
  /// What all members do: of this rank's part they hear where it has not the memory for it, or they would
  /// wait.
  template <class Part>
  auto with_others(Part part) {
    try {
      return part();
    } catch (const std::bad_alloc&) {
      std::rethrow_exception(fail(nullptr));
    }
  }
  void ensure_usable() const {
    if (tutti::fork_generation() != fork_generation || unusable.load(std::memory_order_acquire)) [[unlikely]]
      refuse();
  }
  [[noreturn]] void refuse() const;
  /// The call, with its number as the user counts.
  [[nodiscard]] std::string title(const Task& task) const;
  /// The error, with the call where it does not say which one.
  [[nodiscard]] Error of_call(const Task* task, const Error& error) const;

  // stats.cpp
  void warm_up();
  [[nodiscard]] Stats counted() const;
  [[nodiscard]] Stats stats() const;  ///< what was counted since `warm_up`

  /// abort.cpp. From any thread, which must have begun it before this ends.
  void abort(const std::string& reason) noexcept;

  // call_log.cpp: what each rank of this host is doing, in shared memory.
  [[nodiscard]] static LoggedForm loggable(const Call& call);
  void log_call(const Task& task);
  void log_counts(std::uint64_t order, const Call& call);
  struct LoggedCall {
    std::uint64_t sequence = 0;  ///< of a send or receive 0
    LoggedForm form;
    Rank root = 0;
    std::uint32_t order = 0;  ///< among all calls of the rank, modulo 2^32
    std::uint32_t tag = 0;
    [[nodiscard]] Operation operation() const { return static_cast<Operation>(form.kind >> 16 & 0xff); }
  };
  /// In the order of the calls.
  [[nodiscard]] std::vector<LoggedCall> logged_calls(Rank rank) const;
  /// Of v-forms, those that are logged; behind them the sum of all others, and zeros. Empty where they are
  /// not logged any more, and of other calls.
  [[nodiscard]] std::vector<std::size_t> logged_counts(Rank rank, const LoggedCall& logged) const;
  [[nodiscard]] std::string describe_logged(Rank rank, const LoggedCall& logged) const;
  [[nodiscard]] std::string doing(Rank rank) const;

  // region.cpp
  bool map_regions(const std::vector<transport::shm::MemoryOffer>& all) noexcept;
  void meet_on_host(Within within);
  /// `make` fills in this rank's part of what all make, and says how many bytes it is.
  std::shared_ptr<Region> make_region(Within within, const std::function<std::size_t(Region&)>& make);
  /// Those that share a byte with `memory`.
  [[nodiscard]] std::vector<std::shared_ptr<void>> regions_of(std::span<const std::byte> memory) const;

  /// window.cpp. Peers over TCP reach the windows made from this one no more.
  void end_windows() noexcept;

  // groups.cpp
  /// A number for the next communicator, or window, made from this one. Collective: all ranks count them
  /// alike. `color` tells those apart that one call makes; windows have -1.
  std::uint64_t next_child(int color);
  /// nullptr where this rank is in none.
  std::unique_ptr<Impl> split(int color, int key, Within within);
  std::unique_ptr<Impl> make_child(transport::Group child, const std::vector<Rank>& members);
  /// Everybody's bytes among some ranks, by sends and receives that those of the user do not meet.
  std::vector<std::vector<std::byte>> exchange(std::span<const Rank> members,
                                               std::span<const std::byte> mine);
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine);  ///< among all

  // explain.cpp
  [[nodiscard]] std::string explain(const Call& call);
  /// Admits a call that is only spoken of: null pointers are plain memory, out of place. Nothing remembers
  /// it, so that a call like it is still refused.
  Sizes admit_unmade(const Call& call);
  /// " (shm: why not; verbs: why not)" for the transports that are better than the chosen one.
  [[nodiscard]] std::string refusals(Rank peer, const transport::Transport& chosen) const;

  std::string predict(const Call& call);  ///< predict.cpp; collective, for `world`

  /// Where peers that need TCP connect to; made on first use, shared with children.
  std::shared_ptr<transport::tcp::TcpListener> data_listener();

  std::shared_ptr<Watch> watch;
  std::shared_ptr<transport::tcp::TcpListener> listener;  ///< see data_listener; may be empty
  transport::Group group;
  /// Ends after what carries messages.
  Membership membership{watch, group.communicator, group.rank, group.world};
  std::function<void()> check_parent;  ///< while it is made, or serves another one: throws what ends that
  Options options;
  std::unique_ptr<transport::shm::ShmTransport> shm;
  std::unique_ptr<transport::tcp::TcpTransport> tcp;  ///< only where some peer needs it
  std::unique_ptr<transport::Transport> verbs;        ///< only where it leads to some peer
  transport::WhyNot why_no_verbs;                     ///< where it was tried and leads to nobody
  bool all_shared = false;                            ///< all ranks share memory
  bool network_only = false;  ///< by force: ranks of one host do not share memory either
  std::unique_ptr<Routes> routes;
  /// A transport to sleep on, and by rank: not 0 for those whose messages come over another one.
  struct Sleeper {
    transport::Sleep on;
    std::vector<std::uint8_t> others;
  };
  std::vector<Sleeper> sleepers;  ///< of those that `routes` leads over
  std::unique_ptr<Planner> planner;
  std::optional<topology::World> world;  ///< where the ranks are; once somebody asked
  std::array<std::unique_ptr<execution::Program>, 2> offer_programs;
  std::shared_ptr<transport::shm::DirectMemory*> direct_handle;  ///< what regions hold weakly
  std::vector<std::weak_ptr<Region>> regions;                    ///< made last, and those that still are
  std::vector<std::weak_ptr<WindowState>> windows;               ///< likewise
  std::vector<std::shared_ptr<std::byte>> left_counters;         ///< of windows that were refused
  unsigned spin_polls = 0;                                       ///< fruitless polls before a rank yields
  unsigned looks_a_poll = 1;                                     ///< at messages of this host
  bool looks_beside = false;  ///< yields after the first one when it waits for a rank of its own processor

  HostBuffers host_buffers;
  ReusedBuffers reached_by_peers;                             ///< long ones, if calls go by attach
  std::unique_ptr<Task> blocking = std::make_unique<Task>();  ///< reused by blocking calls that are long
  /// Reused by those that are brief, each by some: programs repeat a few, in turn.
  std::array<std::unique_ptr<Task>, 256> remembered;
  Task* latest = nullptr;                            ///< of `remembered`, whose tasks stay where they are
  std::array<std::shared_ptr<Pending>, 8> pendings;  ///< begun last, in turn; reused when over and forgotten
  std::size_t next_pending = 0;
  std::vector<std::unique_ptr<Task>> together;     ///< reused by blocking groups
  std::vector<Sizes> together_sizes;               ///< of the calls that were admitted together last
  std::array<std::pair<Call, Sizes>, 3> admitted;  ///< the last collective, send and receive that passed
  std::deque<Queued> collectives;                  ///< run one after the other
  std::vector<Queued> point_to_point;              ///< run side by side, in order for each peer and direction
  std::uint64_t movements_of_queues = 0;           ///< how often something in them has moved
  Impl* next_active = nullptr;                     ///< of those with queued work, see wait.cpp
  /// Of sends and of receives, the user's and the library's own; by peer.
  std::array<std::vector<Tickets>, 4> message_tickets;
  std::vector<std::pair<MessageKey, std::shared_ptr<const execution::Program>>> point_to_point_programs;
  std::uint64_t sequence = 0;
  std::uint64_t warm_up_calls = 0;              ///< users count from there
  transport::Tag history = 0;                   ///< of the last collective call
  transport::shm::Control* call_log = nullptr;  ///< this rank's
  std::uint64_t calls_logged = 0;
  std::uint64_t children = 0;
  /// When another rank was first seen to have closed the buffers; 0: not yet. Any thread may look.
  std::atomic<Clock::rep> closing_seen{0};
  /// What the library itself calls, to make a communicator, say, does not count.
  void count_done(const Call& call) { completed += call.within == Within::nothing ? 1 : 0; }
  std::uint64_t completed = 0;
  std::uint64_t bytes_direct = 0;
  Stats before_use;
  std::uint64_t fork_generation = 0;

  std::atomic_flag abort_begun;
  std::mutex abort_under_way;  ///< held while it is
  std::atomic<bool> abort_requested{false};
  std::atomic<bool> unusable{false};  ///< `abort_requested` or `failed`: one flag for the hot path
  std::string abort_reason;           ///< written before `abort_requested` is set
  bool failed_before_abort = false;   ///< likewise: calls are refused with that, too
  /// Given up when it fails: to say why takes some, of which nothing else may be left.
  std::unique_ptr<std::byte[]> last_memory =
      std::make_unique_for_overwrite<std::byte[]>(std::size_t{16} << 10U);
  std::exception_ptr failed;
  std::string failed_text;                        ///< why, of `failed`
  std::vector<Rank> failed_ranks;                 ///< likewise
  transport::Sleep on_all;                        ///< `sleepers` at once
  std::chrono::microseconds longest_sleep{1000};  ///< tests have longer ones
};

/// Moves what this thread has started on any communicator. True when something moved. Throws nothing:
/// failures go to who waits for it.
bool advance_queued();

}  // namespace tutti::detail
