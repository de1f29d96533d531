// Single ops: the cost of a call on a small tensor, and the throughput of the large ones.
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>

#include "cli/bench/cases.h"

namespace brim::cli {
namespace {

using Step = std::function<void()>;

Step add_16(bool requires_grad) {
  return [a = rand({16}).set_requires_grad(requires_grad), b = rand({16})] { add(a, b); };
}

Step relu_16() {
  return [x = rand({16})] { relu(x); };
}

Step square_matmul(int64_t n) {
  return [a = rand({n, n}), b = rand({n, n})] { matmul(a, b); };
}

Step conv() {
  return
      [x = rand({4, 64, 56, 56}), w = rand({64, 64, 3, 3})] { conv2d(x, w, {}, {.padding = 1}); };
}

Step conv_train() {
  return [x = rand({4, 64, 56, 56}).set_requires_grad(),
          w = rand({64, 64, 3, 3}).set_requires_grad(), g = rand({4, 64, 56, 56})]() mutable {
    x.zero_grad();
    w.zero_grad();
    conv2d(x, w, {}, {.padding = 1}).backward(g);
  };
}

Step softmax_rows() {
  return [x = rand({128, 1000})] { softmax(x, 1); };
}

Step layer_norm_rows() {
  return [x = rand({1024, 768}), w = rand({768}), b = rand({768})] { layer_norm(x, {768}, w, b); };
}

Step chain() {
  constexpr int64_t kCount = 1 << 18;
  return [a = rand({kCount}), b = rand({kCount}), c = rand({kCount})] {
    sigmoid(relu(a * b + c)) * a;
  };
}

Step total() {
  return [x = rand({1 << 20})] { sum(x); };
}

}  // namespace

std::vector<BenchCase> op_cases() {
  return {
      {"add-16", "add two tensors of 16 elements", [] { return add_16(false); }},
      {"add-16-grad", "the same, recorded for a gradient", [] { return add_16(true); }},
      {"relu-16", "relu of 16 elements", relu_16},
      {"matmul-256", "(256, 256) x (256, 256), f32", [] { return square_matmul(256); }},
      {"matmul-1024", "(1024, 1024) x (1024, 1024), f32", [] { return square_matmul(1024); }},
      {"conv-64x56x56", "3x3 convolution 64 -> 64 of (4, 64, 56, 56)", conv},
      {"conv-64x56x56-train", "the same with both gradients", conv_train},
      {"softmax-128x1000", "softmax over the rows of (128, 1000)", softmax_rows},
      {"layer-norm-1024x768", "layer norm over the rows of (1024, 768)", layer_norm_rows},
      {"chain-256k", "sigmoid(relu(a * b + c)) * a of 262,144 elements", chain},
      {"sum-1m", "sum of 1,048,576 elements", total},
  };
}

}  // namespace brim::cli
