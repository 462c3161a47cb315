// The suite accepts a transport behind a decorator that changes nothing, and rejects each planted fault.
#include <gtest/gtest.h>

#include <algorithm>

#include <tutti/error.hpp>

#include "faulty.hpp"
#include "tcp_ranks.hpp"

namespace tutti::transport::testing {

namespace {

struct Planted {
  Fault fault;
  const char* caught_by;
};
void PrintTo(const Planted& planted, std::ostream* out) {
  *out << "a fault that is caught by " << planted.caught_by;
}

Subject subject() {
  return {.name = "tcp", .make = [](int ranks) { return tcp_ranks(ranks); }};
}

bool rejected(const Subject& subject, const char* check) {
  try {
    check_named(check).run(subject);
    return false;
  } catch (const Violation&) {
    return true;
  } catch (const Mismatch&) {
    return true;
  } catch (const Error&) {
    return true;
  }
}

class SuiteCanFail : public ::testing::TestWithParam<Planted> {};

TEST_P(SuiteCanFail, OnThisFaultOnly) {
  const auto [fault, check] = GetParam();
  EXPECT_TRUE(rejected(with_fault(subject(), fault), check));
  Subject sound = with_fault(subject(), Fault::none);
  sound.patience = subject().patience;
  EXPECT_FALSE(rejected(sound, check));
}

INSTANTIATE_TEST_SUITE_P(
    Planted, SuiteCanFail,
    ::testing::Values(
        Planted{Fault::drops_a_message, "sizes_in_order"}, Planted{Fault::drops_a_message, "pair_random"},
        Planted{Fault::doubles_a_message, "sizes_in_order"},
        Planted{Fault::swaps_two_messages, "holds_its_credits"},
        Planted{Fault::corrupts_a_byte, "sizes_in_order"}, Planted{Fault::corrupts_a_byte, "pair_random"},
        Planted{Fault::copies_late, "pair_random"}, Planted{Fault::copies_late, "holds_its_credits"},
        Planted{Fault::flushes_in_name, "pair_random"},
        Planted{Fault::flushes_in_name, "stable_until_flushed"},
        Planted{Fault::flushes_in_name, "flushed_is_enough"},
        Planted{Fault::moves_reserved_room, "pair_random"},
        Planted{Fault::moves_reserved_room, "reserved_room_stays"},
        Planted{Fault::moves_views, "pair_random"}, Planted{Fault::moves_views, "view_stays"},
        Planted{Fault::changes_views, "view_stays"}, Planted{Fault::lacks_a_credit, "holds_its_credits"},
        Planted{Fault::lacks_a_credit, "holds_its_credits_reserved"},
        Planted{Fault::swallows_without_end, "full_fifo_refuses"}, Planted{Fault::ignores_tags, "wrong_tag"},
        Planted{Fault::ignores_tags, "wrong_size"}, Planted{Fault::ignores_loss, "lost_while_receiving"},
        Planted{Fault::forgets_on_leaving, "leaving_delivers"}, Planted{Fault::writes_too_far, "pair_random"},
        Planted{Fault::counts_wrongly, "traffic_is_counted"},
        Planted{Fault::drops_a_message, "sleeper_is_woken"},
        Planted{Fault::sleeps_through, "sleeper_is_woken"},
        Planted{Fault::sleeps_through, "sleeper_on_several_is_woken"}),
    [](const auto& planted) { return std::to_string(planted.index) + "_" + planted.param.caught_by; });

TEST(Suite, NamesAreUnique) {
  std::vector<std::string> names;
  for (const auto& check : checks()) names.emplace_back(check.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_THROW(check_named("no such check"), std::out_of_range);
}

}  // namespace

}  // namespace tutti::transport::testing
