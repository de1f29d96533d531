// What the head of a classifier stands for in plans, what one block needs for it, and when it pays.
#include "backend/fused/classifier_head.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "backend/has_kernel.h"
#include "backend/rewrite.h"

namespace brim::backend {
namespace {

constexpr int64_t kMaxFloats = kHeadSharedBytes / 4;

}  // namespace

HeadMemory::HeadMemory(int64_t rows, std::span<const Shape> shapes) {
  int next = 0;
  const auto take = [&](int64_t floats) {
    const int at = next;
    next += static_cast<int>((floats + 3) / 4 * 4);  // in accesses of 16 bytes
    return at;
  };
  for (size_t k = 0; k < shapes.size(); ++k) {
    weights[k] = take(shapes[k].numel());
    biases[k] = take(shapes[k][0]);
    activations[k] = take(rows * shapes[k][1]);
    gradients[k] = take(rows * shapes[k][0]);
  }
  activations[shapes.size()] = take(rows * shapes.back()[0]);
  labels = take(2 * rows);
  scratch = take(kHeadThreads);
  total = next;
}

bool classifier_head_is_fast(int64_t rows, std::span<const Shape> weights) {
  // One multiprocessor of some 130 computes: 2^17 multiply-adds a pass take it about as long as
  // three launches.
  constexpr int64_t kMaxWork = int64_t{1} << 17;
  if (rows == 0 || rows > kMaxFloats || weights.empty() || weights.size() > kMaxHeadLayers)
    return false;
  int64_t floats = 0;
  for (const Shape& w : weights) {
    if (w.numel() == 0 || w.numel() > kMaxFloats) return false;
    floats += w.numel();
  }
  return floats <= kMaxFloats && rows * floats <= kMaxWork &&
         HeadMemory(rows, weights).total <= kMaxFloats;
}

namespace classifier_head {
namespace {

/// Multiplications and additions of the layers and their gradients.
double operations(const Tensor& x, const std::span<const Tensor>& weights,
                  const std::span<const Tensor>&, const Tensor&, const Tensor&,
                  const std::span<Tensor>&, const Tensor&, const Tensor&, const std::span<Tensor>&,
                  const std::span<Tensor>&, const ClassLoss&) {
  double sum = 0;
  for (const Tensor& w : weights) sum += 6.0 * static_cast<double>(x.shape()[0] * w.numel());
  return sum;
}

const ClassifierHeadKernel kernel("classifier_head",
                                  {.operands = "x, weights, biases, target, class_weight, outputs, "
                                               "loss, dx, dweights, dbiases"},
                                  &operations);

/// What layer k reads is a<k>, and g<k> is its gradient.
std::string name(const char* letter, int k) { return letter + std::to_string(k); }

std::string pattern(int layers) {
  std::string text = fmt::format(
      "softmax_cross_entropy(x: a{0}, target, weight: class_weight, loss, dx: g{0})\n", layers);
  for (int k = layers - 1; k >= 0; --k) {
    const bool last = k == layers - 1;
    text += fmt::format("f{0} = {1}(x: a{0}, weight: w{0}, bias: b{0}, y: a{2})\n", k,
                        last ? "linear" : "linear_relu", k + 1);
    text += fmt::format(
        "d{0} = linear_grad(x: a{0}, weight: w{0}?, dy: g{1}, y: {2}, dx: g{0}, dweight: dw{0}, "
        "dbias: db{0})\n",
        k, k + 1, last ? "-" : name("a", k + 1));
  }
  return text;
}
std::vector<std::string> patterns() {
  std::vector<std::string> all;
  for (int layers = kMaxHeadLayers; layers > 0; --layers) all.push_back(pattern(layers));
  return all;
}

int layers_of(const Match& m) {
  int layers = 0;
  while (layers < kMaxHeadLayers && m.find(name("f", layers))) ++layers;
  return layers;
}

bool pays(const Match& m) {
  std::vector<Shape> weights;
  for (int k = 0; k < layers_of(m); ++k) {
    const Tensor &weight = m[name("w", k)], &bias = m[name("b", k)];
    if (!weight.is_contiguous() || !(!bias.defined() || bias.is_contiguous()) ||
        !m[name("a", k + 1)].is_contiguous())
      return false;
    weights.push_back(weight.shape());
  }
  const Tensor& x = m["a0"];
  return x.size(0) > 0 && x.strides()[1] == 1 && classifier_head_is_fast(x.size(0), weights) &&
         is_fast("classifier_head", m.device(), HeadSize{4 * HeadMemory(x.size(0), weights).total});
}

Launches build(Match& m) {
  std::vector<Tensor> weights, biases, outputs, dweights, dbiases;
  for (int k = 0; k < layers_of(m); ++k) {
    const std::string y = name("a", k + 1);
    weights.push_back(m[name("w", k)]);
    biases.push_back(m[name("b", k)]);
    outputs.push_back(m.seen_by_others(y) ? m[y] : Tensor());
    dweights.push_back(m[name("dw", k)]);
    dbiases.push_back(m[name("db", k)]);
  }
  Tensor loss = m.target("loss"), dx = m.target("g0");
  return one(kernel.launch(m.device(), m.dtype(), m["a0"], weights, biases, m["target"],
                           m["class_weight"], outputs, loss, dx, dweights, dbiases,
                           m.option<ClassLoss>("softmax_cross_entropy")));
}

const bool registered = register_rewrite(
    {.name = "classifier_head",
     .what = "the last layers of a classifier, the loss and their gradients in one launch",
     .ulp = 16,  // products and sums by one kernel of its own
     .patterns = patterns(),
     .kernels = {"classifier_head"},
     .pays = pays,
     .build = build});

}  // namespace
}  // namespace classifier_head
}  // namespace brim::backend
