// Expert parallelism: every rank holds one expert. Tokens travel to the expert that the router chose for
// them, are processed there, and travel back. The counts are uneven, and each rank learns only from the
// others how many it gets.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

using Counts = std::vector<std::size_t>;

constexpr std::size_t width = 8;  // numbers in a token
constexpr std::size_t tokens_per_rank = 100;

/// The router's choice for a token, uneven: some ranks get much, some nothing.
std::size_t expert_of(std::size_t token, int ranks) {
  return token * token % 11 % static_cast<std::size_t>(ranks);
}

/// What the expert of a rank does to every number of a token.
std::int64_t expert(std::int64_t value, int rank) { return value * 1000 + rank; }

std::int64_t number(int rank, std::size_t token, std::size_t i) {
  return std::int64_t{100000} * rank + static_cast<std::int64_t>(token * width + i);
}

}  // namespace

int main() {
  auto comm = tutti::Communicator::from_environment();
  const auto ranks = static_cast<std::size_t>(comm.size());

  // Sort this rank's tokens by their expert: all for expert 0 first, then all for expert 1, ...
  std::vector<std::size_t> order;
  Counts send_counts(ranks);
  std::vector<std::int64_t> outgoing;
  for (std::size_t e = 0; e < ranks; ++e)
    for (std::size_t token = 0; token < tokens_per_rank; ++token)
      if (expert_of(token, comm.size()) == e) {
        order.push_back(token);
        send_counts[e] += width;
        for (std::size_t i = 0; i < width; ++i) outgoing.push_back(number(comm.rank(), token, i));
      }

  // Everybody tells everybody how much will come; then the tokens go out.
  Counts receive_counts(ranks);
  comm.all_to_all(send_counts, receive_counts);
  std::vector<std::int64_t> incoming(
      std::accumulate(receive_counts.begin(), receive_counts.end(), std::size_t{0}));
  comm.all_to_all_v(outgoing, send_counts, {}, incoming, receive_counts, {});

  for (std::int64_t& value : incoming) value = expert(value, comm.rank());

  // The way back is the same exchange with the counts swapped.
  std::vector<std::int64_t> returned(outgoing.size());
  comm.all_to_all_v(incoming, receive_counts, {}, returned, send_counts, {});

  std::size_t wrong = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const int chosen = static_cast<int>(expert_of(order[place], comm.size()));
    for (std::size_t i = 0; i < width; ++i)
      wrong += returned[place * width + i] != expert(number(comm.rank(), order[place], i), chosen);
  }
  std::printf("rank %d of %d: processed %zu tokens for others, %zu of its own numbers came back wrong\n",
              comm.rank(), comm.size(), incoming.size() / width, wrong);
  return wrong == 0 && order.size() == tokens_per_rank ? 0 : 1;
}
