// Ranks as threads of one process: run_local makes the communicators and joins the threads.
#include <cstdio>
#include <numeric>
#include <span>
#include <stdexcept>
#include <tutti/tutti.hpp>
#include <vector>

int main() {
  constexpr int ranks = 4;
  try {
    tutti::run_local(ranks, [](tutti::Communicator& comm) {
      const std::vector<int> mine{comm.rank(), 10 * comm.rank()};
      std::vector<int> all(mine.size() * ranks);

      // An operation under way while this thread does something else.
      tutti::Work work = comm.async().all_gather(mine, all);
      const int unrelated = std::accumulate(mine.begin(), mine.end(), 0);
      work.wait();

      if (all != std::vector<int>{0, 0, 1, 10, 2, 20, 3, 30} || unrelated != 11 * comm.rank())
        throw std::runtime_error("rank " + std::to_string(comm.rank()) + " gathered the wrong numbers");
    });
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("%d threads gathered each other's numbers\n", ranks);
}
