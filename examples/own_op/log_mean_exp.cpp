// A reduction: a kernel for the CPU, which virtual accelerators run too, and a gradient of ops.
#include <brim/extend.h>
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <cmath>

#include "own_ops.h"

namespace own {
namespace {

using namespace brim;
using namespace brim::extend;

using Rows = void(const Context&, const Tensor& x, Tensor& y);

const Kernel<Rows> kernel("log_mean_exp", {.operands = "x, y", .work = Work::reduction});

template <class T>
void log_mean_exp_rows(const Context&, const Tensor& x, Tensor& y) {
  const int64_t rows = x.size(0), count = x.size(1);
  const T* const from = static_cast<const T*>(x.raw());
  T* const to = static_cast<T*>(y.raw());
  parallel_for(rows, std::max<int64_t>(1, 4096 / count), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const row = from + r * count;
      const T max = *std::max_element(row, row + count);
      T sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += std::exp(row[i] - max);
      to[r] = max + std::log(sum / static_cast<T>(count));
    }
  });
}

const bool registered =
    register_kernel("log_mean_exp", DeviceKind::cpu, f32, &log_mean_exp_rows<float>) &&
    register_kernel("log_mean_exp", DeviceKind::cpu, f64, &log_mean_exp_rows<double>);

}  // namespace

Tensor log_mean_exp(const Tensor& input) {
  const Tensor x = autocast_wide(input);
  check_floating("log_mean_exp", x);
  check_rank("log_mean_exp", x, 2, "(N, D)");
  if (x.size(1) == 0)
    throw ShapeError("[log_mean_exp] the rows of " + x.shape().str() + " are empty");
  Tensor y = Tensor::empty({x.size(0)}, x.dtype(), x.device());
  kernel(x.device(), x.dtype(), x.contiguous(), y);
  return with_grad("log_mean_exp", y, {x}, [x = Saved(x), y = Saved::output(y)](GradCall& g) {
    const Tensor tx = g[x];
    const Tensor share = exp(tx - g[y].unsqueeze(1)) / static_cast<double>(tx.size(1));
    g.set(0, g.dy().unsqueeze(1) * share);
  });
}

}  // namespace own
