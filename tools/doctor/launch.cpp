#include "doctor/launch.hpp"

#include <cstdlib>

#include "bootstrap/rendezvous.hpp"
#include "children.hpp"
#include "doctor/team.hpp"

namespace tutti::doctor {

namespace {

void become_rank(int rank, int ranks, const UniqueId& id) {
  const auto say = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  for (const char* name : {"TUTTI_RANK", "TUTTI_LOCAL_RANK"}) say(name, std::to_string(rank));
  for (const char* name : {"TUTTI_SIZE", "TUTTI_LOCAL_SIZE"}) say(name, std::to_string(ranks));
  say("TUTTI_ID", id.to_string());
}

}  // namespace

std::optional<int> start_ranks(int ranks, const Options& options) {
  const UniqueId id = bootstrap::reserve_id(options.interface);
  Children children("tutti-doctor");
  for (int rank = 0; rank < ranks; ++rank)
    if (children.begin(rank)) {
      become_rank(rank, ranks, id);
      return std::nullopt;
    }
  // The others tell each other what they found after the failure.
  return children.wait(longest_busy(options.timeout) + std::chrono::seconds(5));
}

}  // namespace tutti::doctor
