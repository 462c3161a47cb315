// What a user's program does first, and what an object of it that is older does last.
#include <cstdlib>
#include <span>
#include <tutti/tutti.hpp>

namespace {

int sum_of(int ranks) {
  int sum = 0;
  tutti::run_local(ranks, [&](tutti::Communicator& comm) {
    int value = comm.rank() + 20;
    comm.all_reduce(std::span(&value, 1));
    if (comm.rank() == 0) sum = value;
  });
  return sum;
}

struct Last {
  Last() = default;
  Last(const Last&) = delete;
  Last& operator=(const Last&) = delete;
  ~Last() {
    if (sum_of(3) != 63) std::abort();
  }
};
const Last last;

}  // namespace

int main() { return sum_of(2) == 41 ? 0 : 1; }
