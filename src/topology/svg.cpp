#include "topology/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "topology/escape.hpp"

namespace tutti::topology {

namespace {

constexpr double box_width = 112, box_height = 40;     // a box
constexpr double column_width = 124, row_height = 88;  // and what it takes with the space around it
constexpr double page_margin = 20, title_height = 50;

struct Point {
  double x = 0, y = 0;  ///< of a box's middle
};

/// At most so many characters, never half of one in UTF-8.
std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80) --most;
  return text.substr(0, most) + "...";
}

const char* colour(NodeKind kind) {
  switch (kind) {
    case NodeKind::cpu:
      return "#cfe2f3";
    case NodeKind::bridge:
      return "#eeeeee";
    case NodeKind::gpu:
      return "#d9ead3";
    case NodeKind::nic:
      return "#fff2cc";
    case NodeKind::port:
      return "#fce5cd";
    case NodeKind::nvswitch:
      return "#b6d7a8";
    default:
      return "#ffffff";
  }
}

class Drawing {
 public:
  explicit Drawing(const Machine& machine) : machine_(machine), adjacency_(machine.adjacency()) {}

  std::string run() {
    double column = 0;
    for (const NodeId cpu : machine_.all(NodeKind::cpu)) column += std::max(1.0, place(cpu, column, 0));
    lowest_ = 0;
    for (const auto& [id, at] : at_) lowest_ = std::max(lowest_, at.y);
    width_ = 2 * page_margin + column_width * std::max(column, 3.0);
    place_switches();
    for (const Link& link : machine_.links) draw(link);
    for (const auto& [id, at] : at_) draw(machine_.node(id), at);
    notes();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n<text x=\"{2:.0f}\" y=\"20\" font-size=\"15\">{3}</text>\n{4}{5}</svg>\n",
        width_, lowest_ + box_height / 2 + page_margin, page_margin, escaped_xml(machine_.name), lines_,
        boxes_);
  }

 private:
  /// The tree below `id` from this column on; returns how many columns it takes.
  double place(NodeId id, double column, int row) {
    at_[id] = {};
    double taken = 0;
    for (const LinkId link : adjacency_[static_cast<std::size_t>(id)]) {
      const NodeId child = machine_.other_end(link, id);
      const LinkKind kind = machine_.link(link).kind;
      const bool down = kind == LinkKind::pcie || kind == LinkKind::c2c || kind == LinkKind::wire;
      if (down && !at_.contains(child)) taken += place(child, column + taken, row + 1);
    }
    taken = std::max(taken, 1.0);
    at_[id] = {.x = page_margin + column_width * (column + taken / 2),
               .y = title_height + box_height + row_height * row};
    return taken;
  }

  /// Below everything, over the whole width; GPUs that are on no bus stand above.
  void place_switches() {
    double x = width_ / 2;
    for (const NodeId gpu : machine_.all(NodeKind::gpu)) {
      if (at_.contains(gpu)) continue;
      at_[gpu] = {.x = x, .y = lowest_ + row_height};
      x += column_width;
    }
    for (const auto& [id, at] : at_) lowest_ = std::max(lowest_, at.y);
    for (const NodeId id : machine_.all(NodeKind::nvswitch))
      at_[id] = {.x = width_ / 2, .y = lowest_ += row_height};
  }

  void draw(const Link& link) {
    const auto a = at_.find(link.a), b = at_.find(link.b);
    if (a == at_.end() || b == at_.end()) return;  // memory is part of its processor's box
    const bool peer = link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi;
    const double thick = std::clamp(std::log2(link.bandwidth) - 1, 1.0, 8.0);
    Point from = a->second, to = b->second;
    const bool to_switch =
        machine_.node(link.a).kind == NodeKind::nvswitch || machine_.node(link.b).kind == NodeKind::nvswitch;
    if (machine_.node(link.a).kind == NodeKind::nvswitch) std::swap(from, to);
    std::string way;
    if (to_switch) {
      to.x = from.x;
      way = fmt::format("M{:.0f} {:.0f}V{:.0f}", from.x, from.y, to.y);
    } else if (peer || link.kind == LinkKind::socket) {
      // Bows, so that links between boxes of one row do not run through the boxes between.
      const double bow = (peer ? 1 : -1) * std::min(36.0, 12 + 0.05 * std::abs(from.x - to.x));
      const double edge = peer ? box_height / 2 : -box_height / 2;
      way = fmt::format("M{:.0f} {:.0f}Q{:.0f} {:.0f} {:.0f} {:.0f}", from.x, from.y + edge,
                        (from.x + to.x) / 2, (from.y + to.y) / 2 + edge + 2 * bow, to.x, to.y + edge);
    } else {
      way = fmt::format("M{:.0f} {:.0f}L{:.0f} {:.0f}", from.x, from.y, to.x, to.y);
    }
    const char* stroke = peer || link.kind == LinkKind::c2c ? "#6aa84f"
                         : link.kind == LinkKind::wire      ? "#e69138"
                                                            : "#777777";
    lines_ += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\"{}><title>{} - {}: {}, {:.4g} "
        "GB/s{}</title></path>\n",
        way, stroke, thick, link.assumed ? " stroke-dasharray=\"6 4\"" : "", name(machine_.node(link.a)),
        name(machine_.node(link.b)), name(link.kind), link.bandwidth, link.assumed ? " (a guess)" : "");
    const bool crowded = link.kind == LinkKind::socket || (peer && !to_switch);  // the title says it
    if (!crowded)
      lines_ +=
          fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"9\" fill=\"#444444\">{:.4g}</text>\n",
                      (from.x + 2 * to.x) / 3 + 5, (from.y + 2 * to.y) / 3 - 2, link.bandwidth);
  }

  void draw(const Node& node, Point at) {
    const double wide = node.kind == NodeKind::nvswitch ? width_ - 2 * page_margin : box_width;
    boxes_ += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"4\" fill=\"{}\" "
        "stroke=\"#555555\"/>\n<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
        at.x - wide / 2, at.y - box_height / 2, wide, box_height, colour(node.kind), at.x, at.y - 4,
        name(node));
    std::string second = node.label.empty() ? node.pci : node.label;
    if (node.kind == NodeKind::nvswitch && machine_.nvlink_machines > 1)
      second = fmt::format("shared by {} machines", machine_.nvlink_machines);
    boxes_ +=
        fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\" font-size=\"9\">{}</text>\n",
                    at.x, at.y + 11, escaped_xml(shortened(second, 22)));
  }

  void notes() {
    lines_ += fmt::format(
        "<text x=\"{:.0f}\" y=\"20\" text-anchor=\"end\" fill=\"#444444\">GB/s a direction; dashed: a "
        "guess</text>\n",
        width_ - page_margin);
  }

  const Machine& machine_;
  std::vector<std::vector<LinkId>> adjacency_;
  std::map<NodeId, Point> at_;
  double width_ = 0, lowest_ = 0;
  std::string lines_, boxes_;
};

}  // namespace

std::string to_svg(const Machine& machine) { return Drawing(machine).run(); }

}  // namespace tutti::topology
