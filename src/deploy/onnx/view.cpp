// The axes of the value are cut into factors where the window has strides inside of them; then each
// axis of the window reads one factor, or several that lie behind each other in memory.
#include "deploy/onnx/view.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace brim::deploy {
namespace {

class View {
 public:
  View(const StridedValue& of, const Window& window, int64_t batch)
      : of_(of),
        window_(window),
        batch_(batch),
        offset_(window.offset - of.offset),
        readings_(window.shape.size()) {}

  std::optional<Value> nodes(OnnxGraph& graph) {
    for (size_t axis = 0; axis < of_.value.shape.size(); ++axis)
      if (!cut(axis)) return {};
    for (const size_t axis : axes_from_innermost())
      if (!read(axis)) return {};
    if (!place()) return {};
    return made(graph);
  }

 private:
  /// Of an axis of the value; what is read of it.
  struct Factor {
    Extent size, stride, start = 0, taken = 1;
    bool is_used = false;
  };
  /// Of an axis of the window.
  struct Reading {
    std::vector<size_t> factors;  // the outermost first
    bool is_reversed = false;
    int64_t step = 1;
  };

  int64_t at(const Extent& extent) const { return extent.at(batch_); }

  bool is_stride_of_value(const Extent& stride) const {
    for (size_t i = 0; i < of_.strides.size(); ++i)
      if (!of_.value.shape[i].is(1) && of_.strides[i] == stride) return true;
    return false;
  }

  bool cut(size_t axis) {
    const Extent size = of_.value.shape[axis], stride = of_.strides[axis];
    if (size.is(1)) {
      factors_.push_back({.size = 1, .stride = stride});
      return true;
    }
    const std::optional<Extent> end = product(stride, size);
    if (!end) return false;
    std::vector<Extent> cuts = {stride};
    for (size_t i = 0; i < window_.shape.size(); ++i) {
      Extent t = window_.strides[i];
      if (at(t) < 0) t = Extent(0) - t;
      const bool is_inside = !window_.shape[i].is(1) && at(stride) < at(t) && at(t) < at(*end) &&
                             quotient(t, stride) && quotient(*end, t);
      if (is_inside && !is_stride_of_value(t) && std::ranges::find(cuts, t) == cuts.end())
        cuts.push_back(t);
    }
    std::ranges::sort(cuts, {}, [&](const Extent& e) { return at(e); });
    cuts.push_back(*end);
    is_cut_ = is_cut_ || cuts.size() > 2;
    for (size_t k = cuts.size() - 1; k-- > 0;) {
      const std::optional<Extent> factor = quotient(cuts[k + 1], cuts[k]);
      if (!factor) return false;
      factors_.push_back({.size = *factor, .stride = cuts[k]});
    }
    return true;
  }

  /// Those with several elements.
  std::vector<size_t> axes_from_innermost() const {
    std::vector<size_t> axes;
    for (size_t i = 0; i < window_.shape.size(); ++i)
      if (!window_.shape[i].is(1) && !window_.strides[i].is(0)) axes.push_back(i);
    std::ranges::stable_sort(axes, {}, [&](size_t i) { return std::abs(at(window_.strides[i])); });
    return axes;
  }

  Factor* unused(const std::function<bool(const Factor&)>& fits) {
    const auto found = std::ranges::find_if(
        factors_, [&](const Factor& f) { return !f.is_used && !f.size.is(1) && fits(f); });
    if (found == factors_.end()) return nullptr;
    found->is_used = true;
    return &*found;
  }
  size_t index_of(const Factor* factor) const {
    return static_cast<size_t>(factor - factors_.data());
  }

