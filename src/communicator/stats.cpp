#include "base/fault_in.hpp"
#include "base/yield.hpp"
#include "communicator/impl.hpp"

namespace tutti::detail {

// The first call of a process meets cold code and untouched pages; so it is made here, where nobody measures.
void Impl::warm_up() {
  float one = 1, sum = 0;
  warm_up_calls = 2;
  run({.operation = Operation::barrier});
  run({.operation = Operation::all_reduce, .type = DataType::float32, .in = &one, .out = &sum, .count = 1});
  fault_in_heap();
  try_yields_again();  // those that were late were at work on joining, which is over
  before_use = counted();
}

Stats Impl::counted() const {
  Stats stats;
  stats.operations = completed;
  stats.bytes_direct = bytes_direct;
  const auto add = [&](const transport::Traffic& t) {
    stats.messages_sent += t.messages_sent;
    stats.bytes_sent += t.bytes_sent;
    stats.messages_received += t.messages_received;
    stats.bytes_received += t.bytes_received;
    stats.bytes_copied += t.bytes_copied;
    stats.bytes_direct += t.bytes_direct;
    stats.memory_held += t.memory_held;
    stats.queue_pairs += t.queue_pairs;
    stats.queue_pairs_closed += t.queue_pairs_closed;
  };
  add(shm->traffic());
  if (tcp != nullptr) add(tcp->traffic());
  if (verbs != nullptr) add(verbs->traffic());
  return stats;
}

Stats Impl::stats() const {
  Stats stats = counted();
  stats.operations -= before_use.operations;
  stats.bytes_direct -= before_use.bytes_direct;
  stats.messages_sent -= before_use.messages_sent;
  stats.bytes_sent -= before_use.bytes_sent;
  stats.messages_received -= before_use.messages_received;
  stats.bytes_received -= before_use.bytes_received;
  stats.bytes_copied -= before_use.bytes_copied;
  return stats;
}

}  // namespace tutti::detail
