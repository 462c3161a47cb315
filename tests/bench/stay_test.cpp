#include "../../bench/peers/stay.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

struct Moves {
  std::vector<double> trips;  ///< what is found, in turn
  int asked = 0, measured = 0;

  std::pair<int, double> figures() {
    return bench::measure_in_place([this] { return ++measured; },
                                   [this] { return trips.at(static_cast<std::size_t>(asked++)); }, 3);
  }
};

TEST(Stay, OnceWhereNothingMoves) {
  Moves moves{.trips = {50, 60}};
  EXPECT_EQ(moves.figures(), std::pair(1, 60.0));
  moves = {.trips = {0, 0}};  // where nobody can tell
  EXPECT_EQ(moves.figures(), std::pair(1, 0.0));
}

TEST(Stay, AgainUntilNothingMovedOnTheWay) {
  Moves moves{.trips = {50, 300, 310}};
  EXPECT_EQ(moves.figures(), std::pair(2, 310.0));
  moves = {.trips = {300, 60, 300, 310}};
  EXPECT_EQ(moves.figures(), std::pair(3, 310.0));
}

TEST(Stay, NotForEver) {
  Moves moves{.trips = {50, 300, 50, 300, 50}};
  EXPECT_EQ(moves.figures(), std::pair(3, 300.0));
}

}  // namespace
