// Products of matrices that are both computed: the right one is packed, as weights are in the file.
#include <initializer_list>

#include "rt/kernels/convolution.h"
#include "rt/kernels/elementwise.h"
#include "rt/step.h"

namespace brim::rt {
namespace {

struct Product {
  int64_t m, k, n, batches;
};

/// Batches of a and b, which y has all of; a size of 1 is broadcast.
int64_t batch_of(const Operand& x, const Operand& y, int64_t batch) {
  int64_t at = 0, step = 1;
  for (int i = 0; i + 2 < y.rank; ++i) {
    const int at_y = y.rank - 3 - i, at_x = x.rank - 3 - i;
    const int64_t size = at_x >= 0 ? x.dims[at_x] : 1;
    at += (size == 1 ? 0 : batch % y.dims[at_y]) * step;
    batch /= y.dims[at_y];
    step *= size;
  }
  return at;
}

bool product_of(const Step& s, Product& p) {
  const Operand &a = s.in(0), &b = s.in(1), &y = s.out(0);
  for (const Operand* o : {&a, &b, &y})
    if (o->dtype != DType::f32 || o->rank < 2) return false;
  const auto dim = [](const Operand& o, int from_end) { return o.dims[o.rank - from_end]; };
  p = {dim(a, 2), dim(a, 1), dim(b, 1), 1};
  if (dim(b, 2) != p.k || dim(y, 2) != p.m || dim(y, 1) != p.n || a.rank > y.rank ||
      b.rank > y.rank)
    return false;
  for (int i = 0; i + 2 < y.rank; ++i) {
    const int64_t size = y.dims[y.rank - 3 - i];
    p.batches *= size;
    for (const Operand* o : {&a, &b}) {
      const int at = o->rank - 3 - i;
      if (at >= 0 && o->dims[at] != size && o->dims[at] != 1) return false;
    }
  }
  return true;
}

Convolution as_convolution(const Product& p) {
  return {.a = {},
          .n = 1,
          .h = 1,
          .w = p.m,
          .c = p.k,
          .oh = 1,
          .ow = p.m,
          .o = p.n,
          .x = nullptr,
          .weights = nullptr,
          .bias = nullptr,
          .residual = nullptr,
          .y = nullptr};
}

int check_matmul(const Step& s, const Failure& fail) {
  Product p;
  if (s.word_count != 0 || s.inputs != 2 || s.outputs != 1 || !product_of(s, p))
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int64_t packed_count(const Product& p) { return panels_of(p.n) * kPanel * p.k; }

size_t scratch_of_matmul(const Step& s, Isa, int threads) {
  Product p;
  product_of(s, p);
  return static_cast<size_t>(packed_count(p)) * sizeof(float) +
         convolution_scratch(as_convolution(p), threads);
}

int run_matmul(const Step& s, const Run& run, const Failure&) {
  Product p;
  product_of(s, p);
  const Operand &a = s.in(0), &b = s.in(1), &y = s.out(0);
  float* const packed = static_cast<float*>(run.scratch);
  Convolution k = as_convolution(p);
  k.weights = packed;
  int64_t last = -1;
  for (int64_t i = 0; i < p.batches; ++i) {
    const int64_t at = batch_of(b, y, i);
    if (at != last)
      pack_panels(run.isa, p.k, p.n, b.as<float>() + at * p.k * p.n, p.n, packed, run.threads);
    last = at;
    k.x = a.as<float>() + batch_of(a, y, i) * p.m * p.k;
    k.y = y.as<float>() + i * p.m * p.n;
    convolve(run.isa, k, run.threads, packed + packed_count(p));
  }
  return BRIM_RT_OK;
}

}  // namespace

const Op kMatmulOp = {OpCode::matmul, "matmul", &check_matmul, &scratch_of_matmul, &run_matmul};

}  // namespace brim::rt
