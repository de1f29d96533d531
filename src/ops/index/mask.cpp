// masked_select, nonzero and one_hot. The first two read their mask on the host, because the shape
// of the result depends on it.
#include <algorithm>

#include <brim/ops/create.h>
#include <brim/ops/index.h>

#include "ops/checks.h"
#include "ops/index/index.h"

namespace brim {
namespace {

/// Row-major positions of the elements that are not zero, for `op`.
std::vector<int64_t> true_positions(const char* op, const Tensor& mask) {
  ops::refuse_shape_of_values(op);
  const std::vector<uint8_t> values = mask.detach().to(bool_).to(u8).to_vector<uint8_t>();
  std::vector<int64_t> positions;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]) positions.push_back(static_cast<int64_t>(i));
  return positions;
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  ops::common_device("masked_select", x, mask);
  BRIM_CHECK(mask.dtype() == bool_, DTypeError,
             "[masked_select] the mask is {}, not bool; compare first, e.g. x > 0",
             name(mask.dtype()));
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const std::vector<int64_t> positions = true_positions("masked_select", mask.expand(shape));
  const Shape count = {static_cast<int64_t>(positions.size())};
  return index_select(x.expand(shape).reshape({shape.numel()}), 0,
                      Tensor::from(positions, count, x.device()));
}

Tensor nonzero(const Tensor& x) {
  ops::check_defined("nonzero", x);
  const std::vector<int64_t> positions = true_positions("nonzero", x);
  const size_t rank = static_cast<size_t>(x.rank());
  std::vector<int64_t> index(positions.size() * rank);
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t rest = positions[i];
    for (size_t d = rank; d-- > 0;) {
      index[i * rank + d] = rest % x.shape()[static_cast<int>(d)];
      rest /= x.shape()[static_cast<int>(d)];
    }
  }
  return Tensor::from(index, {static_cast<int64_t>(positions.size()), x.rank()}, x.device());
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
