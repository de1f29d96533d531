// An op with two inputs, with a kernel for the CPU here and one for GPUs in l1_distances.cu.
#include <brim/extend.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "own_ops.h"

namespace own {
namespace {

using namespace brim;
using namespace brim::extend;

const Kernel<void(const Context&, const Tensor& a, const Tensor& b, Tensor& y)> kernel(
    "l1_distances", {.operands = "a, b, y"}, [](const Tensor& a, const Tensor& b, const Tensor&) {
      return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(0));
    });

template <class T>
void l1_distances_rows(const Context&, const Tensor& a, const Tensor& b, Tensor& y) {
  const int64_t rows = a.size(0), others = b.size(0), count = a.size(1);
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t o = 0; o < others; ++o) {
        const T* const p = static_cast<const T*>(a.raw()) + r * count;
        const T* const q = static_cast<const T*>(b.raw()) + o * count;
        T sum = 0;
        for (int64_t i = 0; i < count; ++i) sum += std::fabs(p[i] - q[i]);
        static_cast<T*>(y.raw())[r * others + o] = sum;
      }
  });
}

const bool registered =
    register_kernel("l1_distances", DeviceKind::cpu, f32, &l1_distances_rows<float>) &&
    register_kernel("l1_distances", DeviceKind::cpu, f64, &l1_distances_rows<double>);

}  // namespace

Tensor l1_distances(const Tensor& first, const Tensor& second) {
  const Tensor a = autocast_wide(first), b = autocast_wide(second);
  const Device device = common_device("l1_distances", a, b);
  const DType dtype = common_dtype("l1_distances", a, b);
  check_rank("l1_distances", a, 2, "(N, D)");
  check_rank("l1_distances", b, 2, "(M, D)");
  if (a.size(1) != b.size(1))
    throw ShapeError("[l1_distances] rows of " + a.shape().str() + " and " + b.shape().str() +
                     " differ in length; transpose one of them?");
  Tensor y = Tensor::empty({a.size(0), b.size(0)}, dtype, device);
  kernel(device, dtype, a.contiguous(), b.contiguous(), y);
  return with_grad("l1_distances", y, {a, b}, [a = Saved(a), b = Saved(b)](GradCall& g) {
    const Tensor signs = sign(g[a].unsqueeze(1) - g[b].unsqueeze(0));  // (N, M, D)
    const Tensor each = g.dy().unsqueeze(2) * signs;
    g.set_if_needed(0, [&] { return sum(each, {1}); });
    g.set_if_needed(1, [&] { return -sum(each, {0}); });
  });
}

}  // namespace own
