// The tables of docs/algorithms.md: every algorithm has a row, and costs what is written there.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/verify.hpp>

#include "collectives/algorithms.hpp"
#include "collectives/passes.hpp"

namespace tutti {
namespace {

using Cells = std::vector<std::string>;

/// The rows below `heading`, without spaces and backquotes around their cells.
std::vector<Cells> table_below(const std::string& heading) {
  std::ifstream page(TUTTI_ALGORITHMS_PAGE);
  std::vector<Cells> rows;
  bool here = false;
  int line_of_table = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) here = line == "## " + heading;
    if (!here || !line.starts_with("|") || ++line_of_table <= 2) continue;
    Cells cells;
    for (std::size_t at = 1, end = 0; (end = line.find('|', at)) != std::string::npos; at = end + 1) {
      std::string cell = line.substr(at, end - at);
      cell.erase(0, cell.find_first_not_of(' '));
      cell.erase(cell.find_last_not_of(' ') + 1);
      cells.push_back(cell);
    }
    if (cells[0].empty()) cells[0] = rows.back()[0];  // the collective above
    cells[1] = cells[1].substr(1, cells[1].find('`', 1) - 1);
    rows.push_back(cells);
  }
  EXPECT_FALSE(rows.empty()) << heading;
  return rows;
}

const Algorithm& algorithm_of(const Cells& row) {
  const Algorithm* found = find_algorithm(parse_collective(row[0]), row[1]);
  if (found == nullptr) throw std::runtime_error(row[0] + " has no algorithm " + row[1]);
  return *found;
}

/// What one rank does in a schedule, in chunks.
struct Work {
  double steps = 0, messages = 0, sent = 0, messages_away = 0, sent_away = 0, read = 0, written = 0;
};

bool is_of_peer(const Operand& o, Rank rank) {
  return o.kind == Operand::Kind::memory && o.rank >= 0 && o.rank != rank;
}

Work work_of(const Schedule& schedule, Rank rank, int node_size = 1) {
  Work work;
  for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(rank)]) {
    work.steps += static_cast<double>(lane.size());
    for (const Step& step : lane) {
      for (const Operand& source : step.sources)
        if (is_of_peer(source, rank)) work.read += source.count;
      for (const Operand& sink : step.sinks) {
        if (is_of_peer(sink, rank)) work.written += sink.count;
        if (sink.kind != Operand::Kind::message) continue;
        work.messages += 1;
        work.sent += sink.count;
        if (sink.rank / node_size == rank / node_size) continue;
        work.messages_away += 1;
        work.sent_away += sink.count;
      }
    }
  }
  return work;
}

/// Chunks of B, the divisible buffer.
double chunks_of_buffer(const Schedule& schedule) {
  return std::max({input_chunks(schedule), output_chunks(schedule), 1});
}

/// The most that are waited for one after the other, whoever waits.
int waits_for_tokens(const Schedule& schedule) {
  std::map<std::tuple<Rank, Rank, int>, std::deque<int>> fifos;
  std::vector<std::vector<std::pair<std::size_t, int>>> at;  // next step, waits before it
  for (const auto& lanes : schedule.lanes) at.emplace_back(lanes.size());
  int most = 0;
  const auto run = [&](Rank rank, const Step& step, int& waited) {
    for (const Operand& o : step.sources)
      if (o.kind == Operand::Kind::message && fifos[{o.rank, rank, o.channel}].empty()) return false;
    bool waits = false;
    for (const Operand& o : step.sources) {
      if (o.kind != Operand::Kind::message) continue;
      auto& fifo = fifos[{o.rank, rank, o.channel}];
      waited = std::max(waited, fifo.front());
      fifo.pop_front();
      waits = true;
    }
    waited += waits ? 1 : 0;
    most = std::max(most, waited);
    for (const Operand& o : step.sinks)
      if (o.kind == Operand::Kind::message) fifos[{rank, o.rank, o.channel}].push_back(waited);
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < at.size(); ++r)
      for (std::size_t l = 0; l < at[r].size(); ++l) {
        auto& [step, waited] = at[r][l];
        const Lane& lane = schedule.lanes[r][l];
        for (; step < lane.size() && run(static_cast<Rank>(r), lane[step], waited); ++step) moved = true;
      }
  }
  return most;
}

/// A formula of a cell, which must be one of `terms`, perhaps with "at most" before it, or a condition
/// behind.
class Formula {
 public:
  Formula(std::string text, const std::map<std::string, double>& terms, int ranks) {
    constexpr std::string_view limit = "at most ", condition = " when n = 2^L";
    if (text.starts_with(limit)) limit_ = true, text.erase(0, limit.size());
    if (text.ends_with(condition)) {
      text.erase(text.size() - condition.size());
      holds_ = std::has_single_bit(static_cast<unsigned>(ranks));
    }
    const auto term = terms.find(text);
    if (term == terms.end()) throw std::runtime_error("no formula that this test knows: " + text);
    value_ = term->second;
  }
  void expect(double found, const char* column) const {
    if (!holds_) return;
    if (limit_)
      EXPECT_LE(found, value_) << column;
    else
      EXPECT_DOUBLE_EQ(found, value_) << column;
  }

