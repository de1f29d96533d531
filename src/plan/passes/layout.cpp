// Chooses the memory format of every activation: nchw, nhwc or chwn. Each launch has a format, in
// which it wants its activations; a tensor has the format of the launch that writes it, and readers
// that want another get a copy. Some launches convert by themselves: casts what they read, CUDA's
// convolutions their weights. What launches and copies cost is measured (layout.h). The choice
// descends from the fixed formats, changing one launch after the other, so that it is never worse
// than these by the measured times.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include <brim/core/allocator.h>

#include "backend/options/geometry.h"
#include "plan/layout.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

constexpr int64_t kWorth = int64_t{1} << 24;  // multiply-adds of a convolution worth a measurement
constexpr double kNever = 1e9;                // seconds: what cannot be
// Measurements are noisy. What must be won: by another fixed format, by a mixture of formats (both
// as parts of the step's time), and by one launch that leaves a fixed format (as a part of its
// own).
constexpr double kFixedGain = 0.98, kMixedGain = 0.95, kMargin = 0.25;

/// An activation: what lies in one storage.
struct Node {
  Tensor tensor;
  bool fixed = false;  // stays nchw: somebody else sees it
  std::vector<int> writers, readers;
};

bool worth_it(const Program& program) {
  return backend::launch_policy(program.device.kind).can_be_measured &&
         std::any_of(program.launches.begin(), program.launches.end(), [](const auto& l) {
           const auto* g = l->template option<backend::ConvGeometry>();
           return g && (g->work() >= kWorth || forced_layout);
         });
}

class Layouts {
 public:
  explicit Layouts(Program& program) : program_(program) {
    const size_t count = program.launches.size();
    activations_.resize(count);
    group_.resize(count);
    std::iota(group_.begin(), group_.end(), 0);
    for (size_t i = 0; i < count; ++i) activations_[i] = activations_of(*program.launches[i]);
    collect();
    join();
  }

  /// All that can be nhwc. Asks for no time, so that nothing but the launches decides.
  std::string choose_fixed() {
    price([](Launch&, const Activations&, MemoryFormat) { return 0.0; });
    const auto nhwc =
        static_cast<int>(std::ranges::find(kFormats, MemoryFormat::nhwc) - kFormats.begin());
    const int copies = apply(all(nhwc));
    return fmt::format("nhwc by rule, with {} copies", copies);
  }

  std::string choose() {
    price([this](Launch& launch, const Activations& a, MemoryFormat format) {
      return costs_.of(launch, a, format);
    });
    std::vector<int> best, mixed;
    std::string text;
    double least = kNever, least_mixed = kNever;
    for (size_t f = 0; f < kFormats.size(); ++f) {
      if (forced_layout && *forced_layout != kFormats[f]) continue;
      const std::vector<int> start = all(static_cast<int>(f));
      const double total = cost(start);
      text +=
          fmt::format("{}{} {:.1f} ms", text.empty() ? "" : ", ", name(kFormats[f]), 1e3 * total);
      if (best.empty() || total < least * kFixedGain) {
        best = start;
        least = total;
      }
      if (forced_layout) continue;
      const std::vector<int> found = descend(start);
      if (cost(found) < least_mixed) {
        mixed = found;
        least_mixed = cost(found);
      }
    }
    if (least_mixed < least * kMixedGain) {
      best = mixed;
      least = least_mixed;
    }
    costs_.save();
    Allocator::of(program_.device).release_cached();  // what the measurements ran in
    const int copies = apply(best);
    std::array<int, kFormats.size()> number{};
    for (const Node& n : nodes_)
      if (!n.fixed && !n.writers.empty())
        ++number[static_cast<size_t>(best[static_cast<size_t>(find(n.writers[0]))])];
    std::string chosen;
    for (size_t f = 0; f < kFormats.size(); ++f)
      if (number[f])
        chosen += fmt::format("{}{} {}", chosen.empty() ? "" : ", ", number[f], name(kFormats[f]));
    return fmt::format(
        "{} tensors with {} copies, {:.1f} ms by measurement (all of one: {}); {} measured now",
        chosen, copies, 1e3 * least, text, costs_.measured());
  }

