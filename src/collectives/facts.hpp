/// \file
/// What collectives have, and what not.
#pragma once

#include <tutti/schedule.hpp>

namespace tutti {

constexpr bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}
/// Only the root has an input (broadcast, scatter).
constexpr bool only_root_has_input(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::scatter;
}
/// Only the root has an output (reduce, gather).
constexpr bool only_root_has_output(Collective collective) {
  return collective == Collective::reduce || collective == Collective::gather;
}

constexpr bool has_root(Collective collective) {
  return only_root_has_input(collective) || only_root_has_output(collective);
}

}  // namespace tutti
