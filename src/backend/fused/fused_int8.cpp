// What layers in 8-bit integers with what follows them stand for in plans.
#include "backend/fused/fused_int8.h"

#include <brim/formula/formula.h>
#include <fmt/format.h>

#include "backend/options/norm_params.h"
#include "backend/rewrite.h"

namespace brim::backend {
namespace fused_int8 {
namespace {

double operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                  const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                  const Tensor&, const Tensor&, const Tensor&, const ConvGeometry& g,
                  const Int8Call&, const Int8EpilogueParams&) {
  return 2.0 * static_cast<double>(g.work());
}

const Int8ConvEpilogue kernel("int8_conv2d_epilogue",
                              {.operands = "x, packed, sums, scales, bias, correction, weight, "
                                           "shift, mean, var, residual, y, q",
                               .activations = "x, residual, y, q"},
                              &operations);

constexpr int64_t kOutputs = 16;  // a whole multiple of every kernel's strips

/// The normalisation, where there is one; of either kind.
const BatchNormParams* norm_of(const Match& m) {
  for (const char* label : {"batch_norm", "batch_norm_relu"})
    if (m.find(label)) return &m.option<BatchNormParams>(label);
  return nullptr;
}

bool is_f32_nhwc(const Tensor& t) {
  return t.dtype() == DType::f32 && t.is_contiguous(MemoryFormat::nhwc);
}

bool adds(const Match& m) { return !m.find("add") || m.option<formula::Params>("add").a == 1; }

bool pays(const Match& m) {
  const Int8Call& call = m.option<Int8Call>("int8_conv2d");
  const ConvGeometry& g = m.option<ConvGeometry>("int8_conv2d");
  const Tensor &z = m["z"], &residual = m["residual"], &q = m["q"];
  const BatchNormParams* const norm = norm_of(m);
  // Pointwise launches may see their operands in another shape.
  return !call.relu && !call.output && z.numel() > 0 && g.o % kOutputs == 0 &&
         z.shape() == g.y_shape() && m["c"].strides() == z.strides() && is_f32_nhwc(z) &&
         (!norm || !norm->training) && adds(m) &&
         (!residual.defined() || (is_f32_nhwc(residual) && residual.shape() == z.shape())) &&
         (!q.defined() || (q.shape() == z.shape() && q.is_contiguous(MemoryFormat::nhwc)));
}

Launches build(Match& m) {
  Int8EpilogueParams epilogue;
  if (const BatchNormParams* const norm = norm_of(m)) epilogue.eps = norm->eps;
  if (m.find("batch_norm_relu") || m.find("relu")) epilogue.min = 0;
  if (m.find("clamp")) {
    const auto& range = m.option<formula::Params>("clamp");
    epilogue.min = static_cast<float>(range.a);
    epilogue.max = static_cast<float>(range.b);
  }
  Tensor q = m.target("q"), y = q.defined() && !m.seen_by_others("z") ? Tensor() : m.target("z");
  if (q.defined()) epilogue.next = m.option<QuantParams>("quantize");
  return one(kernel.launch(m.device(), m.dtype(), m["x"], m["packed"], m["sums"], m["scales"],
                           m["bias"], m["correction"], m["weight"], m["shift"], m["mean"], m["var"],
                           m["residual"], y, q, m.option<ConvGeometry>("int8_conv2d"),
                           m.option<Int8Call>("int8_conv2d"), epilogue));
}

const std::string conv = "int8_conv2d(x, packed, sums, scales, bias?, correction?, y: c)\n";
const std::string relu_norm =
    "batch_norm_relu(x: c, weight?, bias: shift?, fixed_mean: mean, fixed_var: var, residual?, "
    "y: z)\n";
/// With a name for its result.
std::string norm(const char* y) {
  return fmt::format(
      "batch_norm(x: c, weight?, bias: shift?, fixed_mean: mean, fixed_var: var, y: {})\n", y);
}
const std::string next = "?quantize(x: z, y: q)";

const bool registered = register_rewrite(
    {.name = "int8_conv2d_epilogue",
     .what = "a convolution in 8-bit integers with batch norm, ReLU and rounding in one launch",
     .patterns = {conv + relu_norm + next, conv + norm("n") + "clamp(x: n, y: z)\n" + next,
                  conv + norm("n") + "add(a: n, b: residual, y: z)\n" + next,
                  conv + norm("n") + "add(a: residual, b: n, y: z)\n" + next,
                  conv + norm("z") + next, conv + "relu(x: c, y: z)\n" + next,
                  conv + "clamp(x: c, y: z)\n" + next},
     .mixed_dtypes = true,
     .kernels = {"int8_conv2d_epilogue"},
     .pays = pays,
     .build = build});

}  // namespace
}  // namespace fused_int8
}  // namespace brim::backend
