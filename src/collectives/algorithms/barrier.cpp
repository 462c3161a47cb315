#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// In round k, rank r tells rank r + 2^k (Hensgen, Finkel, Manber 1988).
Schedule barrier_dissemination(int ranks, Rank /*root*/) {
  Builder b("dissemination", Collective::barrier, ranks, 0);
  for (Rank me = 0; me < ranks; ++me) {
    for (int reach = 1; reach < ranks; reach *= 2) {
      b.at(me).to((me + reach) % ranks, 0, 0);
      b.at(me).from(wrap(me - reach, ranks), 0, 0);
    }
  }
  return std::move(b).build();
}

}  // namespace tutti::make
