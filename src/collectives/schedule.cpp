#include <tutti/schedule.hpp>

#include <array>
#include <string>

#include <tutti/error.hpp>

namespace tutti {
namespace {

constexpr std::array<std::string_view, collective_count> names = {
    "all_reduce", "reduce",  "reduce_scatter", "all_gather", "broadcast",
    "gather",     "scatter", "all_to_all",     "barrier"};

}  // namespace

std::string_view name(Collective collective) noexcept {
  const auto index = static_cast<std::size_t>(collective);
  return index < names.size() ? names[index] : "invalid";
}

Collective parse_collective(std::string_view text) {
  std::string known;
  for (std::size_t index = 0; index < names.size(); ++index) {
    if (names[index] == text) return static_cast<Collective>(index);
    known.append(index == 0 ? "" : ", ").append(names[index]);
  }
  throw Error(ErrorCode::invalid_argument,
              "no collective is called '" + std::string(text.substr(0, 40)) + "'; there are " + known);
}

int input_chunks(const Schedule& schedule) noexcept {
  switch (schedule.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return 1;
    case Collective::barrier:
      return 0;
    default:
      return schedule.chunks;
  }
}

int output_chunks(const Schedule& schedule) noexcept {
  switch (schedule.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
      return 1;
    case Collective::barrier:
      return 0;
    default:
      return schedule.chunks;
  }
}

}  // namespace tutti
