/// \file
/// What a run found out, for people (nccl-tests' columns) and for programs (JSON).
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "perf/measure.hpp"
#include "perf/settings.hpp"

namespace tutti::perf {

/// Where a rank runs.
struct Place {
  char host[64] = {};
  std::int32_t pid = 0;
  std::int32_t core = 0;
};

/// One measurement. Bandwidths in GB/s, 10^9 bytes.
struct Result {
  Timing time{};
  double algbw = 0, busbw = 0;
  std::optional<std::uint64_t> wrong{};  ///< wrong elements on all ranks and checks; none: not checked
};

struct Row {
  std::uint64_t bytes = 0;  ///< of the larger buffer
  std::uint64_t count = 0;
  DataType type{};
  std::string reduction{};
  int root = -1;  ///< -1: the operation has none
  Result out_of_place{};
  std::optional<Result> in_place{};  ///< none: the operation cannot
};

struct Summary {
  std::optional<std::uint64_t> wrong{};  ///< none: nothing was checked
  double average_busbw = 0;
};
/// Over every result of every row, as nccl-tests' average.
Summary summarise(const std::vector<Row>& rows);

void print_ranks(std::FILE* to, const Settings& settings, const std::vector<Place>& places);
void print_head(std::FILE* to);
void print_row(std::FILE* to, const Row& row);
void print_tail(std::FILE* to, const Summary& summary);

/// All of it, as JSON.
std::string to_json(const Settings& settings, const std::vector<Place>& places, const std::vector<Row>& rows);

}  // namespace tutti::perf
