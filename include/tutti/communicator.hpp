/// \file
/// The group of ranks and what they do together: where a program starts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/operations.hpp>
#include <tutti/options.hpp>
#include <tutti/schedule.hpp>
#include <tutti/stats.hpp>
#include <tutti/unique_id.hpp>

namespace tutti {

namespace detail {
struct Impl;
struct Pending;
struct Region;
}  // namespace detail

/// An operation under way. It moves when its thread waits for, tests or starts anything. The call's buffers
/// belong to it until it is done. The destructor waits; if the operation fails then, the communicator's next
/// call reports that as Error(aborted). Use it on the thread that uses its communicator. If the communicator
/// is destroyed before it is done, it ends with Error(aborted).
class [[nodiscard]] Work {
 public:
  /// Nothing, and done, as one that was moved from.
  Work() = default;
  Work(Work&&) noexcept = default;
  /// Waits for what it was before.
  Work& operator=(Work&&) noexcept;
  ~Work();
  /// Returns when the operation is done. Throws as the blocking call would, and Error(timeout) after
  /// `timeout` (the operation is then still under way and may be waited for again) or after the
  /// communicator's own deadline. Towards that deadline, waits and tests of one operation count together, and
  /// the time between two of them counts as 100 ms at most.
  void wait();
  void wait(std::chrono::milliseconds timeout);
  /// True when done; moves things along. Throws as `wait` would.
  bool test();

 private:
  friend struct detail::Impl;
  friend class Async;
  friend class Group;
  explicit Work(std::shared_ptr<detail::Pending> pending) : pending_(std::move(pending)) {}
  std::shared_ptr<detail::Pending> pending_;
};

/// The asynchronous form of every operation: `Work w = comm.async().all_reduce(...)`. Counts and
/// displacements are copied. Sends and receives progress concurrently, those from one rank to another in
/// order, so they may be started in any order. Collectives follow each other in the order of their calls, a
/// blocking one, too.
class Async : public Operations<Async, Work> {
 public:
  /// Those of the communicator.
  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;

 private:
  friend class Communicator;
  friend class Operations<Async, Work>;
  explicit Async(detail::Impl& impl) : impl_(&impl) {}
  Work submit(const Call& call);
  detail::Impl* impl_;
};

/// Collects calls and starts them together. Sends and receives of one group progress concurrently, so no mix
/// of them deadlocks; collectives follow in the order of their calls. Counts and displacements are copied.
/// What is wrong with a call's arguments is thrown when it is added; those before it stay. A group that is
/// destroyed without `start` or `run` did nothing.
class Group : public Operations<Group, void> {
 public:
  /// Those of the communicator.
  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// Starts all collected calls, and forgets them, also where it throws; the Work is done when all are.
  /// Throws Error as the calls would.
  Work start();
  /// `start` and `wait`.
  void run();

