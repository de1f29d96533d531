#include "command/network_svg.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "command/format.h"
#include "command/report_page/html.h"

namespace brim::command {
namespace {

using deploy::ModuleSummary;
using deploy::NetworkSummary;
using deploy::SummaryNode;

constexpr double kBoxWidth = 500, kBoxHeight = 34, kGap = 20, kHeading = 58;
constexpr double kIndent = 14;  // of a frame in a frame
constexpr double kLane = 16;    // between curves beside the boxes
constexpr double kFrame = 17;   // a frame's name above its first box
constexpr double kEdge = 20;

std::string svg_text(std::string_view text) { return page::escaped_for_html(text); }

/// "a", "a.b", "a.b.c" of "a.b.c".
std::vector<std::string> names_on_the_way(const std::string& name) {
  std::vector<std::string> all;
  if (name.empty()) return all;
  for (size_t at = name.find('.'); at != std::string::npos; at = name.find('.', at + 1))
    all.push_back(name.substr(0, at));
  all.push_back(name);
  return all;
}

const char* node_color(const SummaryNode& node) {
  const auto has = [&](const char* part) {
    return std::ranges::any_of(
        node.ops, [&](const std::string& op) { return op.find(part) != std::string::npos; });
  };
  if (has("conv")) return "#d6e6f7";
  if (has("linear") || has("matmul") || has("attention")) return "#fde3cc";
  if (has("norm")) return "#e3f1dc";
  if (has("pool")) return "#eadff3";
  if (has("embedding")) return "#fbe2ea";
  return "#f1f1f1";
}

/// A stretch of nodes in one module of modules.
struct ModuleFrame {
  std::string name;
  int first, last, depth;
};

class NetworkDrawing {
 public:
  explicit NetworkDrawing(const NetworkSummary& network) : network_(network) {
    find_frames();
    place();
    find_lanes();
  }

  std::string svg(const std::string& title) const {
    const double width = right() + kLane * (lanes_ + 1) + kEdge;
    const double height = bottom_ + kEdge;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#505050\"/></marker>"
        "</defs>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n"
        "<text x=\"{2}\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{3}</text>\n",
        width, height, kEdge, svg_text(title));
    for (const ModuleFrame& f : frames_) svg += frame(f);
    svg += box(-1, "#ffffff", "input", network_.input.str());
    for (int i = 0; i < count(); ++i) svg += node(i);
    for (int i = 0; i < count(); ++i)
      for (const int from : node_at(i).inputs) svg += edge(from, i);
    return svg + "</svg>\n";
  }

 private:
  int count() const { return static_cast<int>(network_.nodes.size()); }
  const SummaryNode& node_at(int i) const { return network_.nodes[static_cast<size_t>(i)]; }
  double right() const { return kEdge + kIndent * deepest_ + kBoxWidth + kIndent * deepest_; }
  double left_of_boxes() const { return kEdge + kIndent * deepest_; }
  double top_of(int i) const { return tops_[static_cast<size_t>(int64_t{i} + 1)]; }

  /// The modules of modules that a node is in; a leaf is its box itself.
  std::vector<std::string> frames_of(int i) const {
    std::vector<std::string> path = names_on_the_way(node_at(i).module);
    if (!path.empty() && !has_children(path.back())) path.pop_back();
    return path;
  }
  bool has_children(const std::string& name) const {
    return std::ranges::any_of(network_.modules, [&](const ModuleSummary& m) {
      return m.name.size() > name.size() + 1 && m.name.starts_with(name) &&
             m.name[name.size()] == '.';
    });
  }

  void find_frames() {
    std::vector<ModuleFrame> open;
    const auto close = [&](size_t depth) {
      for (; open.size() > depth; open.pop_back()) frames_.push_back(open.back());
    };
    for (int i = 0; i < count(); ++i) {
      const std::vector<std::string> path = frames_of(i);
      size_t common = 0;
      while (common < std::min(open.size(), path.size()) && open[common].name == path[common])
        ++common;
      close(common);
      for (size_t d = common; d < path.size(); ++d)
        open.push_back({path[d], i, i, static_cast<int>(d) + 1});
      for (ModuleFrame& f : open) f.last = i;
    }
    close(0);
    std::ranges::sort(frames_, {}, &ModuleFrame::depth);  // outer ones below
    for (const ModuleFrame& f : frames_) deepest_ = std::max(deepest_, f.depth);
  }

