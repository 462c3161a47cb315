// A program that uses MPI already: the same ranks, and MPI's answer to compare with.
#include <mpi.h>

#include <cstdio>
#include <span>
#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool right = false;
  {
    auto comm = tutti::from_mpi(MPI_COMM_WORLD);
    const std::vector<int> mine{comm.rank() + 1, 7};
    std::vector<int> theirs(mine.size()), ours(mine.size());
    MPI_Allreduce(mine.data(), theirs.data(), 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    comm.all_reduce(mine, ours);
    right = ours == theirs;
    std::printf("rank %d of %d: MPI says %d and %d, tutti %d and %d\n", comm.rank(), comm.size(), theirs[0],
                theirs[1], ours[0], ours[1]);
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
