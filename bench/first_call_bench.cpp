// What the first call of a size costs, beside the next five and later ones, on the ranks of one mpirun:
// mpirun -n 8 --oversubscribe first-call-bench
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

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

float median(std::span<const float> times) {
  std::vector<float> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  bool cold = false;
  CLI::App app{"First calls of a size beside later ones"};
  app.add_flag("--cold", cold,
               "Ranks write 64 MiB of other memory before each call: as cold as the first one");
  CLI11_PARSE(app, argc, argv);
  auto comm = tutti::Communicator::from_environment();
  constexpr std::size_t sizes[] = {8, 4096, 65536, std::size_t{1} << 20, std::size_t{16} << 20};
  constexpr std::size_t rounds = 61, next = 5, settled = 20;
  const std::vector<float> in(sizes[4] / sizeof(float), 1.0F);
  std::vector<float> out(in.size());
  std::vector<std::uint8_t> other(cold ? std::size_t{64} << 20 : 0);
  std::vector<float> times[std::size(sizes)];
  for (auto& of_size : times) of_size.reserve(rounds);
  // A round makes each call once, so that later ones follow the same call as the first one did.
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t s = 0; s < std::size(sizes); ++s) {
      for (std::size_t i = 0; i < other.size(); i += 64) ++other[i];  // memset goes past the caches
      const std::size_t count = sizes[s] / sizeof(float);
      times[s].push_back(timed_all_reduce(comm, std::span(in).first(count), std::span(out).first(count)));
    }
  if (comm.rank() != 0) return 0;
  // Printed at the end: who prints wakes mpirun, which takes a processor from a rank.
  fmt::print("{:>10} {:>10} {:>10} {:>10}\n", "bytes", "first us", "next us", "later us");
  for (std::size_t s = 0; s < std::size(sizes); ++s) {
    const auto all = std::span<const float>(times[s]);
    fmt::print("{:>10} {:>10.1f} {:>10.1f} {:>10.1f}\n", sizes[s], all[0], median(all.subspan(1, next)),
               median(all.subspan(settled)));
  }
}