  bool read(size_t axis) {
    Reading& reading = readings_[axis];
    Extent stride = window_.strides[axis], size = window_.shape[axis];
    if (at(stride) < 0) {
      const std::optional<Extent> back = product(size - 1, stride);
      if (!back) return false;
      offset_ = offset_ + *back;
      stride = Extent(0) - stride;
      reading.is_reversed = true;
    }
    while (true) {
      Factor* const factor = unused([&](const Factor& f) { return f.stride == stride; });
      if (!factor) return reading.factors.empty() && read_steps(reading, stride, size);
      reading.factors.insert(reading.factors.begin(), index_of(factor));
      if (at(size) <= at(factor->size)) {
        factor->taken = size;
        return !reading.is_reversed || reading.factors.size() == 1;
      }
      const std::optional<Extent> outer = quotient(size, factor->size);
      const std::optional<Extent> next = product(factor->stride, factor->size);
      if (!outer || !next) return false;
      factor->taken = factor->size;
      size = *outer;
      stride = *next;
    }
  }

  /// Every k-th element.
  bool read_steps(Reading& reading, Extent stride, Extent size) {
    Factor* const factor = unused([&](const Factor& f) {
      const std::optional<Extent> end = product(f.stride, f.size),
                                  steps = quotient(stride, f.stride);
      return f.size.is_fixed() && size.is_fixed() && steps && steps->is_fixed() && end &&
             at(stride) < at(*end);
    });
    if (!factor) return false;
    reading.step = quotient(stride, factor->stride)->fixed;
    factor->taken = (size.fixed - 1) * reading.step + 1;
    reading.factors = {index_of(factor)};
    return true;
  }

  /// Where along each factor it begins.
  bool place() {
    std::vector<Factor*> order;
    for (Factor& f : factors_)
      if (!f.size.is(1) && !f.stride.is(0)) order.push_back(&f);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](const Factor* f) { return at(f->stride); });
    for (Factor* f : order) {
      f->start = whole_part(offset_, f->stride);
      const std::optional<Extent> steps = product(f->start, f->stride);
      if (!steps || at(f->start) < 0) return false;
      offset_ = offset_ - *steps;
    }
    const auto is_inside = [&](const Factor& f) { return at(f.start + f.taken) <= at(f.size); };
    if (!offset_.is(0) || !std::ranges::all_of(factors_, is_inside)) return false;
    for (const Reading& r : readings_)
      for (size_t k = 1; k < r.factors.size(); ++k)
        if (!factors_[r.factors[k]].start.is(0)) return false;  // runs over into the outer one
    return true;
  }

  Value made(OnnxGraph& graph) const {
    Value x = of_.value;
    if (is_cut_) {
      Extents sizes;
      for (const Factor& f : factors_) sizes.push_back(f.size);
      x = graph.reshape(x, sizes);
    }
    std::vector<int64_t> steps(factors_.size(), 1);
    for (const Reading& r : readings_)
      if (r.step != 1) steps[r.factors[0]] = r.step;
    for (size_t i = 0; i < factors_.size(); ++i) {
      const Factor& f = factors_[i];
      if (f.taken != f.size || steps[i] != 1)
        x = graph.slice(x, i, f.start, f.start + f.taken, steps[i]);
    }
    std::vector<int> order;  // of the window; then those of which one element is read
    for (const Reading& r : readings_) {
      if (r.is_reversed) x = graph.reversed(x, r.factors[0]);
      order.insert(order.end(), r.factors.begin(), r.factors.end());
    }
    if (!std::ranges::is_sorted(order)) {
      for (int i = 0; i < static_cast<int>(factors_.size()); ++i)
        if (std::ranges::find(order, i) == order.end()) order.push_back(i);
      x = graph.transpose(x, order);
    }
    Extents shape;
    for (size_t i = 0; i < window_.shape.size(); ++i)
      shape.push_back(window_.strides[i].is(0) ? Extent(1) : window_.shape[i]);
    return graph.reshape(x, shape);
  }

  const StridedValue& of_;
  const Window& window_;
  const int64_t batch_;
  Extent offset_;
  std::vector<Factor> factors_;
  std::vector<Reading> readings_;
  bool is_cut_ = false;
};

}  // namespace

std::optional<Value> view_of(const StridedValue& of, const Window& window, OnnxGraph& graph,
                             int64_t batch) {
  return View(of, window, batch).nodes(graph);
}

}  // namespace brim::deploy
