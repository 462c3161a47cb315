#include "perf/sweep.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "output_file.hpp"
#include "patient_lines.hpp"
#include "perf/buffers.hpp"
#include "perf/pattern.hpp"
#include "perf/report.hpp"

namespace tutti::perf {

namespace {

std::vector<Place> gather_places(Communicator& comm) {
  Place mine{.pid = ::getpid(), .core = ::sched_getcpu()};
  ::gethostname(mine.host, sizeof mine.host - 1);
  std::vector<Place> places(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&mine, places.data(), sizeof(Place), DataType::uint8);
  return places;
}

/// Prints text that the library gave as comment lines, from its line number `first` on.
void print_comment(std::FILE* to, const std::string& text, int first = 0) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (first-- <= 0) fmt::print(to, "# {}\n", line);
}

/// How rank 0 reaches the others: what `explain` says below its first line about a message.
void print_routes(std::FILE* to, const Communicator& comm) {
  if (comm.size() > 1) print_comment(to, comm.explain({.operation = Operation::send, .root = 1}), 1);
}

/// One call to be measured: what is done, on which memory.
struct Point {
  const Benchmark& benchmark;
  DataType type;
  const NamedReduction& reduction;
  Rank root;
  std::size_t elements;  ///< of the larger buffer, as asked for
};

std::size_t larger_buffer(const Layout& layout) { return std::max(layout.in_elements, layout.out_elements); }

/// Runs points one after the other on the same memory.
class Runner {
 public:
  Runner(Communicator& comm, const Settings& settings, std::FILE* to)
      : comm_(comm),
        settings_(settings),
        to_(to),
        buffers_(comm, capacity(settings, comm.size()), settings.registered) {}

  /// Once it was measured: some paths are chosen by the calls themselves. In place where that differs.
  void explain(const Point& point) {
    const Layout layout = layout_of(point);
    const std::string text = explained(point, layout, {buffers_.in(), buffers_.out()});
    const std::string in_place =
        point.benchmark.in_place ? explained(point, layout, in_place_memory(point, layout)) : text;
    if (comm_.rank() != 0) return;
    print_comment(to_, text);
    if (in_place != text) print_comment(to_, "in place: " + in_place);
  }

  Row run(const Point& point) {
    const Layout layout = layout_of(point);
    const std::uint64_t bytes = larger_buffer(layout) * size_of(point.type);
    Row row{.bytes = bytes, .count = layout.count, .type = point.type, .reduction = point.reduction.name};
    if (point.benchmark.rooted) row.root = point.root;
    row.out_of_place = measure(point, layout, bytes, {buffers_.in(), buffers_.out()});
    if (point.benchmark.in_place)
      row.in_place = measure(point, layout, bytes, in_place_memory(point, layout));
    return row;
  }

 private:
  /// Every rank has at least one element of a divided buffer.
  static std::size_t capacity(const Settings& settings, int ranks) {
    return std::max<std::size_t>(settings.sizes.back(), 8 * static_cast<std::size_t>(ranks));
  }

  [[nodiscard]] Layout layout_of(const Point& point) const {
    return make_layout(point.benchmark.kind, point.elements, comm_.size(), comm_.rank(), point.root);
  }

  struct Memory {
    std::byte* in;
    std::byte* out;
  };
  [[nodiscard]] Memory in_place_memory(const Point& point, const Layout& layout) const {
    std::byte* const own = buffers_.out() + layout.own * size_of(point.type);
    const bool in_is_smaller = layout.in_elements < layout.out_elements;
    return in_is_smaller ? Memory{own, buffers_.out()} : Memory{buffers_.out(), own};
  }

  [[nodiscard]] std::string explained(const Point& point, const Layout& layout, const Memory& memory) const {
    Call call = make_call(point.benchmark.kind, layout, point.type, point.reduction.reduction, point.root,
                          memory.in, memory.out);
    if (call.operation == Operation::send)  // of sendrecv, and of rank 0 in ping_pong
      call.root = (comm_.rank() + 1) % comm_.size();
    return comm_.explain(call);
  }

  Result measure(const Point& point, const Layout& layout, std::uint64_t bytes, const Memory& memory) {
    std::byte* const in = memory.in;
    std::byte* const out = memory.out;
    const Call value =
        make_call(point.benchmark.kind, layout, point.type, point.reduction.reduction, point.root, in, out);
    const auto call = [&] { perf::run(comm_, point.benchmark.kind, value); };
    Result result;
    const auto check_from = [&](std::uint64_t seed) {
      if (settings_.checks > 0 && point.benchmark.kind != Kind::barrier)  // it has no result
        result.wrong = result.wrong.value_or(0) + check(point, layout, in, out, call, seed);
    };
    check_from(1);

    pattern(point, 0).fill(in, layout.in);
    std::function<void()> rewrite;
    const std::size_t in_bytes = layout.in_elements * size_of(point.type);
    if (settings_.rewrite) {
      saved_.assign(in, in + in_bytes);
      rewrite = [&] { std::ranges::copy(saved_, in); };
    }
    result.time = perf::measure(
        comm_,
        {.iterations = settings_.iterations, .batches = settings_.batches, .warmups = settings_.warmups},
        call, rewrite);
    check_from(1 + static_cast<std::uint64_t>(settings_.checks));  // calls may have changed their path since
    if (point.benchmark.kind == Kind::ping_pong)
      for (double* time : {&result.time.median, &result.time.p10, &result.time.p90}) *time /= 2;
    result.algbw = static_cast<double>(bytes) / (result.time.median * 1e3);
    result.busbw = result.algbw * bus_factor(point.benchmark.kind, comm_.size());
    return result;
  }

