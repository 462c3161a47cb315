// Stands between tutti-perf and its communicators: on all ranks but 0, TUTTI_TEST_SPOIL=apart makes the first
// element of every result wrong where the buffers are two, and TUTTI_TEST_SPOIL=in_place where they are one.
// What a group receives counts as two. TUTTI_TEST_RIGHT=N leaves the first N of them right.
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>

#include <tutti/communicator.hpp>

// The linker's --wrap leads calls of Communicator::submit, Group::submit and Group::run to __wrap_, and
// __real_ to the library's.
#define TUTTI_SUBMIT "_ZN5tutti12Communicator6submitERKNS_4CallE"
#define TUTTI_COLLECT "_ZN5tutti5Group6submitERKNS_4CallE"
#define TUTTI_RUN "_ZN5tutti5Group3runEv"

namespace tutti {

void real_submit(Communicator* comm, const Call& call) asm("__real_" TUTTI_SUBMIT);
void lossy_submit(Communicator* comm, const Call& call) asm("__wrap_" TUTTI_SUBMIT);
void real_collect(Group* group, const Call& call) asm("__real_" TUTTI_COLLECT);
void lossy_collect(Group* group, const Call& call) asm("__wrap_" TUTTI_COLLECT);
void real_run(Group* group) asm("__real_" TUTTI_RUN);
void lossy_run(Group* group) asm("__wrap_" TUTTI_RUN);

namespace {

thread_local void* received_by_group = nullptr;
thread_local int spared = 0;

void spoil(const std::string& kind, void* out, Rank rank) {
  const char* spoiled = std::getenv("TUTTI_TEST_SPOIL");
  if (spoiled == nullptr || spoiled != kind || out == nullptr || rank == 0) return;
  const char* right = std::getenv("TUTTI_TEST_RIGHT");
  if (right != nullptr && spared < std::atoi(right))
    ++spared;
  else
    *static_cast<std::byte*>(out) ^= std::byte{1};
}

}  // namespace

void lossy_submit(Communicator* comm, const Call& call) {
  real_submit(comm, call);
  if (call.type == DataType::float32)  // what tutti-perf itself asks of others is not
    spoil(call.in == call.out ? "in_place" : "apart", call.out, comm->rank());
}

void lossy_collect(Group* group, const Call& call) {
  real_collect(group, call);
  if (call.operation == Operation::receive) received_by_group = call.out;
}

void lossy_run(Group* group) {
  real_run(group);
  spoil("apart", std::exchange(received_by_group, nullptr), group->rank());
}

}  // namespace tutti
