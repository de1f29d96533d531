// The last layers of a classifier, the loss and their gradients become one launch: where networks
// are tiny, six or more kernels take longer to launch than all they compute.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "backend/classifier_head.h"
#include "backend/has_kernel.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

/// Launches first .. last: the layers, the loss, then the gradients from the last layer's on.
struct Head {
  int first, loss, last;
  int layers() const { return loss - first; }
};

class HeadMatcher {
 public:
  explicit HeadMatcher(const Program& program) : program_(program), uses_(program) {}

  /// The longest head around the loss that launch `index` computes; without layers if there is
  /// none.
  Head match(int index) const {
    Head head{index, index, index};
    if (!plain(index) || !is(at(index), "softmax_cross_entropy")) return head;
    Tensor y = at(index).operand(0), dy = at(index).operand(4);
    std::vector<Shape> weights;
    for (int k = 1; k <= backend::kMostHeadLayers; ++k) {
      const int layer = index - k, grad = index + k;
      if (layer < 0 || grad >= static_cast<int>(program_.launches.size()) ||
          !is_layer(layer, k == 1, y) || !is_gradient(grad, layer, k == 1, dy) ||
          !inner(dy, grad - 1, grad))
        break;
      weights.push_back(at(layer).operand(1).shape());
      const std::vector<Shape> in_order(weights.rbegin(), weights.rend());
      y = at(layer).operand(0), dy = at(grad).operand(4);
      if (!backend::classifier_head_is_fast(y.shape()[0], in_order)) break;
      head.first = layer, head.last = grad;
      if (!dy.defined()) break;
    }
    return head;
  }

  const Launch& at(int i) const { return *program_.launches[static_cast<size_t>(i)]; }

  /// True if nobody reads `t` but launches of the head.
  bool only_inside(const Tensor& t, const Head& head) const {
    const std::vector<int>& readers = uses_.readers(t);
    return program_.temporary(t) && std::all_of(readers.begin(), readers.end(), [&](int i) {
             return i >= head.first && i <= head.last;
           });
  }

 private:
  bool plain(int i) const {
    const Launch& launch = at(i);
    return launch.dtype() == DType::f32 && !launch.refresh && !launch.commit && !launch.draw;
  }
  /// A temporary that goes from one launch to another alone.
  bool inner(const Tensor& t, int writer, int reader) const {
    return program_.temporary(t) && uses_.writer(t) == writer && uses_.reader(t) == reader;
  }
  bool is_layer(int i, bool last, const Tensor& y) const {
    const Launch& launch = at(i);
    if (!plain(i) || !is(launch, last ? "linear" : "linear_relu")) return false;
    const Tensor &x = launch.operand(0), &bias = launch.operand(2);
    return x.shape()[0] > 0 && x.strides()[1] == 1 && launch.operand(1).is_contiguous() &&
           (!bias.defined() || bias.is_contiguous()) && launch.operand(3).is_contiguous() &&
           same_view(launch.operand(3), y);
  }
  bool is_gradient(int i, int layer, bool last, const Tensor& dy) const {
    const Launch &launch = at(i), &forward = at(layer);
    if (!plain(i) || !is(launch, "linear_grad")) return false;
    const Tensor &weight = launch.operand(1), &y = launch.operand(3);
    return same_view(launch.operand(0), forward.operand(0)) &&
           (!weight.defined() || same_view(weight, forward.operand(1))) &&
           same_view(launch.operand(2), dy) &&
           (last ? !y.defined() : y.defined() && same_view(y, forward.operand(3)));
  }

  const Program& program_;
  Uses uses_;
};

/// Multiplications and additions of the layers and their gradients.
double operations(const Tensor& x, const std::span<const Tensor>& weights,
                  const std::span<const Tensor>&, const Tensor&, const Tensor&,
                  const std::span<Tensor>&, const Tensor&, const Tensor&, const std::span<Tensor>&,
                  const std::span<Tensor>&, const backend::ClassLoss&) {
  double sum = 0;
  for (const Tensor& w : weights) sum += 6.0 * static_cast<double>(x.shape()[0] * w.numel());
  return sum;
}

void fuse(Program& program, const HeadMatcher& found, const Head& head) {
  static const backend::ClassifierHeadKernel kernel("classifier_head", &operations);
  std::vector<Tensor> weights, biases, outputs, dweights, dbiases;
  for (int k = 0; k < head.layers(); ++k) {
    const Launch &layer = found.at(head.first + k), &grad = found.at(head.last - k);
    const Tensor& y = layer.operand(3);
    weights.push_back(layer.operand(1));
    biases.push_back(layer.operand(2));
    outputs.push_back(found.only_inside(y, head) ? Tensor() : y);
    dweights.push_back(grad.operand(5));
    dbiases.push_back(grad.operand(6));
  }
  const Launch& loss = found.at(head.loss);
  Tensor value, dx;
  value = loss.operand(3);
  dx = found.at(head.last).operand(4);
  auto fused = kernel.launch(loss.device(), loss.dtype(), found.at(head.first).operand(0), weights,
                             biases, loss.operand(1), loss.operand(2), outputs, value, dx, dweights,
                             dbiases, *loss.option<backend::ClassLoss>());
  for (int i = head.first; i <= head.last; ++i) program.launches[static_cast<size_t>(i)] = nullptr;
  program.launches[static_cast<size_t>(head.first)] = std::move(fused);
  program.compact();
}

}  // namespace

std::string fuse_head(Program& program) {
  if (!backend::has_kernel("classifier_head", program.device, DType::f32)) return "";
  int heads = 0, layers = 0;
  for (int i = 0; i < static_cast<int>(program.launches.size()); ++i) {
    const HeadMatcher matcher(program);
    const Head head = matcher.match(i);
    if (head.layers() == 0) continue;
    fuse(program, matcher, head);
    i = head.first;
    ++heads, layers += head.layers();
  }
  return heads ? fmt::format("{} losses in one launch with the {} layers before and all gradients",
                             heads, layers)
               : "";
}

}  // namespace brim::plan
