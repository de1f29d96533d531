// What is computed of one element, or of one row, at a time.
#include "rt/kernels/elementwise.h"

#include "rt/step.h"

namespace brim::rt {
namespace {

int check_unary(const Step& s, const Failure& fail) {
  if (!s.has_attributes<UnaryAttributes>() || s.inputs != 1 || s.outputs != 1 ||
      s.in(0).dtype != DType::f32 || s.out(0).dtype != DType::f32 ||
      s.in(0).count() != s.out(0).count())
    return does_not_fit(s, fail);
  const auto formula = static_cast<int64_t>(s.attributes<UnaryAttributes>().formula);
  if (formula < 0 || formula >= kUnaryFormulas) return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int run_unary(const Step& s, const Run& run, const Failure&) {
  apply_unary(run.isa, s.attributes<UnaryAttributes>(), s.in(0).count(), s.in(0).as<float>(),
              s.out(0).as<float>(), run.threads);
  return BRIM_RT_OK;
}

/// The strides of `x` over the dims of `y`, both aligned at the last axis; false where it does not
/// broadcast to them.
bool broadcast_strides(const Operand& x, const Operand& y, int64_t* strides) {
  if (x.rank > y.rank) return false;
  int64_t step = 1;
  for (int i = 0; i < kMaxRank; ++i) {
    const int at_x = x.rank - 1 - i, at_y = y.rank - 1 - i;
    const int64_t size = at_x >= 0 ? x.dims[at_x] : 1, wanted = at_y >= 0 ? y.dims[at_y] : 1;
    if (size != wanted && size != 1) return false;
    strides[kMaxRank - 1 - i] = size == 1 ? 0 : step;
    step *= size;
  }
  return true;
}

bool operands_of(const Step& s, BinaryOperands& o) {
  const Operand& y = s.out(0);
  for (int i = 0; i < kMaxRank; ++i) {
    const int at = i - (kMaxRank - y.rank);
    o.dims[i] = at >= 0 ? y.dims[at] : 1;
  }
  o.a = s.in(0).as<float>();
  o.b = s.in(1).as<float>();
  o.y = y.as<float>();
  if (!broadcast_strides(s.in(0), y, o.strides_a) || !broadcast_strides(s.in(1), y, o.strides_b))
    return false;
  // Axes that both operands walk through as one become one.
  for (int last = kMaxRank - 1, i = last - 1; i >= 0; --i) {
    const bool joins = o.dims[i] == 1 || (o.strides_a[i] == o.strides_a[last] * o.dims[last] &&
                                          o.strides_b[i] == o.strides_b[last] * o.dims[last]);
    if (!joins && o.dims[last] != 1) break;
    if (o.dims[last] == 1) {
      o.strides_a[last] = o.strides_a[i];
      o.strides_b[last] = o.strides_b[i];
    }
    o.dims[last] *= o.dims[i];
    o.dims[i] = 1;
    o.strides_a[i] = o.strides_b[i] = 0;
  }
  return true;
}

int check_binary(const Step& s, const Failure& fail) {
  if (!s.has_attributes<BinaryAttributes>() || s.inputs != 2 || s.outputs != 1 ||
      s.in(0).dtype != DType::f32 || s.in(1).dtype != DType::f32 || s.out(0).dtype != DType::f32)
    return does_not_fit(s, fail);
  const auto formula = static_cast<int64_t>(s.attributes<BinaryAttributes>().formula);
  BinaryOperands o;
  if (formula < 0 || formula >= kBinaryFormulas || !operands_of(s, o)) return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int run_binary(const Step& s, const Run& run, const Failure&) {
  BinaryOperands o;
  operands_of(s, o);
  apply_binary(run.isa, s.attributes<BinaryAttributes>(), o, run.threads);
  return BRIM_RT_OK;
}

/// Rows of `size` elements in x and y, which are as many.
bool are_rows(const Step& s, int64_t size) {
  return s.in(0).dtype == DType::f32 && s.out(0).dtype == DType::f32 && size > 0 &&
         s.in(0).count() == s.out(0).count() && s.in(0).count() % size == 0;
}

int check_softmax(const Step& s, const Failure& fail) {
  if (!s.has_attributes<SoftmaxAttributes>() || s.inputs != 1 || s.outputs != 1 ||
      s.in(0).rank < 1 || !are_rows(s, s.in(0).dims[s.in(0).rank - 1]))
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int run_softmax(const Step& s, const Run& run, const Failure&) {
  const Operand& x = s.in(0);
  const int64_t size = x.dims[x.rank - 1];
  softmax_rows(run.isa, s.attributes<SoftmaxAttributes>().logarithm != 0, x.count() / size, size,
               x.as<float>(), s.out(0).as<float>(), run.threads);
  return BRIM_RT_OK;
}

/// Numbers that are normalised together.
int64_t normalized(const Step& s) {
  const Operand& x = s.in(0);
  return s.inputs > 1 ? s.in(1).count() : x.rank > 0 ? x.dims[x.rank - 1] : 1;
}

int check_layer_norm(const Step& s, const Failure& fail) {
  if (!s.has_attributes<LayerNormAttributes>() || s.inputs < 1 || s.inputs > 3 || s.outputs != 1 ||
      !are_rows(s, normalized(s)))
    return does_not_fit(s, fail);
  for (int i = 1; i < s.inputs; ++i)
    if (s.in(i).dtype != DType::f32 || s.in(i).count() != s.in(1).count())
      return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int run_layer_norm(const Step& s, const Run& run, const Failure&) {
  const int64_t size = normalized(s);
  normalize_rows(run.isa, s.attributes<LayerNormAttributes>().epsilon, s.in(0).count() / size, size,
                 s.in(0).as<float>(), s.in_or_null<float>(1), s.in_or_null<float>(2),
                 s.out(0).as<float>(), run.threads);
  return BRIM_RT_OK;
}

}  // namespace

const Op kUnaryOp = {OpCode::unary, "unary", &check_unary, nullptr, &run_unary};
const Op kBinaryOp = {OpCode::binary, "binary", &check_binary, nullptr, &run_binary};
const Op kSoftmaxOp = {OpCode::softmax, "softmax", &check_softmax, nullptr, &run_softmax};
const Op kLayerNormOp = {OpCode::layer_norm, "layer_norm", &check_layer_norm, nullptr,
                         &run_layer_norm};

}  // namespace brim::rt
