/// \file
/// Proof that adapters of the network read and write device memory rightly.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/api.hpp"
#include "gpu/line.hpp"
#include "gpu/setting.hpp"

namespace tutti::gpu {

struct SlotProof {
  std::map<Rank, std::string> failed;  ///< why slots in device memory are not to be used with these ranks
  bool network_broken = false;         ///< it cannot be used any more, with some of them
};

/// A kernel of each rank writes a pattern into a slot for every peer whose line is direct; adapters carry it,
/// and a kernel there looks at it. Collective.
SlotProof prove_slots(const std::shared_ptr<Api>& api, const Setting& setting, Network& network,
                      const std::vector<Line>& lines, bool flushes);

}  // namespace tutti::gpu
