/// \file
/// Operations one after the other.
#pragma once

#include <cstddef>
#include <initializer_list>

#include <tutti/tutti.hpp>

namespace tutti::test {

/// `length` operations of any kind, type and size, blocking and asynchronous, each of which is checked. The
/// same seed on all ranks.
void run_sequence(Communicator& comm, unsigned seed, int length);

/// Every operation with each of the counts, once, and a barrier.
void every_operation(Communicator& comm, std::initializer_list<std::size_t> counts);

}  // namespace tutti::test
