// The ways in which a tensor can lie in memory: what a view of another tensor may be.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/ops/create.h>

namespace brim::tests {

enum class Layout {
  contiguous,
  transposed,
  strided,  // every second element of each axis, the first ones left out
  behind,   // dense, behind and before other elements of its storage
  flipped,  // strides below 0
  nhwc,
  chwn,
  expanded,  // from here on elements share memory
  expanded_last,
  expanded_all,
  windows  // element (.., i, j) is number i + j of a row
};
constexpr const char* kLayoutName[] = {"contiguous",    "transposed",   "strided", "behind",
                                       "flipped",       "nhwc",         "chwn",    "expanded",
                                       "expanded_last", "expanded_all", "windows"};
/// All but the first.
constexpr Layout kViews[] = {Layout::transposed, Layout::strided,       Layout::behind,
                             Layout::flipped,    Layout::nhwc,          Layout::chwn,
                             Layout::expanded,   Layout::expanded_last, Layout::expanded_all,
                             Layout::windows};

/// `x` with its axes in reverse order.
inline Tensor reversed(const Tensor& x) {
  std::vector<int> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return x.permute(axes);
}

/// `x`'s first elements along [first, last], repeated along these axes without memory of their own.
inline Tensor repeated(Tensor x, int first, int last) {
  const Shape shape = x.shape();
  bool changes = false;
  for (int axis = first; axis <= last; ++axis) {
    if (shape[axis] == 0) return {};
    changes |= shape[axis] > 1;
    x = x.slice(axis, 0, 1);
  }
  return changes ? x.expand(shape) : Tensor();
}

/// Windows of a row: it begins with `x`'s first column, and ends with its last row.
inline Tensor windowed(const Tensor& x) {
  if (x.rank() < 2 || x.numel() == 0) return {};
  const int64_t rows = x.size(-2), columns = x.size(-1);
  Shape shape = x.shape();
  shape.erase(x.rank() - 2);
  shape[x.rank() - 2] = rows + columns - 1;
  const Tensor row = empty(shape, {.dtype = x.dtype(), .device = x.device()});
  row.slice(-1, 0, rows).copy_(x.select(-1, 0));
  row.slice(-1, rows - 1, rows + columns - 1).copy_(x.select(-2, rows - 1));
  Strides strides = row.strides();
  strides.push_back(1);
  return row.alias(x.shape(), strides, 0);
}

/// `x` in memory as `layout` says; its values change only where elements share memory. What lies
/// between and around them must not be read: NaN, or 77. Undefined where `x` cannot lie so.
inline Tensor arrange(const Tensor& x, Layout layout) {
  const double filler = is_floating(x.dtype()) ? std::nan("") : 77;
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const auto into = [&](Tensor view) {
    view.copy_(x);
    return view;
  };
  switch (layout) {
    case Layout::contiguous:
      return x;
    case Layout::transposed:
      return x.rank() < 2 ? Tensor() : reversed(reversed(x).contiguous());
    case Layout::strided: {
      if (x.rank() == 0) return {};
      Shape wide = x.shape();
      for (int64_t& d : wide) d = 2 * d + 1;
      Tensor view = full(wide, filler, like);
      for (int axis = 0; axis < x.rank(); ++axis) view = view.slice(axis, 1, INT64_MAX, 2);
      return into(view);
    }
    case Layout::behind:
      return into(full({x.numel() + 5}, filler, like).slice(0, -x.numel() - 2, -2).view(x.shape()));
    case Layout::flipped: {
      Strides strides = contiguous_strides(x.shape());
      for (int64_t& stride : strides) stride = -stride;
      const Tensor base = empty({x.numel()}, like);
      return into(base.alias(x.shape(), strides, std::max<int64_t>(0, x.numel() - 1)));
    }
    case Layout::nhwc:
    case Layout::chwn:
      return x.rank() != 4 ? Tensor()
                           : x.to(layout == Layout::nhwc ? MemoryFormat::nhwc : MemoryFormat::chwn);
    case Layout::expanded:
      return x.rank() == 0 ? Tensor() : repeated(x, 0, 0);
    case Layout::expanded_last:
      return x.rank() == 0 ? Tensor() : repeated(x, x.rank() - 1, x.rank() - 1);
    case Layout::expanded_all:
      return repeated(x, 0, x.rank() - 1);
    case Layout::windows:
      return windowed(x);
  }
  return {};
}

}  // namespace brim::tests
