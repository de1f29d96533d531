#include "ops/loss/class_loss.h"

#include <algorithm>

#include "ops/checks.h"

namespace brim::ops {
namespace {

constexpr int64_t kMinPlane = 8;  // elements; smaller ones leave vectors empty

}  // namespace

ClassRows::ClassRows(const char* op, const Tensor& input, const Tensor& labels,
                     const Tensor& weight, bool takes_planes) {
  check_floating(op, input);
  const Device device = common_device(op, input, labels);
  BRIM_CHECK(
      labels.dtype() == DType::i64 || labels.dtype() == DType::i32, DTypeError,
      "[{}] labels are {}; they must be i64 or i32, or probabilities of the logits' dtype {}", op,
      name(labels.dtype()), name(input.dtype()));
  const int axis = input.rank() == 1 ? 0 : 1;
  bool fits = input.rank() >= 1;
  if (fits) {
    shape = input.shape();
    shape.erase(axis);
    fits = shape == labels.shape();
  }
  BRIM_CHECK(fits, ShapeError,
             "[{}] input {} and labels {} do not fit; expected (N, C) and (N), or (N, C, d1, ...) "
             "and (N, d1, ...)",
             op, input.shape().str(), labels.shape().str());
  const int64_t classes = input.shape()[axis];
  if (weight.defined()) {
    (void)common_device(op, input, weight);
    (void)common_dtype(op, input, weight);
    BRIM_CHECK(weight.shape() == Shape({classes}), ShapeError,
               "[{}] weight has shape {}; expected ({}), one factor per class", op,
               weight.shape().str(), classes);
  }
  (void)device;
  target = labels.to(DType::i64).contiguous();
  if (input.rank() == 2) {
    x = input.contiguous();
    return;
  }
  Shape rows = {shape.numel(), classes};
  if (input.rank() == 1) {
    x = input.contiguous().reshape(rows);
  } else if (takes_planes && input.is_contiguous() && shape.numel() >= kMinPlane * shape[0]) {
    x = input.reshape({shape[0], classes, shape.numel() / std::max<int64_t>(1, shape[0])});
  } else {
    std::vector<int> order = {0};
    for (int i = 2; i < input.rank(); ++i) order.push_back(i);
    order.push_back(1);
    x = input.permute(order).contiguous().reshape(rows);
  }
  target = target.reshape({shape.numel()});
}

}  // namespace brim::ops
