/// \file
/// What tutti-perf prints, taken apart.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace tutti::test {

/// One half of a row, as it is printed.
struct PerfResult {
  std::string time, algbw, busbw, wrong;
};

struct PerfRow {
  std::string size, count, type, reduction, root;
  PerfResult out_of_place, in_place;
};

struct PerfOutput {
  std::vector<std::string> comments;  ///< lines that begin with #
  std::vector<PerfRow> rows;          ///< all other lines
};

inline PerfOutput parse_perf(const std::string& text) {
  PerfOutput output;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) {
      output.comments.push_back(line);
      continue;
    }
    std::istringstream words(line);
    PerfRow row;
    words >> row.size >> row.count >> row.type >> row.reduction >> row.root;
    for (PerfResult* result : {&row.out_of_place, &row.in_place})
      words >> result->time >> result->algbw >> result->busbw >> result->wrong;
    output.rows.push_back(row);
  }
  return output;
}

}  // namespace tutti::test
