// masked_select, nonzero and one_hot. The first two read their mask on the host, because the shape
// of the result depends on it.
#include <algorithm>

#include <brim/ops/create.h>
#include <brim/ops/index.h>

#include "ops/checks.h"
#include "ops/index/index.h"

namespace brim {
namespace {

/// Row-major positions of the elements that are not zero, on the CPU, for `op`.
Tensor true_positions(const char* op, const Tensor& mask) {
  ops::refuse_shape_of_values(op);
  const Tensor flags = mask.detach().to(bool_).contiguous().to(Device::cpu());
  const uint8_t* flag = static_cast<const uint8_t*>(flags.raw());
  const int64_t n = flags.numel();
  const int64_t count = std::count_if(flag, flag + n, [](uint8_t v) { return v != 0; });
  const Tensor positions = Tensor::empty({count + 1}, i64, Device::cpu());
  // Without a branch, which masks without order would mislead: what is not taken is overwritten.
  int64_t* to = positions.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    *to = i;
    to += flag[i] != 0;
  }
  return positions.slice(0, 0, count);
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  ops::common_device("masked_select", x, mask);
  BRIM_CHECK(mask.dtype() == bool_, DTypeError,
             "[masked_select] the mask is {}, not bool; compare first, e.g. x > 0",
             name(mask.dtype()));
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor positions = true_positions("masked_select", mask.expand(shape));
  return index_select(x.expand(shape).reshape({shape.numel()}), 0, positions.to(x.device()));
}

Tensor nonzero(const Tensor& x) {
  ops::check_defined("nonzero", x);
  const Tensor positions = true_positions("nonzero", x);
  const int64_t count = positions.numel();
  if (x.rank() == 1) return positions.unsqueeze(1).to(x.device());
  const Tensor index = Tensor::empty({count, x.rank()}, i64, Device::cpu());
  const int64_t* position = positions.data<int64_t>();
  int64_t* to = index.data<int64_t>();
  for (int64_t i = 0; i < count; ++i, to += x.rank()) {
    int64_t rest = position[i];
    for (int d = x.rank() - 1; d >= 0; --d) {
      to[d] = rest % x.shape()[d];
      rest /= x.shape()[d];
    }
  }
  return index.to(x.device());
}

Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype) {
  static const ops::ScatterKernel kernel("scatter", {.operands = "index, source, rw y"});
  ops::check_defined("one_hot", ids);
  const Tensor index = ops::as_index("one_hot", ids, ids).unsqueeze(-1);
  BRIM_CHECK(classes >= -1, ValueError, "[one_hot] {} classes; use 1 or more, or -1", classes);
  if (classes == -1) {
    BRIM_CHECK(ids.numel() > 0, ValueError,
               "[one_hot] no ids to find the number of classes from; pass it");
    ops::refuse_shape_of_values("one_hot");
    const std::vector<int64_t> values = index.to_vector<int64_t>();
    classes = *std::max_element(values.begin(), values.end()) + 1;
  }
  Shape shape = ids.shape();
  shape.push_back(classes);
  Tensor y = zeros(shape, {.dtype = dtype, .device = ids.device()});
  const Tensor one = ones({}, {.dtype = dtype, .device = ids.device()});
  kernel(y.device(), dtype, index, one.expand(index.shape()), y, {ids.rank(), "one_hot"});
  return y;
}

}  // namespace brim
