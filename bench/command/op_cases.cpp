// Single ops: the cost of a call on a small tensor, and the throughput of the large ones.
#include <brim/autograd/autocast.h>
#include <brim/nn/recurrent.h>
#include <brim/ops/attention.h>
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>
#include <fmt/format.h>

#include <memory>

#include "bench/command/cases.h"
#include "core/runtime.h"

namespace brim::command {
namespace {

constexpr double kNoProducts = 0;
constexpr int64_t kMany = 1 << 24;  // elements: 64 MiB of f32, more than caches hold

BenchCase op(std::string name, std::string about, double flops,
             std::function<BenchRun(const BenchSetup&)> make) {
  return {
      .name = std::move(name), .about = std::move(about), .flops = flops, .make = std::move(make)};
}

/// One that is made for GPUs.
BenchCase large_op(std::string name, std::string about,
                   std::function<BenchRun(const BenchSetup&)> make) {
  BenchCase result = op(std::move(name), std::move(about), kNoProducts, std::move(make));
  result.large = true;
  return result;
}

/// Numbers from [0, 1) where the case runs, in its dtype.
Tensor operand(const BenchSetup& setup, const Shape& shape) {
  return rand(shape).to(setup.dtype()).to(setup.device);
}

BenchCase add_16() {
  return op("add-16", "add two tensors of 16 elements", kNoProducts, [](const BenchSetup& setup) {
    return repeat(
        setup, [](const Tensor& a, const Tensor& b) { return add(a, b); }, operand(setup, {16}),
        operand(setup, {16}));
  });
}

/// For what memory decides: told in bytes a second, beside a copy of `x` on its device. `bytes`:
/// the least that is read and written, each operand and result once.
BenchRun beside_copy(BenchRun run, const Tensor& x, double bytes) {
  const size_t size = static_cast<size_t>(x.numel()) * size_of(x.dtype());
  run.bytes = bytes;
  run.copy_bytes = 2 * static_cast<double>(size);
  run.copy = [x, to = Tensor::empty(x.shape(), x.dtype(), x.device()), size] {
    const Device device = x.device();
    runtime(device.kind).copy(to.raw(), device, x.raw(), device, size, Stream::current(device));
  };
  return run;
}
double bytes_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype()));
}

BenchCase large_add(const std::string& size, int64_t count) {
  BenchCase result =
      op("add-" + size, fmt::format("add two tensors of {} elements", count), kNoProducts,
         [count](const BenchSetup& setup) {
           const Tensor a = operand(setup, {count}), b = operand(setup, {count});
           BenchRun run = repeat(
               setup, [](const Tensor& x, const Tensor& y) { return add(x, y); }, a, b);
           return beside_copy(std::move(run), a, 3 * bytes_of(a));
         });
  result.large = count > (1 << 20);
  return result;
}

/// The tape's cost, which a compiled step has not.
BenchCase add_16_grad() {
  BenchCase result = op("add-16-grad", "the same, recorded for a gradient", kNoProducts,
                        [](const BenchSetup& setup) {
                          return repeat(
                              setup, [](const Tensor& a, const Tensor& b) { return add(a, b); },
                              operand(setup, {16}).set_requires_grad(), operand(setup, {16}));
                        });
  result.compiles = false;
  return result;
}

BenchCase relu_16() {
  return op("relu-16", "relu of 16 elements", kNoProducts, [](const BenchSetup& setup) {
    return repeat(
        setup, [](const Tensor& x) { return relu(x); }, operand(setup, {16}));
  });
}

BenchCase square_matmul(int64_t n) {
  BenchCase result = op(fmt::format("matmul-{}", n), fmt::format("({0}, {0}) x ({0}, {0})", n),
                        2.0 * static_cast<double>(n * n * n), [n](const BenchSetup& setup) {
                          return repeat(
                              setup, [](const Tensor& a, const Tensor& b) { return matmul(a, b); },
                              operand(setup, {n, n}), operand(setup, {n, n}));
                        });
  result.large = n > 1024;
  return result;
}

double conv_flops(int64_t channels, int64_t side) {
  return 2.0 * static_cast<double>(4 * channels * channels * 9 * side * side);
}

/// A 3x3 convolution of (4, channels, side, side) to as many channels.
BenchCase conv(int64_t channels, int64_t side) {
  return op(fmt::format("conv-{0}x{1}x{1}", channels, side),
            fmt::format("3x3 convolution {0} -> {0} of (4, {0}, {1}, {1})", channels, side),
            conv_flops(channels, side), [channels, side](const BenchSetup& setup) {
              return repeat(
                  setup,
                  [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {.padding = 1}); },
                  operand(setup, {4, channels, side, side}),
                  operand(setup, {channels, channels, 3, 3}));
            });
}

