// What a user's program does first.
#include <span>
#include <tutti/tutti.hpp>

int main() {
  int sum = 0;
  tutti::run_local(2, [&](tutti::Communicator& comm) {
    int value = comm.rank() + 20;
    comm.all_reduce(std::span(&value, 1));
    if (comm.rank() == 0) sum = value;
  });
  return sum == 41 ? 0 : 1;
}
