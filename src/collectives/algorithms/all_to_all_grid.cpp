// all_to_all in two hops on every rail: along the row of a grid of nodes, then down the column.
#include <utility>

#include "collectives/algorithms/grid.hpp"
#include "collectives/algorithms/make.hpp"

namespace tutti::make {
namespace {

/// One rank's part. Its scratch: blocks for the nodes of its column, row by row, each from all columns; then
/// a message along the row, and one down the column.
class Member {
 public:
  Member(Builder& builder, const Grid& grid, Rank me)
      : b_(builder),
        grid_(grid),
        me_(me),
        row_(grid.row(me)),
        column_(grid.column(me)),
        place_(me % grid.size),
        along_(grid.rows * grid.size),
        down_(grid.columns * grid.size) {}

  /// What is for a column goes to the rank of it in this row.
  void send_along_row() {
    for (int i = 1; i < grid_.columns; ++i)
      b_.at(me_, 0)
          .fold(in(grid_.first(0, column_ + i), along_))
          .to(grid_.first(row_, column_ + i) + place_, 0, along_);
  }

  /// Sorts what came along the row, and what this rank itself has for its column, by rows.
  void sort_by_rows() {
    for (int i = 0; i < grid_.columns; ++i) {
      const Rank from = grid_.first(row_, column_ - i);
      if (i > 0) b_.at(me_, 1).store(came_along(0, along_)).from(from + place_, 0, along_);
      for (int r = 0; r < grid_.rows; ++r)
        b_.at(me_, 1)
            .store(sorted(r, grid_.column(from), 1))
            .fold(i > 0 ? came_along(r * grid_.size, grid_.size) : in(grid_.first(r, column_), grid_.size));
    }
  }

  void send_down_column() {
    for (int i = 1; i < grid_.rows; ++i)
      b_.at(me_, 1)
          .fold(sorted((row_ + i) % grid_.rows, 0, grid_.columns))
          .to(grid_.first(row_ + i, column_) + place_, 1, down_);
  }

  /// What came from every row, to the ranks of this node; and what those have from theirs.
  void hand_out() {
    for (int i = 0; i < grid_.rows; ++i) {
      const Rank relay = grid_.first(row_ - i, column_) + place_;
      if (i > 0) b_.at(me_, 1).store(came_down(0, down_)).from(relay, 1, down_);
      for (int c = 0; c < grid_.columns; ++c) hand_out_node(i, c);
    }
  }

 private:
  /// Blocks of one node, from `c` columns on.
  void hand_out_node(int i, int c) {
    const Rank from = grid_.first(row_ - i, c);
    for (int k = 0; k < grid_.size; ++k) {
      const int to = (place_ + k) % grid_.size;
      const int block = c * grid_.size + to;
      Builder::At give = b_.at(me_, 1).fold(i > 0 ? came_down(block, 1)
                                                  : scratch(row_ * grid_.columns * grid_.size + block));
      k == 0 ? give.store(out(from + place_)) : give.to(me_ - place_ + to, 2);
      if (k > 0) b_.at(me_, 2).store(out(from + to)).from(me_ - place_ + to, 2);
    }
  }

  [[nodiscard]] Operand sorted(int row, int column, int columns) const {
    return scratch((row * grid_.columns + column) * grid_.size, columns * grid_.size);
  }
  [[nodiscard]] Operand came_along(int block, int count) const {
    return scratch(grid_.rows * down_ + block, count);
  }
  [[nodiscard]] Operand came_down(int block, int count) const {
    return scratch(grid_.rows * down_ + along_ + block, count);
  }

  Builder& b_;
  const Grid& grid_;
  Rank me_;
  int row_, column_, place_;
  int along_, down_;  ///< blocks of a message
};

}  // namespace

/// With N nodes, a rank talks to 2 (sqrt(N) - 1) others outside its node instead of N - 1, in messages that
/// are sqrt(N) times as long; all data crosses the network twice.
Schedule all_to_all_grid(int ranks, int node_size) {
  const Grid grid(ranks, node_size);
  const int message_blocks = (grid.rows + grid.columns) * grid.size;
  Builder b("grid", Collective::all_to_all, ranks, ranks, 3, ranks + message_blocks);
  for (const Rank me : b.ranks(grid.rows * grid.size)) {
    Member member(b, grid, me);
    member.send_along_row();
    member.sort_by_rows();
    member.send_down_column();
    member.hand_out();
  }
  return std::move(b).build();
}

}  // namespace tutti::make
