#include "gpu/fail_together.hpp"

#include <fmt/format.h>

#include "transport/all_gather.hpp"

namespace tutti::gpu {

void fail_together(const Setting& setting, ErrorCode code, const std::string& mine) {
  std::vector<Rank> ranks;
  std::string text;
  const auto all = all_gather(setting.group, mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    ranks.push_back(static_cast<Rank>(r));
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", r, all[r]);
  }
  if (!text.empty()) throw Error(code, text, ranks);
}

}  // namespace tutti::gpu
