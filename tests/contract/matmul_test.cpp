// Contract cases of matrix products.
#include <brim/ops/matmul.h>

#include "contract/contract.h"

namespace brim::contract {
namespace {

/// (m, k) x (k, n) by the definition.
std::vector<double> matrix_product(const double* a, const double* b, int64_t m, int64_t k,
                                   int64_t n) {
  std::vector<double> y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        y[static_cast<size_t>(i * n + j)] += a[i * k + p] * b[p * n + j];
  return y;
}

CONTRACT(matmul) {
  return {.op = [](Tensor a, Tensor b) { return matmul(a, b); },
          .inputs = {{{.shape = {1, 1}}, {.shape = {1, 1}}},
                     {{.shape = {3, 5}}, {.shape = {5, 7}}},
                     {{.shape = {13, 33}}, {.shape = {33, 70}}},
                     {{.shape = {4, 1}}, {.shape = {1, 9}}},
                     {{.shape = {0, 3}}, {.shape = {3, 2}}},
                     {{.shape = {2, 0}}, {.shape = {0, 3}}}},
          .reference =
              [](Tensor a, Tensor b) {
                return array(matrix_product(values(a).data(), values(b).data(), a.size(0),
                                            a.size(1), b.size(1)),
                             {a.size(0), b.size(1)});
              },
          .tolerance = 1e-4};
}

CONTRACT(matmul_through_onednn) {
  return {.op = [](Tensor a, Tensor b) { return matmul(a, b); },
          .inputs = {{{.shape = {96, 128}}, {.shape = {128, 100}}}},
          .reference =
              [](Tensor a, Tensor b) {
                return array(matrix_product(values(a).data(), values(b).data(), 96, 128, 100),
                             {96, 100});
              },
          .tolerance = 1e-3,
          .gradient = false};
}

CONTRACT(matmul_transposed) {
  return {.op = [](Tensor a, Tensor b) { return matmul(a.t(), b.t()); },
          .inputs = {{{.shape = {5, 3}}, {.shape = {7, 5}}}},
          .reference = [](Tensor a, Tensor b) { return matmul(b, a).t(); }};
}

// Beyond one panel of the second operand in both directions.
CONTRACT(matmul_transposed_panels) {
  return {.op = [](Tensor a, Tensor b) { return matmul(a.t(), b.t()); },
          .inputs = {{{.shape = {300, 13}}, {.shape = {150, 300}}}},
          .reference = [](Tensor a, Tensor b) { return matmul(b, a).t(); },
          .tolerance = 1e-3,
          .gradient = false};
}

CONTRACT(matmul_vectors) {
  return {.op =
              [](Tensor a, Tensor m, Tensor b) {
                return Tensors{matmul(a, a), matmul(a, m), matmul(m, b)};
              },
          .inputs = {{{.shape = {4}}, {.shape = {4, 3}}, {.shape = {3}}}},
          .reference =
              [](Tensor a, Tensor m, Tensor b) {
                const Tensor row = a.unsqueeze(0), column = b.unsqueeze(1);
                return Tensors{matmul(row, row.t()).reshape({}), matmul(row, m).reshape({3}),
                               matmul(m, column).reshape({4})};
              }};
}

/// Leading axes one product at a time.
Tensor batched(const Tensor& a, const Tensor& b) {
  const Shape lead = broadcast_shapes(Shape(std::span(a.shape().begin(), a.shape().end() - 2)),
                                      Shape(std::span(b.shape().begin(), b.shape().end() - 2)), "");
  Shape sa = lead, sb = lead, sy = lead;
  for (int64_t d : {a.size(-2), a.size(-1)}) sa.push_back(d);
  for (int64_t d : {b.size(-2), b.size(-1)}) sb.push_back(d);
  for (int64_t d : {a.size(-2), b.size(-1)}) sy.push_back(d);
  const std::vector<double> va = values(a.expand(sa)), vb = values(b.expand(sb));
  std::vector<double> y;
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  for (int64_t i = 0; i < lead.numel(); ++i) {
    const auto part = matrix_product(va.data() + i * m * k, vb.data() + i * k * n, m, k, n);
    y.insert(y.end(), part.begin(), part.end());
  }
  return array(y, sy);
}

CONTRACT(matmul_batched) {
  return {.op = [](Tensor a, Tensor b) { return matmul(a, b); },
          .inputs = {{{.shape = {2, 3, 4}}, {.shape = {2, 4, 5}}},
                     {{.shape = {2, 3, 4}}, {.shape = {4, 5}}},
                     {{.shape = {3, 4}}, {.shape = {2, 4, 5}}},
                     {{.shape = {2, 1, 3, 4}}, {.shape = {3, 4, 2}}},
                     {{.shape = {0, 3, 4}}, {.shape = {4, 5}}},
                     {{.shape = {2, 3, 0}}, {.shape = {0, 5}}},
                     {{.shape = {2, 3, 4}}, {.shape = {4, 0}}}},
          .reference = batched};
}

CONTRACT(bmm) {
  return {.op = bmm,
          .inputs = {{{.shape = {2, 3, 4}}, {.shape = {2, 4, 5}}},
                     {{.shape = {1, 1, 1}}, {.shape = {1, 1, 1}}},
                     {{.shape = {0, 3, 4}}, {.shape = {0, 4, 2}}},
                     {{.shape = {2, 3, 0}}, {.shape = {2, 0, 2}}}},
          .reference = batched};
}

CONTRACT(outer) {
  return {.op = outer,
          .inputs = {{{.shape = {3}}, {.shape = {5}}},
                     {{.shape = {1}}, {.shape = {1}}},
                     {{.shape = {0}}, {.shape = {4}}}},
          .reference =
              [](Tensor a, Tensor b) {
                return array(
                    matrix_product(values(a).data(), values(b).data(), a.numel(), 1, b.numel()),
                    {a.numel(), b.numel()});
              },
          .dtypes = kSigned};
}

CONTRACT(linear) {
  return {.op = [](Tensor x, Tensor w, Tensor b) { return linear(x, w, b); },
          .inputs = {{{.shape = {4, 5}}, {.shape = {3, 5}}, {.shape = {3}}},
                     {{.shape = {2, 3, 5}}, {.shape = {4, 5}}, {.shape = {4}}},
                     {{.shape = {5}}, {.shape = {3, 5}}, {.shape = {3}}},
                     {{.shape = {5, 37}}, {.shape = {19, 37}}, {.shape = {19}}},
                     {{.shape = {0, 5}}, {.shape = {3, 5}}, {.shape = {3}}}},
          .reference =
              [](Tensor x, Tensor w, Tensor b) {
                const std::vector<double> vb = values(b);
                Shape shape = x.shape();
                shape[x.rank() - 1] = w.size(0);
                std::vector<double> y =
                    matrix_product(values(x).data(), values(w.t()).data(),
                                   shape.numel() / w.size(0), w.size(1), w.size(0));
                for (size_t i = 0; i < y.size(); ++i) y[i] += vb[i % vb.size()];
                return array(y, shape);
              },
          .tolerance = 1e-4};
}

TEST(Matmul, ErrorsNameShapes) {
  const Tensor a = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  try {
    matmul(a, a);
    FAIL() << "no error";
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(),
                 "[matmul] (2, 3) x (2, 3): inner sizes 3 and 2 differ; transpose one of them?");
  }
  EXPECT_THROW(matmul(a, a.to(f64)), DTypeError);
  EXPECT_THROW(linear(a, a.t()), ShapeError);
  EXPECT_THROW(bmm(a, a.t()), ShapeError);
  EXPECT_THROW(bmm(a.expand({1, 2, 3}), a.t().expand({2, 3, 2})), ShapeError);
  EXPECT_THROW(bmm(a.expand({2, 2, 3}), a.expand({2, 2, 3})), ShapeError);
  EXPECT_THROW(outer(a, a), ShapeError);
  EXPECT_THROW(linear(a, a, a), ShapeError);
}

}  // namespace
}  // namespace brim::contract
