// Products are written where a copy would put them: into a part of a larger tensor, or transposed.
// So are copies, of which one follows the other.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/pass.h"
#include "plan/replace.h"

namespace brim::plan {
namespace {

/// An axis of a copy: elements from one index to the next where it reads and where it writes.
struct Axis {
  int64_t from, to, size;
};

/// Those of more than one element, the largest steps of what is read first.
std::vector<Axis> axes_of(const Tensor& x, const Tensor& y) {
  std::vector<Axis> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] > 1) axes.push_back({x.strides()[i], y.strides()[i], x.shape()[i]});
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.from > b.from; });
  return axes;
}

/// `part`, a view of what a copy of x, dense, to y reads, where the copy puts it. Nullopt where
/// these elements have no strides.
std::optional<Tensor> moved(const Tensor& part, const Tensor& x, const Tensor& y) {
  const std::vector<Axis> axes = axes_of(x, y);
  std::vector<int64_t> first(axes.size());
  int64_t offset = y.offset(), rest = part.offset();
  for (size_t k = 0; k < axes.size(); ++k) {
    first[k] = rest / axes[k].from;
    rest %= axes[k].from;
    if (first[k] >= axes[k].size) return std::nullopt;
    offset += first[k] * axes[k].to;
  }
  if (rest != 0) return std::nullopt;
  Strides strides = part.strides();
  std::vector<bool> used(axes.size(), false);
  for (int i = 0; i < part.rank(); ++i) {
    // An axis of the part is one of the copy's, or several that follow each other on both sides.
    int64_t size = part.shape()[i], from = part.strides()[i];
    std::optional<int64_t> to;  // where the next one has to go on
    for (size_t k = axes.size(); k-- > 0 && size > 1;) {
      const Axis& axis = axes[k];
      if (used[k] || axis.from != from) continue;
      if (to && *to != axis.to) return std::nullopt;
      if (!to) strides[i] = axis.to;
      used[k] = true;
      if (first[k] + size <= axis.size) {
        size = 1;
      } else if (first[k] == 0 && size % axis.size == 0) {
        size /= axis.size;
        from *= axis.size;
        to = axis.to * axis.size;
      } else {
        return std::nullopt;
      }
    }
    if (size > 1) return std::nullopt;
  }
  return y.alias(part.shape(), strides, offset);
}

/// Whether `delta` is a sum of each stride times a number between -(size - 1) and size - 1. The
/// strides from `k` on fall, each as large as all behind it reach.
bool reaches(const std::vector<Axis>& axes, size_t k, int64_t delta) {
  if (k == axes.size()) return delta == 0;
  const int64_t near = delta / axes[k].from;
  for (const int64_t times : {near - 1, near, near + 1})
    if (std::abs(times) < axes[k].size && reaches(axes, k + 1, delta - times * axes[k].from))
      return true;
  return false;
}

/// Whether two views of one storage have no element in common, as far as can be told.
bool are_apart(const Tensor& a, const Tensor& b) {
  const std::vector<Axis> axes = axes_of(a, a), others = axes_of(b, b);
  if (!std::equal(
          axes.begin(), axes.end(), others.begin(), others.end(),
          [](const Axis& x, const Axis& y) { return x.from == y.from && x.size == y.size; }))
    return false;
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t reach = 0;  // of the axes behind
    for (size_t j = k + 1; j < axes.size(); ++j) reach += (axes[j].size - 1) * axes[j].from;
    if (axes[k].from <= reach) return false;
  }
  return !reaches(axes, 0, b.offset() - a.offset());
}

/// Whether the launch's kernel can write its operand with these strides.
bool can_write(const Launch& launch, const Operand& o, const Tensor& y) {
  if (is(launch, "copy")) return true;
  if (!launch.traits(o).strided || launch.traits(o).reads || y.rank() < 2) return false;
  const int r = y.rank();
  const auto is_dense = [&](int axis) { return y.size(axis) == 1 || y.strides()[axis] == 1; };
  return is_dense(r - 1) || is_dense(r - 2);
}

/// A copy whose source others only write.
class Copy {
 public:
  Copy(const Program& program, const Uses& uses, int index)
      : program_(program), uses_(uses), index_(index) {}

  /// Has the writers write where the copy would put it; false where that cannot be.
  bool elide(Program& program) {
    if (!find_writers() || !is_free()) return false;
    for (const Writer& w : writers_) *w.operand.tensor = w.target;
    program.launches[static_cast<size_t>(index_)] = nullptr;
    return true;
  }

 private:
  struct Writer {
    int launch;
    Operand operand;
    Tensor target;
  };
  const Launch* at(int i) const { return program_.launches[static_cast<size_t>(i)].get(); }

  bool find_writers() {
    const Launch& copy = *at(index_);
    const Tensor &x = copy.operand("x"), &y = copy.operand("y");
    if (!program_.temporary(x) || x.storage() == y.storage() || x.shape() != y.shape() ||
        x.dtype() != y.dtype() || !covers_storage(x) || x.numel() == 0 || uses_.reader(x) != index_)
      return false;
    for (const int i : uses_.writers(x)) {
      if (!at(i) || i > index_) return false;
      for (const Operand& o : at(i)->operands()) {
        if (!o.tensor->defined()) continue;
        if (o.tensor->storage() == y.storage()) return false;
        if (o.tensor->storage() != x.storage()) continue;
        const std::optional<Tensor> target = moved(*o.tensor, x, y);
        if (!target || o.tensor->dtype() != x.dtype() || !can_write(*at(i), o, *target))
          return false;
        writers_.push_back({i, o, *target});
      }
    }
    return !writers_.empty();
  }
  /// Whether nobody else, up to the copy, uses what the writers write then.
  bool is_free() const {
    for (const Writer& w : writers_)
      for (int i = w.launch + 1; i < index_; ++i) {
        if (!at(i)) continue;
        for (const Operand& o : at(i)->operands())
          if (o.tensor->defined() && o.tensor->storage() == w.target.storage() &&
              !are_apart(*o.tensor, w.target))
            return false;
      }
    return true;
  }

  const Program& program_;
  const Uses& uses_;
  int index_;
  std::vector<Writer> writers_;
};

}  // namespace

std::string elide_copies(Program& program) {
  int gone = 0;
  // The last ones first: where a copy follows another, the first then knows where all ends.
  for (int i = static_cast<int>(program.launches.size()); i-- > 0;) {
    const Launch* launch = program.launches[static_cast<size_t>(i)].get();
    if (!is(*launch, "copy") || launch->refresh || launch->commit) continue;
    const Uses uses(program);
    gone += Copy(program, uses, i).elide(program);
  }
  program.compact();
  return gone ? fmt::format("{} copies", gone) : "";
}

}  // namespace brim::plan