 private:
  friend class Communicator;
  friend class Operations<Group, void>;
  explicit Group(detail::Impl& impl) : impl_(&impl) {}
  void submit(const Call& call);
  detail::Impl* impl_;
  detail::CallList calls_;
};

/// Page-aligned memory from `Communicator::allocate`, which peers on this host read and write directly. It is
/// freed, on this rank alone, when its last copy and the last window of it are gone, or with the
/// communicator; no call under way may use it then. The last copy ends on the communicator's thread.
template <Element T>
class Buffer {
 public:
  /// Empty, of size() 0 at nullptr, as one that was moved from.
  Buffer() = default;
  Buffer(const Buffer&) = default;
  Buffer(Buffer&& other) noexcept
      : region_(std::move(other.region_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    region_.swap(other.region_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() = default;
  /// All of it, `size()` elements; any thread may ask.
  [[nodiscard]] std::span<T> span() const noexcept { return {static_cast<T*>(data_), size_}; }
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(data_); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size_; }

 private:
  friend class Communicator;
  Buffer(std::shared_ptr<detail::Region> region, void* data, std::size_t size)
      : region_(std::move(region)), data_(data), size_(size) {}
  std::shared_ptr<detail::Region> region_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Keeps memory registered while it, a copy of it, or a window of that memory and communicator lives, but not
/// beyond the communicator. Free the memory only after that: as the registration ends, the memory gets pages
/// of its own again, with what is in it. (Where the system has no room for these, pages that are written get
/// copies; the others stay in shared memory, which is held for as long as they are, and the memory cannot be
/// registered again. Under strict overcommit, vm.overcommit_memory = 2, all of it may stay so, shared with
/// children made by fork.) That concerns this rank alone; no call under way may use the memory then. The last
/// copy ends on the communicator's thread.
class Registration {
 public:
  /// Of nothing.
  Registration() = default;

 private:
  friend class Communicator;
  explicit Registration(std::shared_ptr<detail::Region> region) : region_(std::move(region)) {}
  std::shared_ptr<detail::Region> region_;
};

/// A group of ranks. Move-only handle: assignment destroys what it was before. Without a group, default
/// constructed or moved from, it may only be destroyed, assigned to, or asked whether it has one. One thread
/// at a time uses it, except `abort`, which any thread may call. No asynchronous work may be under way when
/// it passes to another thread.
///
/// Destroying it, which takes a few seconds at most, tells the others that this rank left in order;
/// destroying it while an exception passes through tells them that it failed. After fork, every call in the
/// child throws Error(forked), except `rank`, `size`, `local_rank`, `local_size`, `host`, `hosts`, `stats`
/// and `use_default`; `abort` and destruction reach nobody there.
class Communicator : public Operations<Communicator, void> {
 public:
  /// Has no group.
  Communicator() noexcept;
  /// Joins the group named by `id` as `rank` of `size`, at most 2^20. Rank 0 must be in the process that made
  /// the id, or, once that has ended, in one on its host. Where `size` is 1, any id will do, also UniqueId().
  /// Throws Error: timeout naming the ranks that did not come, peer_lost, unauthorized, invalid_argument,
  /// mismatch (other options), unsupported (a forced transport), system; aborted when another rank could not
  /// make its part, with its reason.
  Communicator(const UniqueId& id, Rank rank, int size, const Options& options = Options::from_environment());
  /// Joins the ranks that a launcher started, as its variables say: tutti's own, PMIx (Open MPI's mpirun,
  /// Slurm), PMI (MPICH's mpiexec), torchrun-style ones, Slurm's. Without any of them there is one rank.
  /// Threads of a process that call this at once take turns, and ranks meet in that order. Throws Error as
  /// the constructor does; also invalid_argument for a variable that makes no sense, unsupported under a
  /// launcher that this build was made without, and forked in a child of a process that has asked the
  /// launcher before.
  static Communicator from_environment(const Options& options = Options::from_environment());
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();
  /// Whether it has a group.
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  /// This rank, 0 <= rank < size, and how many there are. Any thread may ask.
  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// The same among the ranks of this host. Any thread may ask.
  [[nodiscard]] Rank local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;
  /// Which host this rank is on, 0 <= host < hosts, in the order of their lowest ranks, and how many there
  /// are. A host is one kernel, network namespace and process-id namespace: a container may be one. Any
  /// thread may ask.
  [[nodiscard]] int host() const noexcept;
  [[nodiscard]] int hosts() const noexcept;

  /// Cheap to make; valid while the communicator lives, also when that is moved. One thread at a time, the
  /// communicator's.
  [[nodiscard]] Async async() noexcept { return Async(*impl_); }
  [[nodiscard]] Group group() noexcept { return Group(*impl_); }

  /// Throws what has happened since the last call: Error(peer_lost) when a rank died, Error(aborted or
  /// mismatch) when one failed or aborted; the communicator is then unusable. Calls find that out themselves;
  /// this is for a rank that computes for long. Waits for nobody; moves nothing.
  void check();

  /// Communicators of the ranks with equal `color`, ordered by `key`, then rank. Collective. A negative color
  /// gets none. Throws Error as other calls do, and system; this communicator is then unusable, too. Once
  /// made, they do not need this one: either may end first, and be another thread's.
  ///
  /// `split(host())` makes one of each host's ranks, as MPI_Comm_split_type does for MPI_COMM_TYPE_SHARED;
  /// `split(local_rank())` makes some across hosts, with at most one rank of each.
  [[nodiscard]] std::optional<Communicator> split(int color, int key = 0);
  /// A communicator of the same ranks whose calls are independent of this one's. Collective. Throws as
  /// `split`.
  [[nodiscard]] Communicator duplicate();
  /// Makes every call on every rank of this communicator fail with Error(aborted) and `reason`. That includes
  /// calls under way, unless they come to their end without having to wait. Returns within one second, from
  /// any thread. Idempotent. A thread that it releases may destroy the communicator; the destructor waits
  /// until `abort` has returned. If this rank has failed before, the others hear why it did, not `reason`.
  void abort(const std::string& reason = "abort was called") noexcept;

  /// `count` zeroed elements that peers on this host reach directly. Most operations of 512 KiB and more
  /// whose buffers are all such memory copy nothing through the library; shorter ones, from 16 KiB on, do so
  /// where that proves faster (`explain` says). RDMA devices send from it to other hosts without a copy. All
  /// this goes for calls and windows of this communicator; to others it is plain memory. When this returns,
  /// its pages are there, on this rank's NUMA node, and this rank has mapped its peers', if those of all
  /// ranks of the host are 1 GiB at most (Linux 5.14); else its first calls do that. Collective; counts may
  /// differ. Throws Error(invalid_argument) beyond 64 GiB a rank, once all ranks have made the call: the
  /// others have theirs, and the communicator is as before; likewise Error(system) where it cannot be mapped,
  /// or not be locked for RDMA devices.
  template <Element T>
  [[nodiscard]] Buffer<T> allocate(std::size_t count) {
    constexpr auto most = static_cast<std::size_t>(-1);  // refused once all ranks have made the call
    auto [region, data] = allocate_bytes(count > most / sizeof(T) ? most : count * sizeof(T));
    return Buffer<T>(std::move(region), data, count);
  }
  /// Makes existing memory reachable as if it had been allocated here, at the same address. It must be whole
  /// pages of private anonymous memory (mmap, aligned_alloc of whole pages). It must be registered with no
  /// communicator yet, not be part of a window that was made before, not be accessed by other threads during
  /// the call, and not be pinned for devices (CUDA, RDMA) when the call begins or when the Registration ends.
  /// A child made by fork afterwards shares it. Where all ranks are threads of this process, any host memory
  /// will do. Collective. Throws Error(invalid_argument) for other memory, as far as that can be told, once
  /// all ranks have made the call, so that it harms nobody; likewise Error(system) where it cannot be mapped,
  /// or not be locked for RDMA devices (ulimit -l).
  [[nodiscard]] Registration register_memory(void* data, std::size_t bytes);

  /// Runs calls of `schedule.collective` with its root by this schedule, until another `use` for that
  /// collective, whatever the root, or `use_default`. Collective: all ranks pass the same schedule, else the
  /// next such call is a mismatch.
  ///
  /// The schedule is proved first. Throws Error(invalid_schedule) with the fault, or when the schedule is for
  /// another number of ranks, reaches into buffers of other ranks (which need not be reachable), confuses
  /// chunks that may differ in length (docs/schedules.md), or reduces in another order than
  /// Options::rank_order asks; calls throw it, with nothing sent, where a message of theirs would be longer
  /// than the transport takes. If it holds only out of place, calls in place copy their input. Results are
  /// bitwise equal on all ranks only if the schedule folds in the same order for each
  /// (Proof::same_everywhere).
  ///
  /// The library's own schedules still run calls with blocks of different sizes and, under
  /// Options::rank_order, sums, products and averages of 8- and 16-bit floats which the schedule would round
  /// more than once (not Proof::one_fold). Neither communicators made from this one nor a Gpu of it take the
  /// schedule: they choose by themselves.
  void use(const Schedule& schedule);
  /// Calls of `collective` choose by themselves again. Collective. Throws nothing.
  void use_default(Collective collective);

  /// Which transport, algorithm, message size and path a call would take, and why; several lines. That
  /// depends on its buffers, which `call` names, too; who has none yet leaves them null, which stands for
  /// plain memory, out of place. For a collective it connects to the peers that the call would send to, where
  /// that takes a network and no call did so before; for a send it does not. Null pointers aside, throws what
  /// the call itself would until then: Error(invalid_argument, invalid_schedule), aborted when the
  /// communicator is unusable, or forked; timeout, peer_lost or system where a peer is not reached.
  [[nodiscard]] std::string explain(const Call& call) const;
  /// `explain`, and what the simulator makes of the call on the machines that the ranks are on: the means of
  /// each kind of pair and why better ones are refused, lanes, chunk and predicted time of the fastest
  /// candidate, and why the next ones lose (docs/topology.md). The text is not for programs to parse; it
  /// takes milliseconds to seconds. Collective, with equal calls: the first time, ranks exchange their
  /// machines, about 100 bytes a rank and each kind of machine once, behind collectives that were started
  /// before. Throws as `explain`; where the simulator cannot follow, the text says why.
  [[nodiscard]] std::string predict(const Call& call);
  /// What this rank's calls have moved so far. Throws nothing.
  [[nodiscard]] Stats stats() const;

 private:
  friend class Operations<Communicator, void>;
  friend class Gpu;
  friend class Window;
  explicit Communicator(std::unique_ptr<detail::Impl> impl);
  void submit(const Call& call);
  std::pair<std::shared_ptr<detail::Region>, void*> allocate_bytes(std::size_t bytes);
  std::unique_ptr<detail::Impl> impl_;
};

}  // namespace tutti