BenchCase conv_train() {
  return op(
      "conv-64x56x56-train", "the same with both gradients", 3 * conv_flops(64, 56),
      [](const BenchSetup& setup) {
        BenchSetup keeping = setup;
        keeping.compile.keep_gradients = true;  // they are the result
        return repeat(
            keeping,
            [x = operand(setup, {4, 64, 56, 56}).set_requires_grad(),
             w = operand(setup, {64, 64, 3, 3}).set_requires_grad()](const Tensor& g) mutable {
              x.zero_grad();
              w.zero_grad();
              Tensor y = conv2d(x, w, {}, {.padding = 1});
              y.backward(g);
              return y;
            },
            operand(setup, {4, 64, 56, 56}));
      });
}

constexpr int64_t kHeads = 8, kFeatures = 64;  // of attention

/// Of the forward pass: two products of what a causal mask leaves.
double attention_flops(int64_t tokens) {
  return 4.0 * static_cast<double>(kHeads * kFeatures) * static_cast<double>(tokens) *
         static_cast<double>(tokens + 1) / 2;
}

BenchCase attention(int64_t tokens) {
  return op(fmt::format("attention-{}", tokens),
            fmt::format("causal attention of {} heads of {} features over {} tokens", kHeads,
                        kFeatures, tokens),
            attention_flops(tokens), [tokens](const BenchSetup& setup) {
              const Shape shape{1, kHeads, tokens, kFeatures};
              return repeat(
                  setup,
                  [](const Tensor& q, const Tensor& k, const Tensor& v) {
                    return scaled_dot_product_attention(q, k, v, {.causal = true});
                  },
                  operand(setup, shape), operand(setup, shape), operand(setup, shape));
            });
}

BenchCase attention_train(int64_t tokens) {
  return op(fmt::format("attention-{}-train", tokens), "the same with its gradients",
            3 * attention_flops(tokens), [tokens](const BenchSetup& setup) {
              BenchSetup keeping = setup;
              keeping.compile.keep_gradients = true;  // they are the result
              const Shape shape{1, kHeads, tokens, kFeatures};
              return repeat(
                  keeping,
                  [q = operand(setup, shape).set_requires_grad(),
                   k = operand(setup, shape).set_requires_grad(),
                   v = operand(setup, shape).set_requires_grad()](const Tensor& g) mutable {
                    for (Tensor* x : {&q, &k, &v}) x->zero_grad();
                    Tensor y = scaled_dot_product_attention(q, k, v, {.causal = true});
                    y.backward(g);
                    return y;
                  },
                  operand(setup, shape));
            });
}

/// 2 layers, 256 wide, over 128 steps of 32 samples; all gradients, the input's too.
template <class Layer>
BenchCase recurrent_train(const char* name, int64_t gates) {
  constexpr int64_t kLayers = 2, kWidth = 256, kSteps = 128, kBatch = 32;
  const auto layer_products = static_cast<double>(kSteps * kBatch * gates * kWidth * 2 * kWidth);
  return op(name,
            fmt::format("{} layers {} wide over {} steps of {} samples, with all gradients",
                        kLayers, kWidth, kSteps, kBatch),
            3 * 2.0 * kLayers * layer_products, [](const BenchSetup& setup) {
              BenchSetup keeping = setup;
              keeping.compile.keep_gradients = true;  // they are the result
              const auto net = std::make_shared<Layer>(
                  nn::RecurrentOptions{.in = kWidth, .hidden = kWidth, .layers = kLayers});
              net->to(setup.device);
              const Shape shape{kSteps, kBatch, kWidth};
              return repeat(
                  keeping,
                  [net, dtype = setup.dtype(),
                   x = rand(shape).to(setup.device).set_requires_grad()](const Tensor& g) mutable {
                    net->zero_grad();
                    x.zero_grad();
                    const Autocast scope(dtype);
                    Tensor y = (*net)(x);
                    y.backward(g.to(y.dtype()));
                    return y;
                  },
                  operand(setup, shape));
            });
}

BenchCase softmax_rows(int64_t rows, int64_t columns) {
  return op(fmt::format("softmax-{}x{}", rows, columns),
            fmt::format("softmax over the rows of ({}, {})", rows, columns), kNoProducts,
            [rows, columns](const BenchSetup& setup) {
              return repeat(
                  setup, [](const Tensor& x) { return softmax(x, 1); },
                  operand(setup, {rows, columns}));
            });
}