  /// From top to bottom; a frame that begins needs a line for its name, one that ends a margin.
  void place() {
    double y = kHeading - kBoxHeight / 2;
    tops_.push_back(y);
    y += kBoxHeight;
    for (int i = 0; i < count(); ++i) {
      y += kGap;
      for (const ModuleFrame& f : frames_)
        y += (f.first == i ? kFrame : 0) + (f.last == i - 1 ? 6 : 0);
      tops_.push_back(y);
      y += kBoxHeight;
    }
    for (const ModuleFrame& f : frames_) y += f.last == count() - 1 ? 6 : 0;
    bottom_ = y;
  }

  /// Edges that pass nodes by get a lane each, the shortest ones nearest to the boxes.
  void find_lanes() {
    std::vector<std::pair<int, int>> passing;
    for (int i = 0; i < count(); ++i)
      for (const int from : node_at(i).inputs)
        if (from < i - 1) passing.emplace_back(from, i);
    std::ranges::stable_sort(passing, {}, [](const auto& e) { return e.second - e.first; });
    std::vector<std::vector<std::pair<int, int>>> lanes;
    for (const std::pair<int, int>& e : passing) {
      size_t lane = 0;
      for (; lane < lanes.size(); ++lane)
        if (std::ranges::none_of(lanes[lane], [&](const auto& other) {
              return other.first < e.second && e.first < other.second;
            }))
          break;
      if (lane == lanes.size()) lanes.emplace_back();
      lanes[lane].push_back(e);
      lane_[e] = static_cast<int>(lane);
    }
    lanes_ = static_cast<int>(lanes.size());
  }

  std::string frame(const ModuleFrame& f) const {
    const double inset = kIndent * (f.depth - 1);
    double top = top_of(f.first) - 4, bottom = top_of(f.last) + kBoxHeight + 4;
    for (const ModuleFrame& inner : frames_) {
      if (inner.depth < f.depth) continue;
      if (inner.first == f.first) top -= kFrame;
      if (inner.last == f.last && inner.depth > f.depth) bottom += 5;
    }
    const auto module = std::ranges::find(network_.modules, f.name, &ModuleSummary::name);
    return fmt::format(
        "<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" rx=\"5\" "
        "fill=\"#000000\" fill-opacity=\"0.03\" stroke=\"#b0b0b0\"/>"
        "<text x=\"{4:.1f}\" y=\"{5:.1f}\" fill=\"#606060\">{6}</text>\n",
        kEdge + inset, top, right() - kEdge - 2 * inset, bottom - top, kEdge + inset + 6, top + 13,
        svg_text(f.name + "  " + module->kind));
  }

  /// Two lines with something on both sides.
  std::string box(int i, const char* color, const std::string& name, const std::string& shape,
                  const std::string& details = {}, const std::string& figures = {}) const {
    const double x = left_of_boxes(), y = top_of(i);
    return fmt::format(
        "<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2}\" height=\"{3}\" rx=\"4\" fill=\"{4}\" "
        "stroke=\"#606060\"/><text x=\"{5:.1f}\" y=\"{7:.1f}\">{9}</text>"
        "<text x=\"{6:.1f}\" y=\"{7:.1f}\" text-anchor=\"end\">{10}</text>"
        "<text x=\"{5:.1f}\" y=\"{8:.1f}\" font-size=\"10\" fill=\"#505050\">{11}</text>"
        "<text x=\"{6:.1f}\" y=\"{8:.1f}\" font-size=\"10\" fill=\"#505050\" "
        "text-anchor=\"end\">{12}</text>\n",
        x, y, kBoxWidth, kBoxHeight, color, x + 8, x + kBoxWidth - 8, y + 15, y + 28,
        svg_text(name), svg_text(shape), svg_text(details), svg_text(figures));
  }

