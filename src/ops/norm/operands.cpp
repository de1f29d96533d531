#include "ops/norm/operands.h"

#include <numeric>

namespace brim::ops {

int64_t check_normalized(const char* op, const Tensor& x, const Shape& shape, const Tensor& weight,
                         const Tensor& bias) {
  check_floating(op, x);
  const int from = x.rank() - shape.rank();
  bool fits = from >= 0 && shape.rank() > 0;
  for (int i = 0; fits && i < shape.rank(); ++i) fits = x.shape()[from + i] == shape[i];
  BRIM_CHECK(fits, ShapeError, "[{}] x has shape {}, which does not end in normalized_shape {}", op,
             x.shape().str(), shape.str());
  check_parameters(op, x, shape, weight, bias);
  int64_t rows = 1;
  for (int i = 0; i < from; ++i) rows *= x.shape()[i];
  return rows;
}

std::vector<int> last_axes(const Tensor& x, int count) {
  std::vector<int> axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), x.rank() - count);
  return axes;
}

Tensor sum_of_rows(const Tensor& x, int count) {
  std::vector<int> rows(static_cast<size_t>(x.rank() - count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows.empty() ? x : sum(x, rows);
}

}  // namespace brim::ops
