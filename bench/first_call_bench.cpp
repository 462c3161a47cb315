// What the first call of a size costs above later ones, on the ranks of one mpirun:
// mpirun -n 8 --oversubscribe first-call-bench
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

// Of the slowest rank.
float timed_all_reduce(tutti::Communicator& comm, std::span<const float> in, std::span<float> out) {
  comm.barrier();
  const auto begun = Clock::now();
  comm.all_reduce(in, out);
  const auto mine = static_cast<float>(Microseconds(Clock::now() - begun).count());
  float slowest = 0;
  comm.all_reduce(std::span(&mine, 1), std::span(&slowest, 1), tutti::ReduceOp::max);
  return slowest;
}

}  // namespace

int main() {
  auto comm = tutti::Communicator::from_environment();
  constexpr std::size_t sizes[] = {8, 4096, 65536, std::size_t{1} << 20, std::size_t{16} << 20};
  constexpr int calls = 60, warm = 20;
  const std::vector<float> in(sizes[4] / sizeof(float), 1.0F);
  std::vector<float> out(in.size());
  // Printed at the end: who prints wakes mpirun, which takes a processor from a rank.
  std::string table =
      fmt::format("{:>10} {:>10} {:>10} {:>10}\n", "bytes", "first us", "later us", "above us");
  for (const std::size_t bytes : sizes) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> times;
    times.reserve(calls);
    for (int call = 0; call < calls; ++call)
      times.push_back(timed_all_reduce(comm, std::span(in).first(count), std::span(out).first(count)));
    const float first = times[0];
    times.erase(times.begin(), times.begin() + warm);
    std::sort(times.begin(), times.end());
    const float later = times[times.size() / 2];
    table += fmt::format("{:>10} {:>10.1f} {:>10.1f} {:>10.1f}\n", bytes, first, later, first - later);
  }
  if (comm.rank() == 0) fmt::print("{}", table);
}
