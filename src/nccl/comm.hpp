/// \file
/// What an ncclComm_t refers to: a rank's Communicator and Gpu, and how far their making and ending are.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/communicator.hpp>
#include <tutti/gpu.hpp>

#include "gpu/api.hpp"
#include "gpu/resources.hpp"
#include "nccl/abi.hpp"
#include "nccl/config.hpp"
#include "nccl/reduction.hpp"
#include "nccl/turns.hpp"

namespace tutti::nccl {

/// One call, until its group ends.
struct Queued {
  Call call;
  cudaStream_t stream = nullptr;
  const std::byte* factor_at = nullptr;  ///< a pre-multiplied sum's scalar in device memory
};

/// The ranks of one communicator that are in this process. None of them can end before the others, and one
/// thread may have them all: it is the last that waits.
struct Neighbours {
  std::mutex mutex;
  std::condition_variable moved;
  int open = 0;     ///< not destroyed or finalized
  int closing = 0;  ///< whose ending is under way
};

/// Memory that a program said it will use again.
struct Registration {
  enum class Kind : std::uint8_t { buffer, window };
  Kind kind = Kind::buffer;
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::optional<GpuRegistration> reach{};  ///< of a window: all ranks reach it
  bool dropped = false;                    ///< by the program
};

/// Any thread may ask for errors and abort; calls and the rest are one thread's at a time.
class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(int device, Config config) : device_(device), config_(std::move(config)) {}
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // jobs.cpp
  /// The next one among the jobs on this communicator.
  std::shared_ptr<Turn> next_turn() { return turns_.next(); }
  /// Does `work` on a thread of its own. Until it is done the state is ncclInProgress, then ncclSuccess or
  /// what it failed with. False where it cannot be started: so it has failed.
  [[nodiscard]] bool start(const char* function, std::function<void()> work);
  /// Waits for it; the state. What it failed with becomes this thread's last error.
  ncclResult_t finish();
  /// The state, likewise, without waiting.
  ncclResult_t poll();
  /// `part` is about to be made of this one.
  void add_part(const std::shared_ptr<Comm>& part);
  /// Whether it is nonblocking, and parts of it are being made.
  [[nodiscard]] bool makes_parts();

  // connect.cpp. Collective, as jobs.
  void join(const UniqueId& id, Rank rank, int size, const Options& options);
  /// `turn`: the parent's; ended when that is needed no more.
  void join_part(Comm& parent, int color, int key, Turn& turn);
  /// For a rank that gets no communicator of a split.
  void leave_part(int key);
  /// A communicator of `survivors`, ranks of `parent`, without its help: it may have failed.
  void join_survivors(Comm& parent, const std::vector<Rank>& survivors);

  // close.cpp
  /// Ends it, with the others, in the background; waits where it is blocking and the last in this process.
  ncclResult_t close(const char* function);
  /// Ends it alone: kernels under way give up, on all ranks.
  void abort();
  /// Calls under way fail, on all ranks, and no more are taken.
  void revoke();

  // run.cpp
  void run(std::span<const Queued> calls);
  /// Throws what `run` would refuse the call for.
  void admit(const Queued& queued);
  /// All of `run` that could wait for the device or throw: a thread with several communicators does it before
  /// it runs the first.
  void prepare(std::span<const Queued> calls);
  /// What other ranks or the device reported, for good once they did. It is logged when it is first heard of,
  /// and becomes this thread's last error each time.
  ncclResult_t reported();

  /// Throws Failure(ncclInvalidArgument) while a job is under way, or what the last one failed with; also
  /// where it is not made yet.
  void require_ready() const;
  /// The same, but for what a job after its making failed with.
  void require_made() const;
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// What these will be, before `join` is through.
  void expect(Rank rank, int size) { rank_ = rank, size_ = size; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] bool revoked() const { return revoked_; }
  [[nodiscard]] bool closed() const { return closed_; }

  // memory.cpp
  std::shared_ptr<Registration> add_registration(Registration::Kind kind, void* memory, std::size_t bytes);
  /// Throws Failure for what is none of this communicator, or of another kind: of a buffer ncclInvalidUsage,
  /// as NCCL does, of a window ncclInvalidArgument.
  void drop_registration(Registration::Kind kind, const void* registration);
  /// Of a window that came to nothing.
  void undo_registration(const std::shared_ptr<Registration>& registration);
  /// Collective, as a job. Where ranks cannot reach each other's memory so, the window is without effect.
  void open_window(Registration& window);

  Reductions reductions;

 private:
  void connect(const std::shared_ptr<Communicator>& communicator);
  void make_own_part(Communicator& communicator);
  /// The mutex of registrations is held.
  void let_go(const std::shared_ptr<Registration>& registration);
  void disconnect();
  void check();
  void settle(ncclResult_t result);
  [[nodiscard]] bool is_being_made() const;
  void require_state(bool may_have_failed) const;
  /// Calls and jobs under way fail, on all ranks.
  void break_off(const char* why);
  /// For jobs. Throws Failure where it was aborted since they were asked for.
  [[nodiscard]] std::shared_ptr<Communicator> communicator() const;
  [[nodiscard]] std::shared_ptr<Neighbours> neighbours() const;
  std::optional<Communicator> split(int color, int key);
  UniqueId successor(Rank rank);
  void set_successor(Rank rank, const UniqueId& id);
  /// The calls, those whose factor lies on the device of copies of their inputs.
  GpuGroup group_of(std::span<const Queued> calls);
  std::byte* room_for_copy(const Call& call, std::size_t place);
  void copy_inputs(std::span<const Queued> calls, gpu::Stream stream);
  void gather_streams(std::span<const Queued> calls, bool before);

  const int device_;
  const Config config_;
  std::atomic<Rank> rank_{-1};
  std::atomic<int> size_{0};
  std::atomic<bool> revoked_{false}, closed_{false};

  mutable std::mutex state_mutex_;  ///< of what follows
  std::condition_variable state_changed_;
  ncclResult_t state_ = ncclInvalidUsage;
  std::string failure_ = "the communicator is not made yet: its group has not ended";
  bool made_ = false;  ///< the first job has ended, which makes it
  std::vector<std::weak_ptr<Comm>> parts_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Neighbours> neighbours_;  ///< nullptr until it is connected
  bool aborted_ = false;

  std::mutex report_mutex_;  ///< of what follows
  ncclResult_t reported_ = ncclSuccess;
  std::string report_;

  Turns turns_;
  std::mutex use_;  ///< of what follows; never held while a host waits for other ranks, but in jobs
  std::shared_ptr<gpu::Api> api_;
  std::optional<Gpu> gpu_;
  gpu::OwnEvent between_streams_;
  gpu::OwnEvent copies_read_;         ///< those of `scaled_`, outside captures
  bool copied_ = false;               ///< since then there are such
  std::vector<UniqueId> successors_;  ///< by rank: the id under which it would gather survivors
  std::vector<gpu::DeviceMemory> scaled_;
  std::vector<std::size_t> scaled_bytes_;
  std::vector<gpu::DeviceMemory> outgrown_;  ///< graphs may refer to it

  /// Of what follows. Not `use_`: a rank that drops one does not wait for a job, which may wait for ranks
  /// that the same thread brings later.
  std::mutex registrations_mutex_;
  std::set<std::shared_ptr<Registration>> registrations_;
};

}  // namespace tutti::nccl
