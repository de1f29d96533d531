// Layers in 8-bit integers that take over the ReLU behind them, and the rounding that the next
// layer in integers begins with: their kernels can do both.
#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "backend/options/geometry.h"
#include "backend/options/int8.h"
#include "backend/rewrite.h"

namespace brim::backend {
namespace fused_int8_output {
namespace {

// Declared beside their ops.
const Kernel<void(const Context&, const Tensor& x, const Tensor& packed, const Tensor& sums,
                  const Tensor& scales, const Tensor& bias, const Tensor& correction, Tensor& y,
                  const Int8Call&)>
    linear("int8_linear");
const Kernel<void(const Context&, const Tensor& x, const Tensor& packed, const Tensor& sums,
                  const Tensor& scales, const Tensor& bias, const Tensor& correction, Tensor& y,
                  const ConvGeometry&, const Int8Call&)>
    conv("int8_conv2d");
const Kernel<void(const Context&, const Tensor& x, const Tensor& packed, const Tensor& columns,
                  const Tensor& starts, const Tensor& outputs, const Tensor& sums,
                  const Tensor& scales, const Tensor& bias, const Tensor& correction, Tensor& y,
                  const SparseInt8Call&)>
    sparse_linear("sparse_int8_linear");
const Kernel<void(const Context&, const Tensor& x, const Tensor& packed, const Tensor& columns,
                  const Tensor& starts, const Tensor& outputs, const Tensor& sums,
                  const Tensor& scales, const Tensor& bias, const Tensor& correction, Tensor& y,
                  const ConvGeometry&, const SparseInt8Call&)>
    sparse_conv("sparse_int8_conv2d");

/// What the layer's launch is to write: the pattern's last tensor.
Tensor result_of(const Match& m) { return m.find("quantize") ? m.target("q") : m.target("z"); }

/// "int8_conv2d_epilogue" takes the others, which can keep the f32 besides.
constexpr int64_t kOutputsOfEpilogue = 16;
bool is_left_to_epilogue(const Match& m, const char* kernel) {
  const Launch* const layer = m.find(kernel);
  const auto* const g = layer ? layer->option<ConvGeometry>() : nullptr;
  return g && g->o % kOutputsOfEpilogue == 0;
}

/// Pointwise launches may see their operands in another shape.
bool can_write(const Match& m, const Int8Call& call) {
  const Tensor &c = m["c"], y = result_of(m);
  return !call.relu && !call.output && y.shape() == c.shape() && y.strides() == c.strides();
}

Int8Call with_output(const Match& m, Int8Call call) {
  call.relu = m.find("relu") != nullptr;
  if (m.find("quantize")) call.output = m.option<QuantParams>("quantize");
  return call;
}

/// `layer`: the line of its launch, whose result is c.
std::vector<std::string> patterns_of(const std::string& layer) {
  return {layer + "relu(x: c, y: z)\nquantize(x: z, y: q)", layer + "quantize(x: c, y: q)",
          layer + "relu(x: c, y: z)"};
}
std::string dense_line(const char* kernel) {
  return fmt::format("{}(x, packed, sums, scales, bias?, correction?, y: c)\n", kernel);
}
std::string sparse_line(const char* kernel) {
  return fmt::format(
      "{}(x, packed, columns, starts, outputs?, sums, scales, bias?, correction?, y: c)\n", kernel);
}

/// `build`: the layer's launch of a match, in one.
bool register_output(const char* kernel, const std::string& line,
                     std::function<bool(const Match&)> pays,
                     std::function<Launches(Match&)> build) {
  return register_rewrite(
      {.name = fmt::format("{}_output", kernel),
       .what = "a layer in 8-bit integers with the ReLU and rounding behind it in one launch",
       .patterns = patterns_of(line),
       .mixed_dtypes = true,
       .kernels = {kernel},
       .pays = std::move(pays),
       .build = std::move(build)});
}

template <class DenseKernel>
bool register_dense(const DenseKernel& kernel, const char* name, auto... geometry_of) {
  return register_output(
      name, dense_line(name),
      [name](const Match& m) {
        return !is_left_to_epilogue(m, name) && can_write(m, m.option<Int8Call>(name));
      },
      [name, &kernel, geometry_of...](Match& m) {
        Tensor y = result_of(m);
        return one(kernel.launch(m.device(), DType::u8, m["x"], m["packed"], m["sums"], m["scales"],
                                 m["bias"], m["correction"], y, geometry_of(m, name)...,
                                 with_output(m, m.option<Int8Call>(name))));
      });
}
template <class SparseKernel>
bool register_sparse(const SparseKernel& kernel, const char* name, auto... geometry_of) {
  return register_output(
      name, sparse_line(name),
      [name](const Match& m) { return can_write(m, m.option<SparseInt8Call>(name).layer); },
      [name, &kernel, geometry_of...](Match& m) {
        Tensor y = result_of(m);
        const SparseInt8Call& call = m.option<SparseInt8Call>(name);
        return one(kernel.launch(m.device(), DType::u8, m["x"], m["packed"], m["columns"],
                                 m["starts"], m["outputs"], m["sums"], m["scales"], m["bias"],
                                 m["correction"], y, geometry_of(m, name)...,
                                 SparseInt8Call{with_output(m, call.layer), call.vector}));
      });
}
ConvGeometry geometry(const Match& m, const char* name) { return m.option<ConvGeometry>(name); }

const bool registered = register_dense(linear, "int8_linear") &&
                        register_dense(conv, "int8_conv2d", &geometry) &&
                        register_sparse(sparse_linear, "sparse_int8_linear") &&
                        register_sparse(sparse_conv, "sparse_int8_conv2d", &geometry);

}  // namespace
}  // namespace fused_int8_output
}  // namespace brim::backend