 private:
  int find(int i) const {
    while (group_[static_cast<size_t>(i)] != i) i = group_[static_cast<size_t>(i)];
    return i;
  }

  static bool contains(const std::vector<size_t>& operands, size_t k) {
    return std::find(operands.begin(), operands.end(), k) != operands.end();
  }

  void collect() {
    for (size_t i = 0; i < program_.launches.size(); ++i) {
      const Launch& launch = *program_.launches[i];
      for (size_t k = 0; k < launch.operands().size(); ++k) {
        const Operand& o = launch.operands()[k];
        if (!o.tensor->defined()) continue;
        const bool activation =
            contains(activations_[i].operands, k) || contains(activations_[i].converted, k);
        const auto [at, fresh] = index_.try_emplace(o.tensor->storage().get(), nodes_.size());
        if (fresh) {
          nodes_.push_back({*o.tensor, {}, {}, {}});
          nodes_.back().fixed = !program_.temporary(*o.tensor);
        }
        Node& node = nodes_[at->second];
        // A view of another shape sees the order of the elements.
        const bool same =
            activation && covers_storage(*o.tensor) && o.tensor->shape() == node.tensor.shape();
        node.fixed |= !same;
        std::vector<int>& list = o.writes ? node.writers : node.readers;
        if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
      }
    }
    for (Node& n : nodes_) n.fixed |= n.writers.empty() || neutral(n.tensor);
  }

  /// One channel or one pixel: the same memory in nchw and nhwc.
  static bool neutral(const Tensor& t) {
    return t.rank() == 4 && (t.size(1) == 1 || t.size(2) * t.size(3) == 1);
  }

  /// Launches that write one storage, and those that read it between as it is, share their format.
  void join() {
    for (const Node& n : nodes_) {
      if (n.fixed || n.writers.size() < 2) continue;
      for (const std::vector<int>* list : {&n.writers, &n.readers})
        for (const int i : *list)
          if (list == &n.writers || uses(i, n))
            group_[static_cast<size_t>(find(i))] = find(n.writers[0]);
    }
  }

  template <class Cost>
  void price(const Cost& cost_of) {
    price_.assign(program_.launches.size(), {kNever, kNever, kNever});
    for (size_t i = 0; i < program_.launches.size(); ++i) {
      const Activations& a = activations_[i];
      auto& mine = price_[i];
      if (a.operands.empty()) {
        mine[0] = 0;  // takes what was recorded
        continue;
      }
      for (size_t f = 0; f < kFormats.size(); ++f)
        if (std::find(a.formats.begin(), a.formats.end(), kFormats[f]) != a.formats.end() &&
            (f == 0 || can_be(static_cast<int>(i), kFormats[f])))
          mine[f] = a.elementwise ? 0 : cost_of(*program_.launches[i], a, kFormats[f]);
      if (program_.progress && costs_.measured() > 0)
        program_.progress(static_cast<double>(i + 1) /
                          static_cast<double>(program_.launches.size()));
    }
  }

  /// Seconds of copying a node to another format, measured when it is first asked for.
  double copy_price(size_t node, size_t from, size_t to) const {
    const auto [at, fresh] = copy_.try_emplace({node, from, to}, kNever);
    const Tensor& t = nodes_[node].tensor;
    if (fresh && (!nodes_[node].fixed || from == 0))
      at->second = costs_.of_conversion(t.shape(), program_.device, {t.dtype(), kFormats[from]},
                                        {t.dtype(), kFormats[to]});
    return at->second;
  }

