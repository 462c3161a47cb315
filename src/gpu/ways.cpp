#include "gpu/ways.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "transport/all_gather.hpp"

namespace tutti::gpu {

namespace {

// A line for every peer: the way as a digit, and why.
std::string text_of(const std::vector<Proposal>& proposals) {
  std::string text;
  for (const Proposal& p : proposals) {
    std::string why = p.why;
    std::replace(why.begin(), why.end(), '\n', ' ');
    text += fmt::format("{}{}\n", static_cast<int>(p.way), why);
  }
  return text;
}

std::vector<Proposal> proposals_of(std::string_view text) {
  std::vector<Proposal> proposals;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    proposals.push_back({static_cast<Way>(text[0] - '0'), std::string(text.substr(1, end - 1))});
  return proposals;
}

}  // namespace

Agreement agree(const Setting& setting, const std::vector<Proposal>& mine) {
  const auto size = static_cast<std::size_t>(setting.group.size);
  std::vector<std::vector<Proposal>> all;
  for (const std::string& text : all_gather(setting.group, text_of(mine))) {
    all.push_back(proposals_of(text));
    if (all.back().size() != size) transport::throw_another_build(static_cast<Rank>(all.size()) - 1);
  }
  Agreement agreement;
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b < size; ++b) {
      const Proposal& worse = all[a][b].way >= all[b][a].way ? all[a][b] : all[b][a];
      agreement.all_by_device = agreement.all_by_device && worse.way == Way::device;
      agreement.some_direct = agreement.some_direct || worse.way == Way::direct;
      agreement.some_by_network = agreement.some_by_network || worse.way == Way::network;
      if (a == static_cast<std::size_t>(setting.group.rank)) agreement.ways.push_back(worse);
    }
  return agreement;
}

}  // namespace tutti::gpu