  std::uint64_t check(const Point& point, const Layout& layout, std::byte* in, std::byte* out,
                      const std::function<void()>& call, std::uint64_t first_seed) {
    std::uint64_t wrong = 0;
    for (int i = 0; i < settings_.checks; ++i) {
      const Pattern expected = pattern(point, first_seed + static_cast<std::uint64_t>(i));
      constexpr int poison = 0xa5;  // what nobody writes must not look right
      std::memset(out, poison, layout.out_elements * size_of(point.type));
      expected.fill(in, layout.in);
      call();
      wrong += expected.count_wrong(out, layout.out);
    }
    comm_.all_reduce(std::span(&wrong, 1));
    return wrong;
  }

  [[nodiscard]] Pattern pattern(const Point& point, std::uint64_t seed) const {
    return {point.type, point.benchmark.reduces ? std::optional(point.reduction.reduction) : std::nullopt,
            comm_.size(), seed};
  }

  Communicator& comm_;
  const Settings& settings_;
  std::FILE* to_;
  Buffers buffers_;
  std::vector<std::byte> saved_;
};

/// A line on a terminal that says what is being measured, and goes away again. The cursor stays at its begin,
/// so that an error, which any process may write, takes its place.
class Progress {
 public:
  explicit Progress(bool shown) : wanted_(shown && ::isatty(STDERR_FILENO) == 1) {}
  void show(const Point& point) const {
    if (shown())
      fmt::print(stderr, "{} {} {}: {} bytes ...\033[K\r", point.benchmark.name, name(point.type),
                 point.reduction.name, point.elements * size_of(point.type));
  }
  void hide() const {
    if (shown()) fmt::print(stderr, "\033[K");
  }

 private:
  /// Not on a terminal that its user has stopped.
  [[nodiscard]] bool shown() const { return wanted_ && takes_more(STDERR_FILENO); }
  bool wanted_;
};

std::vector<Rank> roots(const Settings& settings, int ranks) {
  if (!settings.benchmark.rooted) return {0};
  std::vector<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank)
    if (settings.root == all_roots || settings.root == rank) all.push_back(rank);
  return all;
}

/// Elements that are asked for; of sizes that come to the same, as every rank's block has whole elements, the
/// first.
std::vector<std::size_t> element_counts(const Settings& settings, DataType type, int ranks) {
  std::vector<std::size_t> all;
  all.reserve(settings.sizes.size());
  for (const std::size_t size : settings.sizes) all.push_back(size / size_of(type));
  const auto held = [&](std::size_t elements) {
    return larger_buffer(make_layout(settings.benchmark.kind, elements, ranks, 0, 0));
  };
  const auto same = [&](std::size_t a, std::size_t b) { return held(a) == held(b); };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

std::vector<Point> points(const Settings& settings, int ranks) {
  std::vector<Point> all;
  for (const DataType type : settings.types)
    for (const NamedReduction& reduction : settings.reductions)
      for (const Rank root : roots(settings, ranks))
        for (const std::size_t elements : element_counts(settings, type, ranks))
          all.push_back({settings.benchmark, type, reduction, root, elements});
  return all;
}

}  // namespace

bool sweep(Communicator& comm, const Settings& settings, std::FILE* to) {
  check_ranks(settings, comm.size());
  const std::vector<Point> all = points(settings, comm.size());
  const std::vector<Place> places = gather_places(comm);
  const bool reports = comm.rank() == 0;
  std::optional<OutputFile> json;
  if (reports && !settings.json.empty()) json.emplace(settings.json);
  const Progress progress(reports);
  PatientLines table(to);
  if (reports) {
    print_ranks(table.lines(), settings, places);
    print_routes(table.lines(), comm);
    print_head(table.lines());
    table.push();
  }
  Runner runner(comm, settings, table.lines());
  std::vector<Row> rows;
  for (const Point& point : all) {
    progress.show(point);
    rows.push_back(runner.run(point));
    progress.hide();
    if (settings.explain) runner.explain(point);
    if (!reports) continue;
    print_row(table.lines(), rows.back());
    table.push();
  }
  const Summary summary = summarise(rows);
  if (reports) {
    print_tail(table.lines(), summary);
    table.push();
    // Whatever the reader of the table does, unless it is that of the results, too.
    const bool together = json && json->is_standard_output();
    if (json && !together) json->write(to_json(settings, places, rows));
    table.finish();
    if (together) json->write(to_json(settings, places, rows));
  }
  return !reports || summary.wrong.value_or(0) == 0;
}

}  // namespace tutti::perf
