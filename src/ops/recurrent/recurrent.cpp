#include "ops/recurrent/recurrent.h"

#include <algorithm>

#include <brim/ops/binary.h>
#include <brim/ops/matmul.h>
#include <brim/ops/shape.h>

#include "ops/checks.h"

namespace brim::ops {

std::vector<Tensor> StepOrder::parts(const Tensor& x) const {
  std::vector<Tensor> all = unbind(x, 0);
  if (reverse) std::reverse(all.begin(), all.end());
  return all;
}

Tensor StepOrder::joined(std::vector<Tensor> parts) const {
  if (reverse) std::reverse(parts.begin(), parts.end());
  return stack(parts, 0);
}

StepOrder check_steps(const char* op, int64_t count, const Tensor& gates, const Tensor& weight,
                      const Tensor& bias, std::initializer_list<Tensor> states, bool reverse) {
  check_floating(op, gates);
  const auto fits = [&](const Tensor& t) {
    (void)common_device(op, gates, t);
    (void)common_dtype(op, gates, t);
  };
  fits(weight);
  if (bias.defined()) fits(bias);
  for (const Tensor& t : states) fits(t);
  const int64_t hidden = weight.rank() == 2 ? weight.size(1) : -1, rows = count * hidden;
  BRIM_CHECK(hidden >= 0 && weight.size(0) == rows && gates.rank() == 3 && gates.size(2) == rows,
             ShapeError,
             "[{0}] gates {1} with weight_hh {2}: expected (T, N, {3} H) and ({3} H, H)", op,
             gates.shape().str(), weight.shape().str(), count);
  BRIM_CHECK(gates.size(0) > 0, ShapeError, "[{}] gates of shape {} have no steps", op,
             gates.shape().str());
  BRIM_CHECK(!bias.defined() || bias.shape() == Shape{rows}, ShapeError,
             "[{}] bias_hh {} with weight_hh {}: expected ({})", op, bias.shape().str(),
             weight.shape().str(), rows);
  const Shape state = {gates.size(1), hidden};
  for (const Tensor& t : states)
    BRIM_CHECK(t.shape() == state, ShapeError, "[{}] a state of shape {} for gates {}; expected {}",
               op, t.shape().str(), gates.shape().str(), state.str());
  return {gates.size(0), gates.size(1), hidden, reverse};
}

Tensor recurrent_weight_grad(const StepOrder& order, const Tensor& dgates, const Tensor& h,
                             const Tensor& y) {
  const int64_t columns = dgates.size(2), last = order.steps - 1;
  const auto product = [&](const Tensor& d, const Tensor& states) {
    const int64_t rows = d.size(0) * order.batch;
    return matmul(d.reshape({rows, columns}).t(), states.reshape({rows, order.hidden}));
  };
  const int64_t first = order.at(0), from = order.reverse ? 0 : 1;
  const Tensor begun = product(dgates.slice(0, first, first + 1), h.unsqueeze(0));
  if (last == 0) return begun;
  return product(dgates.slice(0, from, from + last), y.slice(0, 1 - from, 1 - from + last)) + begun;
}

}  // namespace brim::ops
