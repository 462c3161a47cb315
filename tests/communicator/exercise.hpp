/// \file
/// One call whose inputs every rank can compute for every other: each rank checks its own result against a
/// slow reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace tutti::test {

struct Exercise {
  Operation operation = Operation::all_reduce;
  std::size_t count = 1;  ///< as in Call; v-forms: half the largest count of a rank
  bool in_place = false;
  DataType type = DataType::float32;
  Reduction reduction = ReduceOp::sum;
  Rank root = 0;
  std::uint32_t seed = 1;         ///< of inputs and of the counts of v-forms
  std::vector<double> factors{};  ///< of the contributions, by rank; empty: none
};
std::string to_string(const Exercise& exercise);

/// All collectives, v-forms included, without barrier.
std::span<const Operation> data_operations();
bool reduces(Operation operation);
bool has_root(Operation operation);
/// all_to_all_v is the one that cannot be in place.
bool can_be_in_place(Operation operation);

/// The buffers of one rank in an Exercise. Outputs start as a pattern, and lie between guards.
class Trial {
 public:
  Trial(const Exercise& exercise, Rank rank, int size);
  /// In the caller's memory, of at least `memory_bytes` each; no guards.
  Trial(const Exercise& exercise, Rank rank, int size, std::byte* in, std::byte* out);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() = default;

  [[nodiscard]] const Call& call() const { return call_; }
  /// Empty when the output is right and nothing else was written; else what is wrong.
  [[nodiscard]] std::string wrong() const;

 private:
  struct Block {
    Rank from;  ///< -1: the reduction over all ranks
    std::size_t source, target, count;
  };
  void describe_call();
  void place(std::byte* in, std::byte* out);
  void fill() const;
  [[nodiscard]] std::vector<Block> blocks() const;
  [[nodiscard]] std::span<const std::byte> expected() const;
  [[nodiscard]] std::vector<std::size_t> counts_between(Rank rank, bool outgoing) const;

  Exercise exercise_;
  Rank rank_;
  int size_;
  std::size_t element_;
  // Elements.
  std::size_t in_count_ = 0, out_count_ = 0;
  std::size_t part_at_ = 0;                        ///< the smaller buffer's place in the larger
  std::size_t shared_first_ = 0, shared_end_ = 0;  ///< what of the input the output lies over
  std::vector<std::size_t> in_counts_, in_displacements_, out_counts_, out_displacements_;
  std::vector<std::byte> in_memory_, out_memory_;
  Call call_;
};

/// Makes `call` on a Communicator, its `async()`, or a Group.
template <class Operations>
auto issue(Operations& to, const Call& call) {
  const auto& c = call;
  switch (c.operation) {
    case Operation::all_reduce:
      return to.all_reduce(c.in, c.out, c.count, c.type, c.reduction);
    case Operation::reduce:
      return to.reduce(c.in, c.out, c.count, c.type, c.root, c.reduction);
    case Operation::reduce_scatter:
      return to.reduce_scatter(c.in, c.out, c.count, c.type, c.reduction);
    case Operation::all_gather:
      return to.all_gather(c.in, c.out, c.count, c.type);
    case Operation::broadcast:
      return to.broadcast(c.in, c.out, c.count, c.type, c.root);
    case Operation::gather:
      return to.gather(c.in, c.out, c.count, c.type, c.root);
    case Operation::scatter:
      return to.scatter(c.in, c.out, c.count, c.type, c.root);
    case Operation::all_to_all:
      return to.all_to_all(c.in, c.out, c.count, c.type);
    case Operation::barrier:
      break;
    case Operation::all_gather_v:
      return to.all_gather_v(c.in, c.out, c.out_counts, c.out_displacements, c.type);
    case Operation::reduce_scatter_v:
      return to.reduce_scatter_v(c.in, c.out, c.in_counts, c.in_displacements, c.type, c.reduction);
    case Operation::all_to_all_v:
      return to.all_to_all_v(c.in, c.in_counts, c.in_displacements, c.out, c.out_counts, c.out_displacements,
                             c.type);
    case Operation::send:
      return to.send(c.in, c.count, c.type, c.root);
    case Operation::receive:
      return to.receive(c.out, c.count, c.type, c.root);
  }
  return to.barrier();
}

/// Runs and checks one exercise on this rank.
void expect_right(Communicator& comm, const Exercise& exercise);

}  // namespace tutti::test
