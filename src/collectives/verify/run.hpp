/// \file
/// The one run of a schedule on symbolic values that proves all its runs.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/verify.hpp>

#include "collectives/verify/contract.hpp"
#include "collectives/verify/fifo.hpp"
#include "collectives/verify/memory.hpp"

namespace tutti::proof {

/// Clock entries that a proof keeps at most: a gigabyte.
inline constexpr std::size_t max_clock_entries = std::size_t{1} << 28;

/// Runs every lane as far as it gets. The schedule must have passed `check_header` and `check_steps`.
class Run {
 public:
  /// `clock_entries`: it gives up where clocks would have more.
  Run(const Schedule& schedule, const VerifyOptions& options, const Contract& contract, Memory& memory,
      std::size_t clock_entries = max_clock_entries);
  /// Runs to the end, then checks what only shows there.
  std::optional<Fault> run();

 private:
  struct Process {  ///< a lane as it runs
    Rank rank = 0;
    int lane = 0;
    const Lane* steps = nullptr;
    std::uint32_t next = 0;   ///< steps that have run, over all pieces
    std::size_t settled = 0;  ///< operands of the next one that it need not wait for
    bool queued = true;
    std::shared_ptr<SharedClock> clock;  ///< changed only while no message shares it
  };

  [[nodiscard]] bool ended(const Process& process) const;
  [[nodiscard]] const Step& next_step(const Process& process) const;
  [[nodiscard]] Event now(const Process& process) const;
  Fifo& fifo(const Process& process, const Operand& message, bool sends);
  void wake(int process);
  /// Advances a lane until it must wait.
  void advance(Process& process);
  const Operand* blocked_on(Process& process);

  void execute(Process& process, const Step& step);
  void receive(Process& process, const Step& step);
  void join(std::shared_ptr<SharedClock>& clock, const Payload& payload);
  std::vector<Value> fold(Process& process, const Step& step);
  void check_complete(const Step& step, const std::vector<Value>& values, bool forwards) const;
  void store(Process& process, const Step& step, const std::vector<Value>& values);
  void publish(Process& process, const Step& step, std::vector<Value> values);
  void release(Process& process, const Step& step);
  /// Another rank's memory may be touched only between that rank's start and end.
  void touch(const Process& process, const Operand& operand);

  std::optional<Fault> deadlock();
  std::optional<Fault> check_messages() const;
  std::optional<Fault> check_order() const;

  const Schedule& schedule_;
  const VerifyOptions& options_;
  const Contract& contract_;
  Memory& memory_;
  std::size_t credits_;
  std::size_t clock_entries_;           ///< the most that may be kept
  std::size_t clock_entries_kept_ = 0;  ///< by `processes_` and `fifos_`
  std::vector<Process> processes_;
  std::vector<int> first_process_;  ///< of each rank, and one past the last
  Fifos fifos_;
  std::deque<int> ready_;
  std::map<std::pair<Rank, int>, std::uint32_t>
      touched_;  ///< (owner, process of another rank) -> its latest access
};

}  // namespace tutti::proof
