/// \file
/// Which algorithm is taken for which operation and size.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/algorithms.hpp"

namespace tutti::tuning {

/// Sizes that take the same decision: those of one class are more than half the largest of them.
int size_class(std::size_t bytes);
/// Of 0 to `largest_class`.
std::size_t largest_of(int size_class);
inline constexpr int largest_class = 63;

/// Of ranks in one scene.
class Choices {
 public:
  using Key = std::pair<Collective, int>;  ///< and size class
  void keep(Collective collective, int size_class, const Algorithm* algorithm) {
    all_.insert_or_assign({collective, size_class}, algorithm);
  }
  /// Of the class of `bytes`; where it was not decided, of the nearest that was. nullptr: none was.
  [[nodiscard]] const Algorithm* of(Collective collective, std::size_t bytes) const;
  [[nodiscard]] bool has(Collective collective, int size_class) const {
    return all_.contains({collective, size_class});
  }
  [[nodiscard]] const std::map<Key, const Algorithm*>& all() const { return all_; }
  bool operator==(const Choices&) const = default;

 private:
  std::map<Key, const Algorithm*> all_;
};

/// By names that others wrote; nullptr: this version of tutti has none such.
const Algorithm* algorithm_named(std::string_view collective, std::string_view algorithm);

/// A line for every decided class.
std::string to_text(const Choices& choices);
/// Of every operation at least one class. Throws Error(mismatch) for what no tutti of this version wrote.
Choices choices_from(std::string_view text);

}  // namespace tutti::tuning
