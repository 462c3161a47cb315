#include "transport/fail_together.hpp"

#include <fmt/format.h>

#include <vector>

#include "transport/all_gather.hpp"

namespace tutti::transport {

void fail_together(const Group& group, ErrorCode code, const std::string& mine) {
  std::vector<Rank> ranks;
  std::string text;
  const auto all = all_gather(group, code, mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].text.empty()) continue;
    if (ranks.empty()) code = all[r].value;
    ranks.push_back(static_cast<Rank>(r));
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", r, all[r].text);
  }
  if (!ranks.empty()) throw Error(code, text, ranks);
}

}  // namespace tutti::transport
