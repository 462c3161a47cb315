// A transformer's MLP block, relu(x A) B, split over ranks as in Megatron-LM (Shoeybi et al. 2019): every
// rank holds some columns of A and the same rows of B, so the block needs one all_reduce, of its output.
//
// All numbers are small integers: float arithmetic on them is exact, and the split block must give the very
// bits of the whole one.
#include <algorithm>
#include <cstdio>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr int tokens = 5, width = 16, hidden = 48;  // of the whole model

/// A dense row-major matrix.
struct Matrix {
  Matrix(int rows_, int columns_) : rows(rows_), columns(columns_), values(index(rows_, 0)) {}
  float& at(int row, int column) { return values[index(row, column)]; }
  float at(int row, int column) const { return values[index(row, column)]; }
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
           static_cast<std::size_t>(column);
  }

  int rows, columns;
  std::vector<float> values;
};

Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix product{a.rows, b.columns};
  for (int i = 0; i < a.rows; ++i)
    for (int k = 0; k < a.columns; ++k)
      for (int j = 0; j < b.columns; ++j) product.at(i, j) += a.at(i, k) * b.at(k, j);
  return product;
}

/// Element (row, column) of a whole matrix: an integer of -3 to 3, known to every rank.
float weight(int row, int column, int seed) {
  return static_cast<float>((row * 3 + column * 5 + seed) % 7 - 3);
}

/// Columns [first, first + columns) and rows likewise of a whole matrix.
Matrix part(int first_row, int rows, int first_column, int columns, int seed) {
  Matrix matrix{rows, columns};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) matrix.at(i, j) = weight(first_row + i, first_column + j, seed);
  return matrix;
}

/// This rank's contribution to the block's output, from hidden units [first, first + units).
Matrix partial_mlp(const Matrix& x, int first, int units) {
  const Matrix a = part(0, width, first, units, 1);
  const Matrix b = part(first, units, 0, width, 2);
  Matrix activations = multiply(x, a);
  for (float& value : activations.values) value = std::max(value, 0.0F);
  return multiply(activations, b);
}

}  // namespace

int main() {
  auto comm = tutti::Communicator::from_environment();
  const Matrix x = part(0, tokens, 0, width, 3);

  const int first = hidden * comm.rank() / comm.size();
  const int end = hidden * (comm.rank() + 1) / comm.size();
  Matrix output = partial_mlp(x, first, end - first);
  comm.all_reduce(output.values);

  const bool right = output.values == partial_mlp(x, 0, hidden).values;
  std::printf("rank %d of %d: hidden units %d to %d, output %s\n", comm.rank(), comm.size(), first, end - 1,
              right ? "equals the whole block's" : "is WRONG");
  return right ? 0 : 1;
}