 private:
  bool limit_ = false, holds_ = true;
  double value_ = 0;
};

bool rooted(Collective collective) {
  return collective == Collective::reduce || collective == Collective::broadcast ||
         collective == Collective::gather || collective == Collective::scatter;
}

/// Of the busiest rank; of "X at the root, else Y" the root's and the busiest other's; of "the root: X"
/// nothing elsewhere.
void expect_cell(const std::string& cell, const char* column, const std::map<std::string, double>& terms,
                 const Schedule& schedule, const std::function<double(Rank)>& of) {
  constexpr std::string_view root = "the root: ", others = " at the root, else ";
  double at_root = 0, elsewhere = 0;
  for (Rank r = 0; r < schedule.ranks; ++r)
    if (r == schedule.root && rooted(schedule.collective))
      at_root = of(r);
    else
      elsewhere = std::max(elsewhere, of(r));
  if (const auto at = cell.find(others); at != std::string::npos) {
    Formula(cell.substr(0, at), terms, schedule.ranks).expect(at_root, column);
    Formula(cell.substr(at + others.size()), terms, schedule.ranks).expect(elsewhere, column);
  } else if (cell.starts_with(root)) {
    Formula(cell.substr(root.size()), terms, schedule.ranks).expect(at_root, column);
    EXPECT_EQ(elsewhere, 0) << column;
  } else {
    Formula(cell, terms, schedule.ranks).expect(std::max(at_root, elsewhere), column);
  }
}

/// "no" where it does not hold for some number of ranks, in three pieces.
std::string proved(const std::vector<Schedule>& schedules, bool in_place, bool views) {
  const auto holds = [&](const Schedule& schedule) { return !verify(schedule, {0, 3, in_place, views}); };
  return std::all_of(schedules.begin(), schedules.end(), holds) ? "yes" : "no";
}

void expect_proofs(const Cells& row, std::size_t column, const std::vector<Schedule>& schedules) {
  if (row[column].empty()) return;
  std::string in_place = proved(schedules, true, false);
  if (in_place == "no") {
    std::vector<Schedule> turns = schedules;
    for (Schedule& schedule : turns) schedule = in_turn(std::move(schedule));
    if (proved(turns, true, false) == "yes") in_place = "in turn";
  }
  EXPECT_EQ(row[column], in_place) << "same memory";
  std::string views = proved(schedules, false, true);
  if (views == "yes" && row[column] == "yes" && proved(schedules, true, true) == "no") views = "out of place";
  EXPECT_EQ(row[column + 1], views) << "views";
}

template <class Check>
void on_all(const std::vector<Cells>& rows, const Check& check) {
  for (const Cells& row : rows)
    for (const int ranks : {2, 3, 4, 5, 7, 8, 13, 16, 32})
      for (const Rank root : {0, ranks - 1}) {
        const Algorithm& algorithm = algorithm_of(row);
        if (root != 0 && !rooted(algorithm.collective)) continue;
        SCOPED_TRACE(row[0] + ' ' + row[1] + " on " + std::to_string(ranks) + " ranks, root " +
                     std::to_string(root));
        check(row, algorithm.make(ranks, root));
      }
}

TEST(AlgorithmsPage, HasARowForEveryAlgorithm) {
  std::set<std::pair<std::string, std::string>> rows, all;
  for (const char* heading : {"Messages between ranks", "Ranks in nodes", "Memory that peers reach"})
    for (const Cells& row : table_below(heading)) EXPECT_TRUE(rows.emplace(row[0], row[1]).second) << row[1];
  for (const Algorithm& algorithm : algorithms()) all.emplace(name(algorithm.collective), algorithm.name);
  EXPECT_EQ(rows, all);
}

TEST(AlgorithmsPage, CountsStepsMessagesAndBytes) {
  on_all(table_below("Messages between ranks"), [](const Cells& row, const Schedule& schedule) {
    const int n = schedule.ranks;
    const double L = std::bit_width(static_cast<unsigned>(n - 1)), B = 1;
    int bits = 0;
    for (int i = 0; i < n; ++i) bits += std::popcount(static_cast<unsigned>(i));
    const std::map<std::string, double> terms{{"0", 0},
                                              {"1", 1},
                                              {"2", 2},
                                              {"4", 4},
                                              {"n", n},
                                              {"n-1", n - 1},
                                              {"2(n-1)", 2 * (n - 1)},
                                              {"2n-1", 2 * n - 1},
                                              {"L", L},
                                              {"L+1", L + 1},
                                              {"2L", 2 * L},
                                              {"2L+1", 2 * L + 1},
                                              {"4L", 4 * L},
                                              {"3n+2L", 3 * n + 2 * L},
                                              {"B", B},
                                              {"2 B", 2 * B},
                                              {"L B", L * B},
                                              {"B/n", B / n},
                                              {"(n-1) B", (n - 1) * B},
                                              {"B (n-1)/n", B * (n - 1) / n},
                                              {"2 B (n-1)/n", 2 * B * (n - 1) / n},
                                              {"(B/n) (bits set in 0 ... n-1)", B / n * bits}};
    expect_cell(row[2], "steps", terms, schedule, [&](Rank r) { return work_of(schedule, r).steps; });
    expect_cell(row[3], "messages", terms, schedule, [&](Rank r) { return work_of(schedule, r).messages; });
    expect_cell(row[4], "bytes", terms, schedule,
                [&](Rank r) { return work_of(schedule, r).sent / chunks_of_buffer(schedule); });
  });
}

