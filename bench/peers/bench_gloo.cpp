/// \file
/// Gloo's collectives over TCP under the common harness.
///
/// Gloo has two sets of algorithms. The newer ones (gloo::allreduce(options) ...) hand each message to a
/// thread that waits for sockets. The older ones (gloo::AllreduceHalvingDoubling ...) may use sockets
/// themselves (setSync), which is faster for what fits socket buffers. Where those work in place, copying the
/// input is part of the call, as it would be for whoever wants its input kept.
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstring>
#include <exception>
#include <iostream>
#include <memory>

#include "cores.hpp"
#include "harness.hpp"

namespace {

using bench::int_of;
using bench::Operation;

struct GlooOptions {
  int rank = 0, size = 1;
  std::string store, interface = "lo";
  std::string algorithm = "new";  ///< "new", or the older all_reduce that is meant
  std::string sync = "none";      ///< "none", "block", "busy"; not with "new"
};

/// A function that copies `copied` elements of `in` to `out` and runs `Algorithm` there.
template <class Algorithm, class... Arguments>
std::function<void()> in_place(const float* in, float* out, std::size_t copied, Arguments&&... arguments) {
  auto algorithm = std::make_shared<Algorithm>(std::forward<Arguments>(arguments)...);
  return [=] {
    std::memcpy(out, in, copied * sizeof(float));
    algorithm->run();
  };
}

class Gloo : public bench::Backend {
 public:
  explicit Gloo(const GlooOptions& options) : options_(options) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    control_ = connect("control");
    work_ = connect("work");
    if (options.sync == "none") return;
    for (int peer = 0; peer < options.size; ++peer)
      if (peer != options.rank) work_->getPair(peer)->setSync(true, options.sync == "busy");
  }

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int size() const override { return options_.size; }
  void barrier() override {
    gloo::BarrierOptions options(control_);
    gloo::barrier(options);
  }
  double max(double value) override {
    gloo::AllreduceOptions options(control_);
    options.setOutput(&value, 1);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }
  std::function<void()> prepare(const bench::Call& call, float* in, float* out) override {
    if (options_.algorithm == "new") return newer(call, in, out);
    return older(call, in, out);
  }

 private:
  [[nodiscard]] std::shared_ptr<gloo::Context> connect(const std::string& prefix) {
    gloo::rendezvous::FileStore files(options_.store);
    gloo::rendezvous::PrefixStore store(prefix, files);
    auto context = std::make_shared<gloo::rendezvous::Context>(options_.rank, options_.size);
    context->setTimeout(std::chrono::seconds(20));
    context->connectFullMesh(store, device_);
    return context;
  }

  /// A function that runs `function` with input and output set.
  template <class Options>
  std::function<void()> with_buffers(void (*function)(Options&), Options options, float* in,
                                     std::size_t in_count, float* out, std::size_t out_count) {
    if (in != nullptr) options.setInput(in, in_count);
    if (out != nullptr) options.setOutput(out, out_count);
    auto shared = std::make_shared<Options>(std::move(options));
    return [=] { function(*shared); };
  }

  std::function<void()> newer(const bench::Call& call, float* in, float* out) {
    const std::size_t total = call.total, block = call.block();
    const auto sum = static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>);
    switch (call.operation) {
      case Operation::all_reduce: {
        auto options = std::make_shared<gloo::AllreduceOptions>(work_);
        options->setInput(in, total);
        options->setOutput(out, total);
        options->setReduceFunction(sum);
        return [=] { gloo::allreduce(*options); };
      }
      case Operation::reduce: {
        gloo::ReduceOptions options(work_);
        options.setRoot(0);
        options.setReduceFunction(sum);
        return with_buffers(gloo::reduce, std::move(options), in, total, out, total);
      }
      case Operation::all_gather:
        return with_buffers(gloo::allgather, gloo::AllgatherOptions(work_), in, block, out, total);
      case Operation::all_to_all:
        return with_buffers(gloo::alltoall, gloo::AlltoallOptions(work_), in, total, out, total);
      case Operation::broadcast: {
        gloo::BroadcastOptions options(work_);
        options.setRoot(0);
        return with_buffers(gloo::broadcast, std::move(options), nullptr, 0, call.is_root() ? in : out,
                            total);
      }
      case Operation::gather: {
        gloo::GatherOptions options(work_);
        options.setRoot(0);
        return with_buffers(gloo::gather, std::move(options), in, block, call.is_root() ? out : nullptr,
                            total);
      }
      case Operation::scatter: {
        auto options = std::make_shared<gloo::ScatterOptions>(work_);
        options->setRoot(0);
        std::vector<float*> blocks;
        for (int r = 0; r < call.size && call.is_root(); ++r)
          blocks.push_back(in + block * static_cast<std::size_t>(r));
        options->setInputs(blocks, block);
        options->setOutput(out, block);
        return [=] { gloo::scatter(*options); };
      }
      default:
        return {};
    }
  }

  std::function<void()> older(const bench::Call& call, float* in, float* out) {
    const std::vector<float*> data{out};
    // Not all of them count by ints.
    const auto total = [&] { return int_of(call.total); };
    const auto block = [&] { return int_of(call.block()); };
    switch (call.operation) {
      case Operation::all_reduce:
        if (options_.algorithm == "bcube")
          return in_place<gloo::AllreduceBcube<float>>(in, out, call.total, work_, data, total());
        if (options_.algorithm == "ring_chunked")
          return in_place<gloo::AllreduceRingChunked<float>>(in, out, call.total, work_, data, total());
        return in_place<gloo::AllreduceHalvingDoubling<float>>(in, out, call.total, work_, data, total());
      case Operation::reduce_scatter:
        return in_place<gloo::ReduceScatterHalvingDoubling<float>>(
            in, out, call.total, work_, data, total(),
            std::vector<int>(static_cast<std::size_t>(call.size), block()));
      case Operation::all_gather: {
        auto algorithm =
            std::make_shared<gloo::AllgatherRing<float>>(work_, std::vector<const float*>{in}, out, block());
        return [=] { algorithm->run(); };
      }
      case Operation::broadcast: {
        auto algorithm = std::make_shared<gloo::BroadcastOneToAll<float>>(
            work_, std::vector<float*>{call.is_root() ? in : out}, call.total);
        return [=] { algorithm->run(); };
      }
      default:
        return {};
    }
  }

  GlooOptions options_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::Context> control_,
      work_;  ///< a context whose pairs are synchronous runs older algorithms only
};

}  // namespace

int main(int argc, char** argv) try {
  bench::Options options;
  bench::CommandLine line("Gloo's collectives over TCP, measured", options);
  GlooOptions gloo;
  line.require("--rank", gloo.rank, "This process");
  line.require("--size", gloo.size, "Processes");
  line.require("--store", gloo.store, "Empty folder that all processes see");
  line.add("--interface", gloo.interface, "Network interface");
  line.add("--algorithm", gloo.algorithm, "Newer algorithms, or older ones and which all_reduce",
           {"new", "halving_doubling", "bcube", "ring_chunked"});
  line.add("--sync", gloo.sync, "Older algorithms: who waits for sockets, and how",
           {"none", "block", "busy"});
  if (const auto status = line.parse(argc, argv)) return *status;
  bench::pin(gloo.rank, options.cores);
  Gloo backend(gloo);
  return bench::run(backend, options) ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 2;
}
