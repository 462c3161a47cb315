/// \file
/// MPI's collectives under the common harness; compiled once for each MPI that is installed.
#include <mpi.h>

#include <exception>
#include <iostream>

#include "cores.hpp"
#include "harness.hpp"

namespace {

using bench::int_of;
using bench::Operation;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": MPI returned error " + std::to_string(code));
}

class Mpi : public bench::Backend {
 public:
  explicit Mpi(bool reduce_scatter_v) : reduce_scatter_v_(reduce_scatter_v) {
    check(MPI_Init(nullptr, nullptr), "MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Mpi() override { MPI_Finalize(); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void barrier() override { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  double max(double value) override {
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    return value;
  }
  std::function<void()> prepare(const bench::Call& call, float* in, float* out) override {
    const int count = int_of(call.count());
    switch (call.operation) {
      case Operation::all_reduce:
        return [=] {
          check(MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
        };
      case Operation::reduce_scatter:
        return reduce_scatter(call, in, out);
      case Operation::all_gather:
        return [=] {
          check(MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Allgather");
        };
      case Operation::all_to_all:
        return [=] {
          check(MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Alltoall");
        };
      case Operation::broadcast:
        return [=, buffer = call.is_root() ? in : out] {
          check(MPI_Bcast(buffer, count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
        };
      case Operation::reduce:
        return
            [=] { check(MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce"); };
      case Operation::gather:
        return [=] {
          check(MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Gather");
        };
      case Operation::scatter:
        return [=] {
          check(MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Scatter");
        };
      case Operation::barrier:
        return [] { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); };
      case Operation::ping_pong:
      case Operation::shift:
        return point_to_point(call, in, out);
      case Operation::all_gather_v:
      case Operation::reduce_scatter_v:
      case Operation::all_to_all_v:
        return uneven(call, in, out);
    }
    return {};
  }

 private:
  [[nodiscard]] static std::function<void()> point_to_point(const bench::Call& call, float* in, float* out) {
    const int count = int_of(call.count()), next = call.next(), previous = call.previous();
    if (call.operation == Operation::shift)
      return [=] {
        check(MPI_Sendrecv(in, count, MPI_FLOAT, next, 0, out, count, MPI_FLOAT, previous, 0, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
      };
    const auto send = [=] { check(MPI_Send(in, count, MPI_FLOAT, next, 0, MPI_COMM_WORLD), "MPI_Send"); };
    return [=, first = call.rank % 2 == 0] {
      if (first) send();
      check(MPI_Recv(out, count, MPI_FLOAT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
      if (!first) send();
    };
  }
  [[nodiscard]] static std::function<void()> uneven(const bench::Call& call, float* in, float* out) {
    static_cast<void>(int_of(call.total));  // which bounds the counts and displacements of all ranks
    const auto ints = [](const std::vector<std::size_t>& from) {
      return std::vector<int>(from.begin(), from.end());
    };
    const bench::Blocks blocks = call.uneven(0), to = call.uneven(call.rank);
    const std::vector<int> counts = ints(blocks.counts), places = ints(blocks.displacements);
    if (call.operation == Operation::all_gather_v)
      return [=, own = counts[static_cast<std::size_t>(call.rank)]] {
        check(
            MPI_Allgatherv(in, own, MPI_FLOAT, out, counts.data(), places.data(), MPI_FLOAT, MPI_COMM_WORLD),
            "MPI_Allgatherv");
      };
    if (call.operation == Operation::reduce_scatter_v)
      return [=] {
        check(MPI_Reduce_scatter(in, out, counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
              "MPI_Reduce_scatter");
      };
    // Who sends how much to whom is symmetric.
    return [=, counts = ints(to.counts), places = ints(to.displacements)] {
      check(MPI_Alltoallv(in, counts.data(), places.data(), MPI_FLOAT, out, counts.data(), places.data(),
                          MPI_FLOAT, MPI_COMM_WORLD),
            "MPI_Alltoallv");
    };
  }
  [[nodiscard]] std::function<void()> reduce_scatter(const bench::Call& call, float* in, float* out) const {
    const int block = int_of(call.block());
    if (!reduce_scatter_v_)
      return [=] {
        check(MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
              "MPI_Reduce_scatter_block");
      };
    return [=, counts = std::vector<int>(static_cast<std::size_t>(call.size), block)] {
      check(MPI_Reduce_scatter(in, out, counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
            "MPI_Reduce_scatter");
    };
  }

  bool reduce_scatter_v_;
  int rank_ = 0, size_ = 1;
};

}  // namespace

int main(int argc, char** argv) try {
  bench::Options options;
  bench::CommandLine line("MPI's collectives, measured", options);
  bool reduce_scatter_v = false;
  line.add_flag("--reduce-scatter-v", reduce_scatter_v,
                "MPI_Reduce_scatter rather than MPI_Reduce_scatter_block");
  if (const auto status = line.parse(argc, argv)) return *status;
  bench::pin(bench::launched_rank(), options.cores);
  Mpi mpi(reduce_scatter_v);
  return bench::run(mpi, options) ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 2;
}