// Of circles, where a step waits for a message and for room at once.
TEST(AlgorithmsPage, SaysWhoseFifosHoldTwoMessages) {
  for (const Algorithm& algorithm : algorithms()) {
    const bool circle = algorithm.name == "ring" ||
                        (algorithm.name == "hierarchical" && algorithm.collective != Collective::all_to_all);
    EXPECT_EQ(algorithm.make(6, 0, 2).credits, circle ? 2 : 1)
        << name(algorithm.collective) << ' ' << algorithm.name;
  }
}

TEST(AlgorithmsPage, SaysWhatIsProved) {
  for (const char* heading : {"Messages between ranks", "Ranks in nodes"})
    for (const Cells& row : table_below(heading)) {
      SCOPED_TRACE(row[0] + ' ' + row[1]);
      const Algorithm& algorithm = algorithm_of(row);
      std::vector<Schedule> schedules;
      for (int ranks = 2; ranks <= 12; ++ranks)
        for (const int node_size : {2, 3})
          if (node_size == 2 || algorithm.by_nodes != nullptr)
            schedules.push_back(algorithm.make(ranks, ranks / 2, node_size));
      expect_proofs(row, 5, schedules);
    }
}

TEST(AlgorithmsPage, CountsStepsAndWhatGoesToOtherNodes) {
  for (const Cells& row : table_below("Ranks in nodes"))
    for (const auto& [rows, columns] : {std::pair{1, 2}, {1, 3}, {2, 2}, {2, 3}, {1, 7}, {4, 4}})
      for (const int g : {1, 2, 3, 8}) {
        const int N = rows * columns;
        const double R = rows, C = columns, B = 1;
        const Schedule schedule = algorithm_of(row).make(N * g, 0, g);
        SCOPED_TRACE(row[0] + ' ' + row[1] + " on " + std::to_string(N) + " nodes of " + std::to_string(g));
        const double n = N * g;
        const std::map<std::string, double> terms{{"n", n},
                                                  {"2n-1", 2 * n - 1},
                                                  {"4g", 4 * g},
                                                  {"2n+N-2", 2 * n + N - 2},
                                                  {"2n+2(R+C)-4", 2 * n + 2 * (R + C) - 4},
                                                  {"N-1", N - 1},
                                                  {"2(N-1)", 2 * (N - 1)},
                                                  {"R+C-2", R + C - 2},
                                                  {"4 a piece", 4},
                                                  {"2 B/g", 2 * B / g},
                                                  {"(B/g) (N-1)/N", B / g * (N - 1) / N},
                                                  {"2 (B/g) (N-1)/N", 2 * B / g * (N - 1) / N},
                                                  {"B (N-1)/N", B * (N - 1) / N},
                                                  {"B (2 - 1/R - 1/C)", B * (2 - 1 / R - 1 / C)}};
        expect_cell(row[2], "steps", terms, schedule, [&](Rank r) { return work_of(schedule, r).steps; });
        expect_cell(row[3], "messages", terms, schedule,
                    [&](Rank r) { return work_of(schedule, r, g).messages_away; });
        expect_cell(row[4], "bytes", terms, schedule,
                    [&](Rank r) { return work_of(schedule, r, g).sent_away / chunks_of_buffer(schedule); });
      }
}

TEST(AlgorithmsPage, CountsWhatPeersMemoryTakes) {
  on_all(table_below("Memory that peers reach"), [](const Cells& row, const Schedule& schedule) {
    const double n = schedule.ranks;
    const std::map<std::string, double> terms{{"", 0},
                                              {"1 of n", 1 / n},
                                              {"n-1 of n", (n - 1) / n},
                                              {"2(n-1) of n", 2 * (n - 1) / n},
                                              {"the buffer", 1},
                                              {"n-1 buffers", n - 1},
                                              {"1 of n at each other rank but the root", (n - 2) / n}};
    const double chunks = chunks_of_buffer(schedule);
    expect_cell(row[2], "read", terms, schedule, [&](Rank r) { return work_of(schedule, r).read / chunks; });
    const bool not_of_root = row[3].ends_with("but the root");  // which writes to all
    expect_cell(row[3], "written", terms, schedule, [&](Rank r) {
      return not_of_root && r == schedule.root ? 0 : work_of(schedule, r).written / chunks;
    });
    EXPECT_EQ(std::to_string(waits_for_tokens(schedule)), row[4]) << "waits";
  });
}

}  // namespace
}  // namespace tutti
