#include "collectives/verify/values.hpp"

#include <algorithm>
#include <limits>

#include "base/hash.hpp"

namespace tutti::proof {
namespace {

std::uint64_t commutative(std::uint64_t a, std::uint64_t b) {
  return splitmix64(splitmix64(std::min(a, b)) ^ std::max(a, b));
}

}  // namespace

Value contribution(Rank rank, int chunk, int piece) {
  const auto place = (static_cast<std::uint64_t>(rank) << 32U) | static_cast<std::uint32_t>(chunk);
  const std::uint64_t seed = splitmix64(place) ^ splitmix64(~static_cast<std::uint64_t>(piece));
  const std::uint64_t expression = splitmix64(~seed);
  return {{splitmix64(seed), splitmix64(seed ^ 0x5851f42d4c957f2dU)}, expression, expression, 1, false};
}

void add(Value& value, const Value& source) {
  value.contributions[0] += source.contributions[0];
  value.contributions[1] += source.contributions[1];
  value.expression = commutative(value.expression, source.expression);
  value.order = commutative(value.order, source.order);
  value.count = source.count > std::numeric_limits<std::uint32_t>::max() - value.count
                    ? std::numeric_limits<std::uint32_t>::max()
                    : value.count + source.count;
  value.finished = false;
}

void round(Value& value) { value.expression = splitmix64(value.expression); }

}  // namespace tutti::proof
