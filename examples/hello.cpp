// The sum of all ranks' numbers on every rank. Alone it has one rank; `mpirun -n 4 example-hello` makes it
// four.
#include <cstdio>
#include <tutti/tutti.hpp>
#include <vector>

int main() {
  auto comm = tutti::Communicator::from_environment();
  std::vector<float> values(1000, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(values);  // in place; sum unless another reduction is named

  const int expected = comm.size() * (comm.size() + 1) / 2;
  std::printf("rank %d of %d: sum %g\n", comm.rank(), comm.size(), values[0]);
  return values == std::vector<float>(1000, static_cast<float>(expected)) ? 0 : 1;
}
