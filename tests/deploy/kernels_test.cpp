// Kernels as operators of ONNX, by a small network for each. What they compute is compared by
// tests/deploy/check_onnx.py.
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/deploy/onnx.h>
#include <brim/nn/nn.h>
#include <brim/ops/attention.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/embedding.h>
#include <brim/ops/index.h>
#include <brim/ops/int8.h>
#include <brim/ops/interpolate.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/recurrent.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>
#include <brim/ops/sort.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "deploy/kept_onnx.h"
#include "deploy/onnx/recorded_network.h"
#include "deploy/onnx_file.h"

namespace brim::tests {
namespace {

using Function = std::function<Tensor(const Tensor& x)>;

/// A function, and modules that it uses.
struct OnnxCase {
  std::string name;
  Shape sample;
  Function function;
  DType dtype = DType::f32;
};

struct FunctionModule : nn::Module {
  explicit FunctionModule(Function f) : function(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return function(x); }
  Function function;
};

Tensor positive(const Tensor& x) { return abs(x) + 0.5; }
Tensor as_float(const Tensor& truth) { return truth.to(f32); }

/// The module lives as long as the case.
template <class M>
Function of(std::shared_ptr<M> module) {
  module->eval();
  return [module](const Tensor& x) { return (*module)(x); };
}
template <class M>
Function layer(typename M::Options options) {
  return of(std::make_shared<M>(std::move(options)));
}

/// Of images (C, H, W) = (4, 9, 10), rows of 12, sequences (6, 8) and tokens.
std::vector<OnnxCase> onnx_cases() {
  const Shape image = {4, 9, 10}, row = {12}, sequence = {6, 8};
  const Tensor fixed = randn({12}), weight = randn({12, 5}), table = randn({20, 6});
  const Tensor mask = randn({6, 6}) > -0.5;
  const Tensor index = Tensor::from<int64_t>({2, 0, 1, 2}, {4});
  std::vector<OnnxCase> cases;
  const auto add_case = [&](const char* name, const Shape& sample, Function f,
                            DType dtype = DType::f32) {
    cases.push_back({name, sample, std::move(f), dtype});
  };
  // One element at a time.
  add_case("neg", row, [](const Tensor& x) { return -x; });
  add_case("abs", row, [](const Tensor& x) { return abs(x); });
  add_case("exp", row, [](const Tensor& x) { return exp(x); });
  add_case("log", row, [](const Tensor& x) { return log(positive(x)); });
  add_case("log2", row, [](const Tensor& x) { return log2(positive(x)); });
  add_case("log10", row, [](const Tensor& x) { return log10(positive(x)); });
  add_case("sqrt", row, [](const Tensor& x) { return sqrt(positive(x)); });
  add_case("rsqrt", row, [](const Tensor& x) { return rsqrt(positive(x)); });
  add_case("square", row, [](const Tensor& x) { return square(x); });
  add_case("reciprocal", row, [](const Tensor& x) { return reciprocal(positive(x)); });
  add_case("sin", row, [](const Tensor& x) { return sin(x); });
  add_case("cos", row, [](const Tensor& x) { return cos(x); });
  add_case("tanh", row, [](const Tensor& x) { return tanh(x); });
  add_case("erf", row, [](const Tensor& x) { return erf(x); });
  add_case("sign", row, [](const Tensor& x) { return sign(x); });
  add_case("floor", row, [](const Tensor& x) { return floor(x); });
  add_case("ceil", row, [](const Tensor& x) { return ceil(x); });
  add_case("round", row, [](const Tensor& x) { return round(x); });
  add_case("relu", row, [](const Tensor& x) { return relu(x); });
  add_case("leaky-relu", row, [](const Tensor& x) { return leaky_relu(x, 0.2); });
  add_case("elu", row, [](const Tensor& x) { return elu(x, 1.5); });
  add_case("gelu", row, [](const Tensor& x) { return gelu(x); });
  add_case("gelu-tanh", row, [](const Tensor& x) { return gelu(x, GeluForm::tanh); });
  add_case("silu", row, [](const Tensor& x) { return silu(x); });
  add_case("sigmoid", row, [](const Tensor& x) { return sigmoid(x); });
  add_case("softplus", row, [](const Tensor& x) { return softplus(x, 2); });
  add_case("clamp", row, [](const Tensor& x) { return clamp(clamp(x, -0.5), {}, 0.7); });
  add_case("scalars", row, [](const Tensor& x) { return pow(x * 3 + 1, 2.0) / 7; });
  add_case("pow-scalar", row, [](const Tensor& x) { return pow(positive(x), 1.7); });
  add_case("binary", row, [=](const Tensor& x) {
    return maximum(minimum(x, fixed), mul(x, fixed)) - add(x, fixed, 0.5) / positive(fixed);
  });
  add_case("pow", row, [=](const Tensor& x) { return pow(positive(x), fixed); });
  add_case("fmod", row, [=](const Tensor& x) { return fmod(x * 5, positive(fixed)); });
  add_case("compare", row, [=](const Tensor& x) {
    return as_float(eq(x, x)) + as_float(x < fixed) + as_float(x <= fixed) + as_float(x > fixed) +
           as_float(x >= fixed) + as_float(ne(x, fixed));
  });
  add_case("compare-number", row, [](const Tensor& x) {
    return as_float(eq(x, 0.5)) + as_float(x < 0.1) + as_float(x <= 0.2) + as_float(x > 0.3) +
           as_float(x >= 0.4) + as_float(ne(x, 0.0));
  });
  add_case("logical", row, [=](const Tensor& x) {
    return as_float(logical_and(x > 0, fixed > 0)) + as_float(logical_or(x > 0, fixed > 0)) +
           as_float(logical_not(x > 0)) + as_float(isfinite(x));
  });
  add_case("where", row, [=](const Tensor& x) { return where(x > 0, fixed, x); });
  add_case("masked-fill", row, [](const Tensor& x) { return masked_fill(x, x > 0, -3); });
  // Products and convolutions.
  add_case("linear", row, layer<nn::Linear>({.in = 12, .out = 5}));
  add_case("linear-of-rank-3", sequence, layer<nn::Linear>({.in = 8, .out = 5}));
  add_case("linear-without-bias", sequence, layer<nn::Linear>({.in = 8, .out = 5, .bias = false}));
  add_case("matmul", row, [=](const Tensor& x) { return matmul(x, weight); });
  add_case("matmul-batches", sequence,
           [](const Tensor& x) { return matmul(x, x.transpose(1, 2)); });
  add_case("matmul-over-batch", row, [](const Tensor& x) { return matmul(x.t(), x); });
  add_case("conv2d", image,
           layer<nn::Conv2d>({.in = 4, .out = 6, .kernel = {3, 2}, .stride = 2, .padding = 1}));
  add_case("conv2d-groups", image,
           layer<nn::Conv2d>({.in = 4, .out = 8, .kernel = 3, .dilation = 2, .groups = 4}));
  add_case("conv2d-nhwc", image,
           [conv = layer<nn::Conv2d>({.in = 4, .out = 6, .kernel = 3})](const Tensor& x) {
             return relu(conv(x.to(MemoryFormat::nhwc)));
           });
  add_case("conv1d", sequence, layer<nn::Conv1d>({.in = 6, .out = 5, .kernel = 3, .padding = 1}));
  add_case("conv-transpose2d", image,
           layer<nn::ConvTranspose2d>(
               {.in = 4, .out = 3, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1}));
  // Normalisation.
  add_case("batch-norm", image, layer<nn::BatchNorm2d>({.features = 4}));
  add_case("batch-norm-plain", image, layer<nn::BatchNorm2d>({.features = 4, .affine = false}));
  add_case("layer-norm", sequence, layer<nn::LayerNorm>({.shape = {8}}));
  add_case("layer-norm-of-2-axes", image, [](const Tensor& x) { return layer_norm(x, {9, 10}); });
  add_case("group-norm", image, layer<nn::GroupNorm>({.groups = 2, .channels = 4}));
  add_case("rms-norm", sequence, layer<nn::RMSNorm>({.shape = {8}}));
  add_case("rms-norm-of-2-axes", image, [](const Tensor& x) { return rms_norm(x, {9, 10}); });
  add_case("softmax", sequence, [](const Tensor& x) { return softmax(x, 1); });
  add_case("log-softmax", sequence, [](const Tensor& x) { return log_softmax(x, -1); });
  // Pooling and resizing.
  add_case("max-pool", image,
           [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  add_case("max-pool-ceil", image, [](const Tensor& x) {
    return max_pool2d(x, {2, 3}, {.stride = 2, .ceil_mode = true});
  });
  add_case("avg-pool", image,
           [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  add_case("avg-pool-ceil", image, [](const Tensor& x) {
    return avg_pool2d(x, 2, {.ceil_mode = true}) +
           avg_pool2d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false}).slice(3, 0, 5);
  });
  add_case("adaptive-pool", image, [](const Tensor& x) {
    return adaptive_avg_pool2d(x, 1) + adaptive_avg_pool2d(x, {3, 5}) +
           adaptive_avg_pool2d(x, {3, 1}) + mean(adaptive_avg_pool2d(x, {4, 5}), {2}, true);
  });
  add_case("nearest", image, [](const Tensor& x) { return interpolate(x, {.scale = 2}); });
  add_case("nearest-size", image, [](const Tensor& x) {
    return interpolate(x, {.size = {13, 7}});
  });
  add_case("bilinear", image, [](const Tensor& x) {
    return interpolate(x, {.size = {13, 25}, .mode = Interpolation::bilinear});
  });
  add_case("bilinear-corners", image, [](const Tensor& x) {
    return interpolate(x, {.scale = 1.5, .mode = Interpolation::bilinear, .align_corners = true});
  });
  add_case("bilinear-scale", image, [](const Tensor& x) {
    return interpolate(x, {.scale = 1.5, .mode = Interpolation::bilinear});
  });
  // Reductions.
  add_case("sum", image, [](const Tensor& x) {
    return sum(x, {1, 3}) + sum(x, {1, 2, 3}, true).squeeze(3).squeeze(2);
  });
  add_case("mean", image, [](const Tensor& x) { return mean(x, {2, 3}); });
  add_case("mean-of-batch", row, [](const Tensor& x) { return x - mean(x, {0}, true); });
  add_case("extremes", image,
           [](const Tensor& x) { return amax(x, {2}) + amin(x, {2}) + max(x, 2).values; });
  add_case("arg", image, [](const Tensor& x) { return argmax(x, 1) + argmin(x, 1); });
  add_case("prod", sequence, [](const Tensor& x) { return prod(x, {2}); });
  add_case("any-all", sequence,
           [](const Tensor& x) { return as_float(any(x > 1, {2})) + as_float(all(x > -1, {2})); });
  add_case("norm", image, [](const Tensor& x) { return norm(x, 2, {2, 3}) + norm(x, 1, {2, 3}); });
  add_case("logsumexp", image, [](const Tensor& x) { return logsumexp(x, {1, 2}); });
  add_case("var", image, [](const Tensor& x) { return var(x, {2, 3}) + stddev(x, {2, 3}, 0); });
  add_case("cumsum", sequence, [](const Tensor& x) { return cumsum(x, 2); });
  add_case("sort", sequence,
           [](const Tensor& x) { return topk(x, 3, 2).values + sort(x, 2).values.slice(2, 0, 3); });
  add_case("min-index", sequence, [](const Tensor& x) { return min(x, 1).values; });
  // Views.
  add_case("flatten", image, [](const Tensor& x) { return x.flatten(1); });
  add_case("permute", image, [](const Tensor& x) { return x.permute({2, 0, 3, 1}); });
  add_case("slices", image,
           [](const Tensor& x) { return x.slice(1, 1, 3).slice(3, 2, 9).flatten(1) * 2; });
  add_case("steps", image,
           [](const Tensor& x) { return x.slice(2, 1, 9, 3) + x.slice(2, 0, 9, 3); });
  add_case("select", image, [](const Tensor& x) { return x.select(2, 4) + x.select(2, -1); });
  add_case("flip", image, [](const Tensor& x) { return flip(x, {1, 3}); });
  add_case("expand", row, [](const Tensor& x) { return x.unsqueeze(1).expand({-1, 3, 12}) * 1; });
  add_case("expand-copied", row, [](const Tensor& x) {
    return x.unsqueeze(1).expand({-1, 3, 12}).clone();
  });
  add_case("split-heads", sequence, [](const Tensor& x) {
    return x.view({x.size(0), 6, 2, 4}).permute({0, 2, 1, 3}).select(1, 1);
  });
  add_case("pixel-shuffle", image,
           [](const Tensor& x) { return pixel_unshuffle(pixel_shuffle(x, 2), 2) + x; });
  add_case("repeat", row, [](const Tensor& x) {
    return repeat(x, {1, 2}) + repeat_interleave(x, 2, 1);
  });
  add_case("sequence-first", sequence, [](const Tensor& x) {
    return x.transpose(0, 1).contiguous().select(0, 5) + x.select(1, 0);
  });
  add_case("diagonal", sequence, [](const Tensor& x) { return x.slice(2, 0, 6).select(2, 0); });
  // Moves.
  add_case("cat", image, [](const Tensor& x) { return cat({x, x * 2, x.slice(1, 0, 1)}, 1); });
  add_case("cat-last", row, [](const Tensor& x) { return cat({x, x * 2}, -1); });
  add_case("stack", row, [](const Tensor& x) { return stack({x, x * 2, -x}, 1); });
  add_case("cat-first", row, [](const Tensor& x) { return cat({x, x * 2}, 0); });
  add_case("pad", image, [](const Tensor& x) {
    return pad(x, {1, 2, 0, 1}, PadMode::constant, 0.5) + pad(x, {1, 2, 0, 1}, PadMode::reflect);
  });
  add_case("pad-copies", image, [](const Tensor& x) {
    return pad(x, {1, 2, 0, 1}, PadMode::replicate) + pad(x, {1, 2, 0, 1}, PadMode::circular);
  });
  add_case("roll", row, [](const Tensor& x) { return roll(x, {3}, {1}); });
  add_case("slice-scatter", sequence,
           [](const Tensor& x) { return slice_scatter(x, x.slice(1, 0, 2) * 2, 1, 3, 5); });
  add_case("zeros", row, [](const Tensor& x) { return zeros_like(x) + x; });
  add_case("arange", row, [](const Tensor& x) { return x + arange(12.0); });
  add_case("tril", sequence, [](const Tensor& x) { return tril(x) + triu(x, 2); });
  add_case("casts", row,
           [](const Tensor& x) { return (x * 3).to(i64).to(f32) + x.to(f64).to(f32); });
  add_case(
      "embedding", {5}, [=](const Tensor& x) { return embedding(x, table); }, DType::i64);
  add_case("index-select", image, [=](const Tensor& x) { return index_select(x, 2, index); });
  add_case("gather", sequence, [](const Tensor& x) { return gather(x, 1, argmax(x, 1, true)); });
  add_case(
      "scatter", {5}, [](const Tensor& x) { return one_hot(x, 20, f32); }, DType::i64);
  add_case("scatter-add", sequence, [](const Tensor& x) {
    return scatter_add(x, 1, argmax(x, 1, true), amax(x, {1}, true));
  });
  add_case("in-place", row, [](const Tensor& x) {
    Tensor y = x * 2;
    y += x;
    y.mul_(0.5);
    return y;
  });
  // Attention and recurrent layers.
  add_case("attention", sequence, layer<nn::MultiheadAttention>({.dim = 8, .heads = 2}));
  add_case("attention-causal", {2, 6, 8},
           [](const Tensor& x) { return scaled_dot_product_attention(x, x, x, {.causal = true}); });
  add_case("attention-mask", {2, 6, 8}, [=](const Tensor& x) {
    return scaled_dot_product_attention(x, x, x, {.mask = mask}) +
           scaled_dot_product_attention(x, x, x, {.mask = as_float(mask)});
  });
  // The first key is hidden, and with it all that the first query might see.
  const Tensor hides_first = gt(arange(6), 0);
  add_case("attention-causal-mask", {2, 6, 8}, [=](const Tensor& x) {
    return scaled_dot_product_attention(x, x, x, {.mask = hides_first, .causal = true});
  });
  add_case("attention-empty-mask", {2, 6, 8}, [=](const Tensor& x) {
    const Tensor nothing = full({6, 6}, -std::numeric_limits<double>::infinity());
    return scaled_dot_product_attention(x, x, x, {.mask = nothing});
  });
  add_case("attention-shared", {4, 6, 8}, [](const Tensor& x) {
    const Tensor shared = x.slice(1, 0, 2);
    return scaled_dot_product_attention(x, shared, shared, {.causal = true, .scale = 0.5});
  });
  add_case("transformer", sequence,
           layer<nn::TransformerEncoderLayer>({.dim = 8, .heads = 2, .hidden = 16}));
  add_case("lstm", sequence, layer<nn::LSTM>({.in = 8, .hidden = 5, .batch_first = true}));
  add_case("lstm-both-ways", sequence,
           layer<nn::LSTM>(
               {.in = 8, .hidden = 5, .layers = 2, .batch_first = true, .bidirectional = true}));
  add_case("lstm-states", sequence,
           [lstm = std::make_shared<nn::LSTM>(
                nn::LSTM::Options{.in = 8, .hidden = 5, .batch_first = true})](const Tensor& x) {
             const auto result = lstm->forward(x, {});
             return result.state.h.select(0, 0) * 2 + result.state.c.select(0, 0);
           });
  add_case("gru", sequence,
           layer<nn::GRU>(
               {.in = 8, .hidden = 5, .layers = 2, .batch_first = true, .bidirectional = true}));
  add_case("gru-without-bias", sequence,
           layer<nn::GRU>({.in = 8, .hidden = 5, .bias = false, .batch_first = true}));
  add_case("lstm-of-gates", sequence, [w = randn({8, 2}) * 0.5](const Tensor& x) {
    const Tensor gates = x.transpose(0, 1) * 2, state = zeros({x.size(0), 2});
    return lstm(gates.contiguous(), w, state, state)[0];
  });
  // Numbers in 8 bits; layers in integers are in the zoo.
  add_case("quantize", row, [](const Tensor& x) {
    const QuantParams params = QuantParams::of_range(-1, 2);
    return dequantize(quantize(x, params), params);
  });
  return cases;
}

Tensor case_input(const OnnxCase& c, int64_t batch) {
  Shape shape = c.sample;
  shape.insert(0, batch);
  return c.dtype == DType::i64 ? randint(0, 20, shape) : randn(shape);
}

TEST(OnnxKernels, AreExported) {
  const KeptOnnx files;
  const NoGrad scope;
  manual_seed(3);
  for (const OnnxCase& c : onnx_cases()) {
    SCOPED_TRACE(c.name);
    FunctionModule module(c.function);
    const std::string name = "kernel-" + c.name;
    try {
      const deploy::OnnxSummary made =
          deploy::save_onnx(files / name + ".onnx", module, case_input(c, 1));
      EXPECT_GT(made.nodes, 0);
      const OnnxFile file(files / name + ".onnx");
      EXPECT_EQ(file.inputs.at(0).shape.at(0), "batch");
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    files.keep(
        name, [&](const Tensor& x) { return std::vector<Tensor>{c.function(x)}; },
        [&](int64_t batch) { return case_input(c, batch); }, {"output"},
        [](io::TensorMap&, const std::string&) {});
  }
}

TEST(OnnxKernels, AllOfTheTableHaveACase) {
  const NoGrad scope;
  std::set<std::string> launched = {"int8_linear", "int8_conv2d"};  // in the zoo
  for (const OnnxCase& c : onnx_cases()) {
    FunctionModule module(c.function);
    const auto recorded = deploy::record_network(
        module, [&](std::span<const Tensor> x) { return std::vector<Tensor>{module(x[0])}; },
        {case_input(c, 2)});
    for (const auto& launch : recorded.program.launches) launched.insert(launch->name());
  }
  for (const deploy::OnnxKernel& kernel : deploy::onnx_kernels())
    EXPECT_TRUE(launched.contains(kernel.kernel)) << kernel.kernel;
}

}  // namespace
}  // namespace brim::tests
