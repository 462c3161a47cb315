#include "sim/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "simulation/compare.hpp"

namespace tutti::sim {

namespace {

constexpr double width = 640, height = 400;
constexpr double left = 70, right = 540, top = 40, bottom = 340;

/// One logarithmic axis, from one place of the drawing to another.
struct Axis {
  double low, high;    ///< values
  double first, last;  ///< places

  [[nodiscard]] double place(double value) const {
    return high > low ? first + (last - first) * std::log(value / low) / std::log(high / low)
                      : (first + last) / 2;
  }
};

constexpr double us = 1e-6;

/// Between the powers of ten of microseconds around all times.
Axis time_axis(const std::vector<Point>& points) {
  const auto [low, high] = std::ranges::minmax(points, {}, &Point::seconds);
  return {us * std::pow(10, std::floor(std::log10(low.seconds / us))),
          us * std::pow(10, std::ceil(std::log10(high.seconds / us))), bottom, top};
}

std::string text(double x, double y, const char* anchor, const std::string& what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, what);
}

std::string grid_line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n",
                     x1, y1, x2, y2);
}

/// Lines at powers of ten of microseconds.
std::string time_grid(const Axis& time) {
  std::string svg;
  const auto last = std::lround(std::log10(time.high / us));
  for (auto power = std::lround(std::log10(time.low / us)); power <= last; ++power) {
    const double at = std::pow(10, power), y = time.place(at * us);
    svg += grid_line(left, y, right, y) + text(left - 6, y + 4, "end", fmt::format("{:g}", at));
  }
  return svg;
}

std::string line(const std::vector<const Point*>& points, const std::function<double(const Point&)>& x,
                 const Axis& time, const char* colour) {
  std::string path, marks;
  for (const Point* point : points) {
    path += fmt::format("{:.1f},{:.1f} ", x(*point), time.place(point->seconds));
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x(*point),
                         time.place(point->seconds), colour);
    if (point->estimated) marks += text(x(*point), time.place(point->seconds) - 5, "middle", "~");
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", path, colour) + marks;
}

}  // namespace

std::string plot(Collective collective, std::vector<Point> points) {
  const bool one_size =
      std::ranges::all_of(points, [&](const Point& p) { return p.bytes == points[0].bytes; });
  std::string what(name(collective));
  if (one_size) what += " of " + simulation::size_text(points.at(0).bytes);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      width, height);
  svg += text(left, 22, "start", what + ": predicted time (us) over " + (one_size ? "ranks" : "size"));

  std::erase_if(points, [&](const Point& p) { return p.seconds <= 0 || (!one_size && p.bytes <= 0); });
  if (points.empty()) return svg + "</svg>\n";
  const auto across = [one_size](const Point& p) {
    return one_size ? static_cast<double>(p.ranks) : p.bytes;
  };
  std::ranges::stable_sort(points, {}, across);  // a line goes from each to the next
  const Axis horizontal{across(points.front()), across(points.back()), left, right};
  const Axis time = time_axis(points);
  const auto x = [&](const Point& p) { return horizontal.place(across(p)); };
  svg += time_grid(time);
  std::set<double> marked;
  for (const Point& p : points)
    if (marked.insert(across(p)).second)
      svg += grid_line(x(p), top, x(p), bottom) +
             text(x(p), bottom + 18, "middle",
                  one_size ? std::to_string(p.ranks) : simulation::size_text(p.bytes));

  std::map<int, std::vector<const Point*>> lines;  // by ranks
  for (const Point& p : points) lines[one_size ? 0 : p.ranks].push_back(&p);
  constexpr std::array colours = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"};
  std::size_t next = 0;
  for (const auto& [ranks, those] : lines) {
    svg += line(those, x, time, colours.at(next++ % colours.size()));
    if (!one_size)
      svg += text(right + 8, time.place(those.back()->seconds) + 4, "start", fmt::format("{} ranks", ranks));
  }
  if (std::ranges::any_of(points, &Point::estimated))
    svg += text(left, bottom + 40, "start", std::string(simulation::estimate_note));
  return svg + "</svg>\n";
}

}  // namespace tutti::sim
