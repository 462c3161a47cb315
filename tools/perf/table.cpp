#include <fmt/core.h>

#include "perf/report.hpp"

namespace tutti::perf {

namespace {

/// Three significant digits or more in seven columns, as nccl-tests prints times.
std::string microseconds(double value) {
  if (value < 100) return fmt::format("{:.2f}", value);
  return value < 10000 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

/// In seven columns: a rank alone copies nothing in place, at petabytes a second, from a gigabyte on at more.
std::string gigabytes(double value) {
  if (value < 9999.995) return fmt::format("{:.2f}", value);
  return value < 9999999.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.1e}", value);
}

std::string columns(const Result& result) {
  return fmt::format(" {:>8} {:>7} {:>7} {:>6}", microseconds(result.time.median), gigabytes(result.algbw),
                     gigabytes(result.busbw), result.wrong ? std::to_string(*result.wrong) : "N/A");
}

std::string spread(const Result& result) {
  return microseconds(result.time.p10) + "-" + microseconds(result.time.p90);
}

}  // namespace

Summary summarise(const std::vector<Row>& rows) {
  Summary summary;
  int results = 0;
  const auto add = [&](const Result& result) {
    if (result.wrong) summary.wrong = summary.wrong.value_or(0) + *result.wrong;
    summary.average_busbw += result.busbw;
    ++results;
  };
  for (const Row& row : rows) {
    add(row.out_of_place);
    if (row.in_place) add(*row.in_place);
  }
  if (results > 0) summary.average_busbw /= results;
  return summary;
}

void print_ranks(std::FILE* to, const Settings& settings, const std::vector<Place>& places) {
  const auto or_automatic = [](const std::string& choice) { return choice.empty() ? "automatic" : choice; };
  fmt::print(to,
             "# tutti-perf {} ranks {} minBytes {} maxBytes {} sizes {} batches {} iters {} warmup iters: {}",
             settings.benchmark.name, places.size(), settings.sizes.front(), settings.sizes.back(),
             settings.sizes.size(), settings.batches,
             settings.iterations == 0 ? "automatic" : std::to_string(settings.iterations), settings.warmups);
  fmt::print(to, " validation: {}{}{} transport: {} algorithm: {}\n#\n# Using ranks\n", settings.checks,
             settings.registered ? " registered" : "", settings.rewrite ? " rewritten inputs" : "",
             or_automatic(settings.options.transport), or_automatic(settings.options.algorithm));
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    fmt::print(to, "#  Rank {:>3} Pid {:>7} on {:>10} core {:>3}\n", rank, places[rank].pid,
               places[rank].host, places[rank].core);
}

void print_head(std::FILE* to) {
  fmt::print(to, "#\n#{:>60} {:>31} {:>32}\n", "out-of-place", "in-place", "p10-p90");
  const std::string names = fmt::format(" {:>8} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
  const std::string units = fmt::format(" {:>8} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  fmt::print(to, "#{:>11} {:>13} {:>9} {:>8} {:>5}{}{}  {:>17} {:>17}\n", "size", "count", "type", "redop",
             "root", names, names, "out-of-place", "in-place");
  fmt::print(to, "#{:>11} {:>13} {:>9} {:>8} {:>5}{}{}  {:>17} {:>17}\n", "(B)", "(elements)", "", "", "",
             units, units, "(us)", "(us)");
}

void print_row(std::FILE* to, const Row& row) {
  const std::string absent = fmt::format(" {:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
  fmt::print(to, "{:>12} {:>13} {:>9} {:>8} {:>5}{}{}  {:>17} {:>17}\n", row.bytes, row.count, name(row.type),
             row.reduction, row.root, columns(row.out_of_place),
             row.in_place ? columns(*row.in_place) : absent, spread(row.out_of_place),
             row.in_place ? spread(*row.in_place) : "N/A");
}

void print_tail(std::FILE* to, const Summary& summary) {
  fmt::print(
      to, "# Out of bounds values : {}\n",
      summary.wrong ? fmt::format("{} {}", *summary.wrong, *summary.wrong == 0 ? "OK" : "FAILED") : "N/A");
  fmt::print(to, "# Avg bus bandwidth    : {:g}\n#\n", summary.average_busbw);
}

}  // namespace tutti::perf
