// matmul: C = A B over the last two axes, leading axes broadcast
#include <brim/ops/matmul.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

/// a: (B.., M, K), b: (B.., K, N), y: (B.., M, N); leading axes are equal, their strides free.
void launch(const Tensor& a, const Tensor& b, Tensor& y) {
  static const backend::Kernel<void(const Context&, const Tensor& a, const Tensor& b, Tensor& y)>
      kernel("matmul", {.operands = "a, b, strided y"},
             [](const Tensor& left, const Tensor&, const Tensor& product) {
               return 2.0 * static_cast<double>(product.numel()) *
                      static_cast<double>(left.size(-1));
             });
  kernel(y.device(), y.dtype(), a, b, y);
}

/// Both of rank >= 2.
Tensor matmul_matrices(const Tensor& a, const Tensor& b) {
  const int ra = a.rank(), rb = b.rank();
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  BRIM_CHECK(k == b.size(-2), ShapeError,
             "[matmul] {} x {}: inner sizes {} and {} differ; transpose one of them?",
             a.shape().str(), b.shape().str(), k, b.size(-2));
  if (ra == 2 && rb == 2) {
    Tensor y = Tensor::empty({m, n}, a.dtype(), a.device());
    launch(a, b, y);
    return y;
  }
  // A stack of matrices times one matrix is one tall product.
  if (rb == 2 && a.is_contiguous()) {
    Shape out = a.shape();
    out[ra - 1] = n;
    Tensor y = Tensor::empty(out, a.dtype(), a.device());
    const int64_t rows = k > 0 ? a.numel() / k : out.numel() / std::max<int64_t>(n, 1);
    Tensor flat = y.alias({rows, n}, {n, 1}, 0);
    launch(a.alias({rows, k}, {k, 1}, a.offset()), b, flat);
    return y;
  }
  Shape batch_a, batch_b;
  for (int i = 0; i < ra - 2; ++i) batch_a.push_back(a.shape()[i]);
  for (int i = 0; i < rb - 2; ++i) batch_b.push_back(b.shape()[i]);
  Shape full_a = broadcast_shapes(batch_a, batch_b, "matmul"), full_b = full_a, out = full_a;
  full_a.push_back(m), full_a.push_back(k);
  full_b.push_back(k), full_b.push_back(n);
  out.push_back(m), out.push_back(n);
  Tensor y = Tensor::empty(out, a.dtype(), a.device());
  launch(a.detach().expand(full_a), b.detach().expand(full_b), y);
  return y;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([](const auto&... t) { return matmul(t...); }, a, b);
  ops::common_device("matmul", a, b);
  ops::common_dtype("matmul", a, b);
  BRIM_CHECK(a.rank() > 0 && b.rank() > 0, ShapeError,
             "[matmul] {} x {}: a number has no rows; use *", a.shape().str(), b.shape().str());
  if (a.rank() == 1) return matmul(a.unsqueeze(0), b).squeeze(b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  return autograd::with_grad(
      "matmul", matmul_matrices(a, b), {a, b},
      [a = autograd::Saved(a), b = autograd::Saved(b)](autograd::GradCall& g) {
        const Tensor ta = g[a], tb = g[b];
        g.set_if_needed(
            0, [&] { return ops::sum_to(matmul(g.dy(), tb.transpose(-1, -2)), ta.shape()); });
        g.set_if_needed(1, [&] {
          // Where b is one matrix, sum over the stack inside the product instead of after it.
          if (tb.rank() == 2 && ta.rank() > 2) {
            int64_t rows = 1;  // -1 would be ambiguous where a size is 0
            for (int i = 0; i + 1 < ta.rank(); ++i) rows *= ta.shape()[i];
            return matmul(ta.reshape({rows, ta.size(-1)}).t(), g.dy().reshape({rows, tb.size(1)}));
          }
          return ops::sum_to(matmul(ta.transpose(-1, -2), g.dy()), tb.shape());
        });
      });
}

Tensor Tensor::matmul(const Tensor& other) const { return brim::matmul(*this, other); }

}  // namespace brim
