// Stands between tutti-perf and its communicators: on all ranks but 0, TUTTI_TEST_SPOIL=apart makes the first
// element of every result wrong where the buffers are two, and TUTTI_TEST_SPOIL=in_place where they are one.
#include <cstddef>
#include <cstdlib>
#include <string>

#include <tutti/communicator.hpp>

// The linker's --wrap leads calls of Communicator::submit to __wrap_, and __real_ to the library's.
#define TUTTI_SUBMIT "_ZN5tutti12Communicator6submitERKNS_4CallE"

namespace tutti {

void real_submit(Communicator* comm, const Call& call) asm("__real_" TUTTI_SUBMIT);
void lossy_submit(Communicator* comm, const Call& call) asm("__wrap_" TUTTI_SUBMIT);

void lossy_submit(Communicator* comm, const Call& call) {
  real_submit(comm, call);
  const char* spoiled = std::getenv("TUTTI_TEST_SPOIL");
  const bool measured = call.type == DataType::float32;  // what tutti-perf itself asks of others is not
  if (spoiled == nullptr || !measured || call.out == nullptr || comm->rank() == 0) return;
  if (spoiled == std::string(call.in == call.out ? "in_place" : "apart"))
    *static_cast<std::byte*>(call.out) ^= std::byte{1};
}

}  // namespace tutti