  std::string node(int i) const {
    constexpr size_t kMaxCharacters = 60;
    const SummaryNode& n = node_at(i);
    const auto cut = [](std::string text) {
      return text.size() > kMaxCharacters ? text.substr(0, kMaxCharacters - 3) + "..." : text;
    };
    const std::string flops = n.flops > 0 ? format_count(n.flops) + "FLOP" : "";
    if (n.module.empty() || has_children(n.module))
      return box(i, node_color(n), cut(fmt::format("{}", fmt::join(n.ops, " + "))), n.output.str(),
                 "", flops);
    const auto module = std::ranges::find(network_.modules, n.module, &ModuleSummary::name);
    const std::string parameters =
        module->parameters > 0
            ? fmt::format("{} parameters{}", module->parameters, flops.empty() ? "" : " · ")
            : "";
    return box(
        i, node_color(n), n.module, n.output.str(),
        cut(module->options.empty() ? module->kind : module->kind + "(" + module->options + ")"),
        parameters + flops);
  }

  std::string edge(int from, int to) const {
    const double x = left_of_boxes();
    const double below = top_of(from) + kBoxHeight, above = top_of(to);
    const auto lane = lane_.find({from, to});
    if (lane == lane_.end())
      return fmt::format(
          "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#505050\" fill=\"none\" "
          "marker-end=\"url(#arrow)\"/>\n",
          x + kBoxWidth / 2, below, above);
    const double edge = x + kBoxWidth, far = right() + kLane * (lane->second + 1);
    const double y1 = below - 8, y2 = above + 10;
    return fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}H{2:.1f}Q{3:.1f} {1:.1f} {3:.1f} {4:.1f}V{5:.1f}"
        "Q{3:.1f} {6:.1f} {2:.1f} {6:.1f}H{0:.1f}\" stroke=\"#d95f02\" fill=\"none\" "
        "marker-end=\"url(#arrow)\"/>\n",
        edge, y1, far - 8, far, y1 + 8, y2 - 8, y2);
  }

  const NetworkSummary& network_;
  std::vector<ModuleFrame> frames_;
  std::vector<double> tops_;  // the input's first
  std::map<std::pair<int, int>, int> lane_;
  int deepest_ = 0, lanes_ = 0;
  double bottom_ = 0;
};

}  // namespace

NetworkSummary collapsed(const NetworkSummary& network, int depth) {
  if (depth < 0) return network;
  NetworkSummary made = network;
  std::erase_if(made.modules, [&](const ModuleSummary& m) { return m.depth > depth; });
  const auto shallow = [&](const std::string& name) {
    const std::vector<std::string> path = names_on_the_way(name);
    if (depth == 0 || path.empty()) return std::string();
    return path[std::min(path.size(), static_cast<size_t>(depth)) - 1];
  };
  made.nodes.clear();
  std::vector<int> now;  // by node of before
  const auto add_once = [](auto& all, const auto& value) {
    if (std::ranges::find(all, value) == all.end()) all.push_back(value);
  };
  for (const SummaryNode& node : network.nodes) {
    const std::string module = shallow(node.module);
    if (made.nodes.empty() || made.nodes.back().module != module)
      made.nodes.push_back({.module = module, .ops = {}, .output = {}, .inputs = {}});
    SummaryNode& into = made.nodes.back();
    now.push_back(static_cast<int>(made.nodes.size()) - 1);
    for (const std::string& op : node.ops) add_once(into.ops, op);
    into.output = node.output;
    into.flops += node.flops;
    into.activation_bytes += node.activation_bytes;
    for (const int from : node.inputs)
      if (const int source = from < 0 ? -1 : now[static_cast<size_t>(from)]; source != now.back())
        add_once(into.inputs, source);
  }
  for (SummaryNode& node : made.nodes) std::ranges::sort(node.inputs);
  return made;
}

std::string network_svg(const NetworkSummary& network, const std::string& title) {
  return NetworkDrawing(network).svg(title);
}

}  // namespace brim::command