BenchCase layer_norm_rows(int64_t rows, int64_t columns) {
  return op(fmt::format("layer-norm-{}x{}", rows, columns),
            fmt::format("layer norm over the rows of ({}, {})", rows, columns), kNoProducts,
            [rows, columns](const BenchSetup& setup) {
              return repeat(
                  setup,
                  [columns](const Tensor& x, const Tensor& w, const Tensor& b) {
                    return layer_norm(x, {columns}, w, b);
                  },
                  operand(setup, {rows, columns}), operand(setup, {columns}),
                  operand(setup, {columns}));
            });
}

BenchCase chain(const std::string& size, int64_t count) {
  BenchCase result =
      op("chain-" + size, fmt::format("sigmoid(relu(a * b + c)) * a of {} elements", count),
         kNoProducts, [count](const BenchSetup& setup) {
           const Tensor x = operand(setup, {count});
           BenchRun run = repeat(
               setup,
               [](const Tensor& a, const Tensor& b, const Tensor& c) {
                 return sigmoid(relu(a * b + c)) * a;
               },
               x, operand(setup, {count}), operand(setup, {count}));
           return count < kMany ? run : beside_copy(std::move(run), x, 4 * bytes_of(x));
         });
  result.large = count >= kMany;
  return result;
}

/// (16384, 1024): rows as attention has them.
constexpr int64_t kRows = 1 << 14, kColumns = 1 << 10;
static_assert(kRows * kColumns == kMany);

BenchCase large_softmax() {
  return large_op("softmax-16m", fmt::format("softmax over the rows of ({}, {})", kRows, kColumns),
                  [](const BenchSetup& setup) {
                    const Tensor x = operand(setup, {kRows, kColumns});
                    BenchRun run = repeat(
                        setup, [](const Tensor& in) { return softmax(in, 1); }, x);
                    return beside_copy(std::move(run), x, 2 * bytes_of(x));
                  });
}

BenchCase large_layer_norm() {
  return large_op("layer-norm-16m",
                  fmt::format("layer norm over the rows of ({}, {})", kRows, kColumns),
                  [](const BenchSetup& setup) {
                    const Tensor x = operand(setup, {kRows, kColumns});
                    BenchRun run = repeat(
                        setup,
                        [](const Tensor& in, const Tensor& w, const Tensor& b) {
                          return layer_norm(in, {kColumns}, w, b);
                        },
                        x, operand(setup, {kColumns}), operand(setup, {kColumns}));
                    return beside_copy(std::move(run), x, 2 * bytes_of(x));
                  });
}

/// In training x is read twice, since its moments are of all of it before any result is.
BenchCase large_batch_norm() {
  const Shape shape{32, 128, 64, 64};
  return large_op("batch-norm-16m", fmt::format("batch norm in training of {}, nhwc", shape.str()),
                  [shape](const BenchSetup& setup) {
                    const Tensor x = operand(setup, shape).to(MemoryFormat::nhwc);
                    const int64_t channels = shape[1];
                    const TensorOptions of{.device = setup.device};
                    BenchRun run = repeat(
                        setup,
                        [mean = zeros({channels}, of), var = ones({channels}, of)](
                            const Tensor& in, const Tensor& w, const Tensor& b) {
                          return batch_norm(in, w, b, mean, var, {.training = true});
                        },
                        x, ones({channels}, of), zeros({channels}, of));
                    return beside_copy(std::move(run), x, 3 * bytes_of(x));
                  });
}

BenchCase total() {
  return op("sum-1m", "sum of 1048576 elements", kNoProducts, [](const BenchSetup& setup) {
    return repeat(
        setup, [](const Tensor& x) { return sum(x); }, operand(setup, {1 << 20}));
  });
}

}  // namespace

std::vector<BenchCase> op_cases() {
  return {add_16(),
          add_16_grad(),
          relu_16(),
          large_add("1m", 1 << 20),
          large_add("64m", 1 << 26),
          square_matmul(32),
          square_matmul(256),
          square_matmul(1024),
          square_matmul(8192),
          conv(8, 14),
          conv(64, 56),
          conv_train(),
          attention(512),
          attention_train(512),
          attention(4096),
          attention_train(4096),
          recurrent_train<nn::LSTM>("lstm", 4),
          recurrent_train<nn::GRU>("gru", 3),
          softmax_rows(8, 100),
          softmax_rows(128, 1000),
          layer_norm_rows(8, 64),
          layer_norm_rows(1024, 768),
          chain("1k", 1 << 10),
          chain("256k", 1 << 18),
          chain("16m", kMany),
          large_softmax(),
          large_layer_norm(),
          large_batch_norm(),
          total()};
}

}  // namespace brim::command