  /// Seconds that a launch takes to convert what it reads or writes in another format.
  double converting_price(size_t launch, const std::vector<int>& choice) const {
    double total = 0;
    const Launch& l = *program_.launches[launch];
    const int mine = choice[static_cast<size_t>(find(static_cast<int>(launch)))];
    for (const size_t k : activations_[launch].converted) {
      const Tensor& t = l.operand(k);
      const int other = format_of(node_of(t), choice);
      if (other == mine || neutral(t)) continue;
      Layout from{t.dtype(), kFormats[static_cast<size_t>(other)]};
      Layout to{l.dtype(), kFormats[static_cast<size_t>(mine)]};
      total += costs_.of_conversion(t.shape(), program_.device, from, to);
    }
    return total;
  }
  const Node& node_of(const Tensor& t) const { return nodes_[index_.at(t.storage().get())]; }

  /// Its results may leave nchw, and what it reads can be copied.
  bool can_be(int launch, MemoryFormat format) const {
    for (const size_t k : activations_[static_cast<size_t>(launch)].operands) {
      const Operand& o = program_.launches[static_cast<size_t>(launch)]->operands()[k];
      const Node& n = node_of(*o.tensor);
      if (neutral(*o.tensor)) {
        if (format == MemoryFormat::chwn) return false;
      } else if (o.writes && !converters_take(n, format)) {
        return false;
      } else if (n.fixed && (o.writes || !copies_hold(n) || !covers_storage(*o.tensor) ||
                             o.tensor->shape() != n.tensor.shape())) {
        return false;
      }
    }
    return true;
  }
  /// Launches that convert what they read of a node can do so from this format.
  bool converters_take(const Node& n, MemoryFormat format) const {
    return std::all_of(n.readers.begin(), n.readers.end(), [&](int r) {
      const Activations& a = activations_[static_cast<size_t>(r)];
      const Launch& l = *program_.launches[static_cast<size_t>(r)];
      return std::find(a.formats.begin(), a.formats.end(), format) != a.formats.end() ||
             std::none_of(a.converted.begin(), a.converted.end(),
                          [&](size_t k) { return l.operand(k).storage() == n.tensor.storage(); });
    });
  }
  /// A copy made before the first reader is right for the later ones.
  static bool copies_hold(const Node& n) {
    return n.writers.empty() ||
           (n.writers.size() == 1 && (n.readers.empty() || n.readers[0] > n.writers[0]));
  }

  /// The format, by number, of each group (at its first launch) if all that can have `f` do.
  std::vector<int> all(int f) const {
    std::vector<int> choice(group_.size(), 0);
    for (size_t i = 0; i < group_.size(); ++i)
      if (allowed(static_cast<int>(i), f)) choice[i] = f;
    return choice;
  }
  bool allowed(int group, int f) const {
    for (size_t i = 0; i < group_.size(); ++i)
      if (find(static_cast<int>(i)) == group && price_[i][static_cast<size_t>(f)] >= kNever)
        return false;
    return true;
  }

  int format_of(const Node& n, const std::vector<int>& choice) const {
    return n.fixed ? 0 : choice[static_cast<size_t>(find(n.writers[0]))];
  }
  /// Formats that readers want of a node, other than its own.
  std::vector<size_t> wanted(const Node& n, const std::vector<int>& choice) const {
    std::array<bool, kFormats.size()> seen{};
    if (n.tensor.rank() == 4 && !neutral(n.tensor))
      for (const int r : n.readers)
        if (uses(r, n)) seen[static_cast<size_t>(choice[static_cast<size_t>(find(r))])] = true;
    std::vector<size_t> formats;
    for (size_t f = 0; f < seen.size(); ++f)
      if (seen[f] && static_cast<int>(f) != format_of(n, choice)) formats.push_back(f);
    return formats;
  }
  bool uses(int launch, const Node& n) const {
    const Launch& l = *program_.launches[static_cast<size_t>(launch)];
    for (const size_t k : activations_[static_cast<size_t>(launch)].operands)
      if (!l.operands()[k].writes && l.operand(k).storage() == n.tensor.storage()) return true;
    return false;
  }

