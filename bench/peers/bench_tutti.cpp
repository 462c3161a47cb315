/// \file
/// tutti's collectives under the common harness.
#include <exception>
#include <iostream>
#include <tutti/tutti.hpp>

#include "cores.hpp"
#include "harness.hpp"

namespace {

using bench::Operation;

class Tutti : public bench::Backend {
 public:
  explicit Tutti(bool register_buffers)
      : communicator_(tutti::Communicator::from_environment()), register_buffers_(register_buffers) {}

  [[nodiscard]] int rank() const override { return communicator_.rank(); }
  [[nodiscard]] int size() const override { return communicator_.size(); }
  void barrier() override { communicator_.barrier(); }
  double max(double value) override {
    communicator_.all_reduce(std::span(&value, 1), tutti::ReduceOp::max);
    return value;
  }
  [[nodiscard]] std::shared_ptr<void> attach(void* memory, std::size_t bytes) override {
    if (!register_buffers_) return nullptr;
    return std::make_shared<tutti::Registration>(communicator_.register_memory(memory, bytes));
  }
  std::function<void()> prepare(const bench::Call& call, float* in, float* out) override {
    tutti::Communicator& comm = communicator_;
    const std::span<const float> all_in(in, call.total), block_in(in, call.block());
    const std::span<float> all_out(out, call.total), block_out(out, call.block());
    switch (call.operation) {
      case Operation::all_reduce:
        return [=, &comm] { comm.all_reduce(all_in, all_out); };
      case Operation::reduce_scatter:
        return [=, &comm] { comm.reduce_scatter(all_in, block_out); };
      case Operation::all_gather:
        return [=, &comm] { comm.all_gather(block_in, all_out); };
      case Operation::all_to_all:
        return [=, &comm] { comm.all_to_all(all_in, all_out); };
      case Operation::broadcast: {
        const std::span<float> buffer(call.is_root() ? in : out, call.total);
        return [=, &comm] { comm.broadcast(buffer, 0); };
      }
      case Operation::reduce:
        return [=, &comm] { comm.reduce(all_in, all_out, 0); };
      case Operation::gather:
        return [=, &comm] { comm.gather(block_in, all_out, 0); };
      case Operation::scatter:
        return [=, &comm] { comm.scatter(all_in, block_out, 0); };
      case Operation::barrier:
        return [&comm] { comm.barrier(); };
      case Operation::ping_pong:
        return [=, &comm] {
          if (call.rank % 2 == 0) comm.send(all_in, call.next());
          comm.receive(all_out, call.next());
          if (call.rank % 2 != 0) comm.send(all_in, call.next());
        };
      case Operation::shift:
        return [=, &comm] {
          tutti::Group group = comm.group();
          group.send(all_in, call.next());
          group.receive(all_out, call.previous());
          group.run();
        };
      case Operation::all_gather_v:
      case Operation::reduce_scatter_v:
      case Operation::all_to_all_v:
        return prepare_uneven(call, in, out);
    }
    return {};
  }

 private:
  std::function<void()> prepare_uneven(const bench::Call& call, float* in, float* out) {
    tutti::Communicator& comm = communicator_;
    const bench::Blocks blocks = call.uneven(0), to = call.uneven(call.rank);
    const std::size_t own = blocks.counts[static_cast<std::size_t>(call.rank)];
    if (call.operation == Operation::all_gather_v)
      return [=, &comm] {
        comm.all_gather_v(std::span<const float>(in, own), std::span(out, call.total), blocks.counts);
      };
    if (call.operation == Operation::reduce_scatter_v)
      return [=, &comm] {
        comm.reduce_scatter_v(std::span<const float>(in, call.total), std::span(out, own), blocks.counts);
      };
    return [=, &comm] {  // who sends how much to whom is symmetric
      comm.all_to_all_v(std::span<const float>(in, call.total), to.counts, to.displacements,
                        std::span(out, call.total), to.counts, to.displacements);
    };
  }

  tutti::Communicator communicator_;
  bool register_buffers_;
};

}  // namespace

int main(int argc, char** argv) try {
  bench::Options options;
  bench::CommandLine line("tutti's collectives, measured", options);
  bool register_buffers = false;
  line.add_flag("--register", register_buffers, "Register the buffers before the first call");
  if (const auto status = line.parse(argc, argv)) return *status;
  bench::pin(bench::launched_rank(), options.cores);
  Tutti backend(register_buffers);
  return bench::run(backend, options) ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 2;
}
