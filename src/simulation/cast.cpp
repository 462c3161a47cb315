#include "simulation/cast.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "collectives/passes.hpp"

namespace tutti::simulation {

namespace {

// Ends that only have an identity: lowering stores pointers to them, and nobody calls them.
struct Out final : transport::Sender {
  std::vector<int> fifos;
  std::byte* try_reserve(std::size_t /*bytes*/) override { return nullptr; }
  void publish(std::size_t /*bytes*/, transport::Tag /*tag*/) override {}
  bool try_send(const std::byte* /*data*/, std::size_t /*bytes*/, transport::Tag /*tag*/,
                bool /*stable*/) override {
    return false;
  }
  bool flushed() override { return true; }
};
struct In final : transport::Receiver {
  int fifo = -1;
  const std::byte* try_acquire(std::size_t /*bytes*/, transport::Tag /*tag*/) override { return nullptr; }
  void release() override {}
  bool try_receive(std::byte* /*into*/, std::size_t /*bytes*/, transport::Tag /*tag*/) override {
    return false;
  }
};

class Wiring final : public execution::Channels {
 public:
  Wiring(Rank self, const Network& network, Quotient& quotient)
      : self_(self), network_(network), quotient_(quotient) {}
  transport::Sender& sender(Rank peer, int channel) override {
    Out& end = out_.emplace_back();
    end.fifos = {quotient_.kind(quotient_, self_, peer, channel)};
    return end;
  }
  transport::Receiver& receiver(Rank peer, int channel) override {
    In& end = in_.emplace_back();
    end.fifo = quotient_.kind(quotient_, peer, self_, channel);
    return end;
  }
  // A multicast is a FIFO to every other rank, apart from the pairwise ones of the same channel.
  [[nodiscard]] bool multicasts() const override { return network_.processor.multicasts; }
  transport::Sender* multicast_sender(int channel) override {
    Out& end = out_.emplace_back();
    for (Rank r = 0; r < network_.ranks; ++r)
      if (r != self_) end.fifos.push_back(quotient_.kind(quotient_, self_, r, max_channels + channel));
    return &end;
  }
  transport::Receiver* multicast_receiver(Rank from, int channel) override {
    In& end = in_.emplace_back();
    end.fifo = quotient_.kind(quotient_, from, self_, max_channels + channel);
    return &end;
  }

 private:
  Rank self_;
  const Network& network_;
  Quotient& quotient_;
  std::deque<Out> out_;
  std::deque<In> in_;
};

}  // namespace

execution::Shape shape_of(const Schedule& schedule, const Workload& workload, bool even) {
  execution::Shape shape;
  const std::size_t element = size_of(workload.type);
  switch (schedule.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::barrier: {
      shape.divisible = true;
      shape.total = schedule.collective == Collective::barrier ? 0 : workload.bytes;
      const auto chunks = static_cast<std::size_t>(std::max(schedule.chunks, 1));
      if (even) shape.total = chunks * execution::chunk_bytes(shape.total, chunks, element);
      break;
    }
    default: {
      const std::size_t block = workload.bytes / static_cast<std::size_t>(schedule.ranks) / element * element;
      shape.input = execution::equal_blocks(block, input_chunks(schedule));
      shape.output = execution::equal_blocks(block, output_chunks(schedule));
    }
  }
  return shape;
}

std::vector<Actor> cast(const Schedule& schedule, const Network& network, const Workload& workload,
                        Quotient& quotient, bool even) {
  execution::LowerSettings settings;
  settings.piece = workload.piece;
  settings.max_message = workload.max_message;
  settings.type = workload.type;
  settings.stable = workload.views && network.views();
  const execution::Shape shape = shape_of(schedule, workload, even);
  std::optional<Schedule> split;
  if (settings.stable) split = sent_from_memory(schedule);
  const Schedule& as_run = split ? *split : schedule;
  const execution::Overview overview = execution::overview_of(as_run);
  std::vector<Actor> actors;
  actors.reserve(quotient.representatives.size());
  for (const Rank rank : quotient.representatives) {
    Wiring wiring(rank, network, quotient);
    Actor& actor = actors.emplace_back();
    actor.rank = rank;
    actor.program = execution::lower(as_run, overview, rank, shape, settings, wiring);
    for (execution::Sink& sink : actor.program.sinks) {
      if (const auto* out = static_cast<Out*>(sink.sender))
        actor.outgoing.insert(actor.outgoing.end(), out->fifos.begin(), out->fifos.end());
      actor.outgoing_end.push_back(static_cast<std::uint32_t>(actor.outgoing.size()));
      sink.sender = nullptr;  // it ends with `wiring`
    }
    for (execution::Source& source : actor.program.sources) {
      actor.sources.push_back(source.receiver == nullptr ? -1 : static_cast<In*>(source.receiver)->fifo);
      source.receiver = nullptr;
    }
  }
  return actors;
}

}  // namespace tutti::simulation