  double cost(const std::vector<int>& choice) const {
    double total = 0;
    for (size_t i = 0; i < price_.size(); ++i)
      total +=
          price_[i][static_cast<size_t>(choice[static_cast<size_t>(find(static_cast<int>(i)))])] +
          converting_price(i, choice);
    for (size_t at = 0; at < nodes_.size(); ++at)
      for (const size_t to : wanted(nodes_[at], choice))
        total += copy_price(at, static_cast<size_t>(format_of(nodes_[at], choice)), to);
    return total;
  }

  std::vector<int> descend(std::vector<int> choice) const {
    constexpr int kSweeps = 4;
    double now = cost(choice);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const double before = now;
      for (size_t i = 0; i < group_.size(); ++i) {
        if (group_[i] != static_cast<int>(i) || activations_[i].operands.empty()) continue;
        for (int f = 0; f < static_cast<int>(kFormats.size()); ++f) {
          if (f == choice[i] || !allowed(static_cast<int>(i), f)) continue;
          const int old = std::exchange(choice[i], f);
          const double then = cost(choice);
          if (then < now - kMargin * price_[i][static_cast<size_t>(old)])
            now = then;
          else
            choice[i] = old;
        }
      }
      if (now >= before) break;
    }
    return choice;
  }

  /// Sets strides and puts copies in front of their first reader. Returns how many.
  int apply(const std::vector<int>& choice) {
    std::vector<std::vector<std::unique_ptr<Launch>>> before(program_.launches.size());
    int copies = 0;
    for (size_t i = 0; i < program_.launches.size(); ++i) {
      const int f = choice[static_cast<size_t>(find(static_cast<int>(i)))];
      const Activations& a = activations_[i];
      const auto operands = program_.launches[i]->operands();
      if (f != 0) arrange(*program_.launches[i], a, kFormats[static_cast<size_t>(f)]);
      for (const size_t k : a.converted) {
        Tensor& t = *operands[k].tensor;
        arrange(t, kFormats[static_cast<size_t>(format_of(node_of(t), choice))]);
      }
    }
    for (const Node& n : nodes_)
      for (const size_t f : wanted(n, choice)) {
        const Shape& shape = n.tensor.shape();
        const MemoryFormat own = kFormats[static_cast<size_t>(format_of(n, choice))];
        Tensor copy = program_.make(shape, n.tensor.dtype(), kFormats[f]);
        bool placed = false;
        for (const int r : n.readers) {
          if (choice[static_cast<size_t>(find(r))] != static_cast<int>(f) || !uses(r, n)) continue;
          if (!std::exchange(placed, true))
            before[static_cast<size_t>(r)].push_back(
                conversion(n.tensor.alias(shape, strides_of(shape, own), 0), copy));
          for (const Operand& o : program_.launches[static_cast<size_t>(r)]->operands())
            if (o.tensor->defined() && o.tensor->storage() == n.tensor.storage())
              *o.tensor = copy.alias(shape, copy.strides(), 0);
        }
        ++copies;
      }
    std::vector<std::unique_ptr<Launch>> launches;
    for (size_t i = 0; i < program_.launches.size(); ++i) {
      for (auto& launch : before[i]) launches.push_back(std::move(launch));
      launches.push_back(std::move(program_.launches[i]));
    }
    program_.launches = std::move(launches);
    return copies;
  }

  Program& program_;
  std::vector<Activations> activations_;
  std::vector<int> group_;  // the first launch of a set that shares its format, in steps
  std::vector<Node> nodes_;
  std::map<const Storage*, size_t> index_;
  std::vector<std::array<double, kFormats.size()>> price_;
  mutable LayoutCosts costs_{program_.device};
  mutable std::map<std::array<size_t, 3>, double> copy_;  // node, from, to
};

}  // namespace

std::string layout(Program& program) {
  if (!worth_it(program)) return "";
  return program.fixed_layouts ? Layouts(program).choose_fixed() : Layouts(program).choose();
}

}  // namespace brim::plan
