// What joining and leaving cost, and what a communicator holds, on the ranks of one mpirun:
// mpirun -n 8 --oversubscribe start-bench
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <vector>

#include <tutti/tutti.hpp>

#include "run_tool.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run() {
  constexpr int rounds = 9;
  constexpr std::size_t largest = std::size_t{16} << 20;
  constexpr double mebibyte = 1 << 20;
  const auto id = [](tutti::Communicator& comm) {
    auto text = comm.rank() == 0 ? tutti::UniqueId::create("lo").to_string() : std::string();
    text.resize(256);
    comm.broadcast(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), 0);
    return tutti::UniqueId::parse(text.c_str());
  };
  const auto started = Clock::now();
  auto world = tutti::Communicator::from_environment();
  const double first = Milliseconds(Clock::now() - started).count();
  const auto slowest = [&](double mine) {
    double all = 0;
    world.all_reduce(std::span<const double>(&mine, 1), std::span(&all, 1), tutti::ReduceOp::max);
    return all;
  };
  // Of the rank that came last: the others also waited for mpirun to start it.
  double last = 0;
  world.all_reduce(std::span<const double>(&first, 1), std::span(&last, 1), tutti::ReduceOp::min);
  std::vector<double> joining, leaving, idle, used;
  for (int round = 0; round < rounds; ++round) {
    const auto together = id(world);
    world.barrier();
    const auto begun = Clock::now();
    std::optional<tutti::Communicator> comm(std::in_place, together, world.rank(), world.size());
    joining.push_back(slowest(Milliseconds(Clock::now() - begun).count()));
    idle.push_back(slowest(static_cast<double>(comm->stats().memory_held) / mebibyte));
    for (std::size_t bytes = 8; bytes <= largest; bytes *= 2) {
      const std::vector<float> in(bytes / sizeof(float), 1.0F);
      std::vector<float> out(in.size());
      comm->all_reduce(std::span<const float>(in), std::span(out));
    }
    used.push_back(slowest(static_cast<double>(comm->stats().memory_held) / mebibyte));
    world.barrier();
    const auto over = Clock::now();
    comm.reset();
    leaving.push_back(slowest(Milliseconds(Clock::now() - over).count()));
  }
  if (world.rank() != 0) return EXIT_SUCCESS;
  fmt::print("from the environment {:.1f} ms, again {:.1f} ms, leaving {:.1f} ms\n", last, median(joining),
             median(leaving));
  fmt::print("held a rank: {:.2f} MiB idle, {:.2f} MiB after calls of up to 16 MiB\n", median(idle),
             median(used));
  return EXIT_SUCCESS;
}

}  // namespace

int main() { return tutti::run_tool("start-bench", run); }
