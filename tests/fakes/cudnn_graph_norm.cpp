// Graphs of a batch normalisation in training, a residual and a ReLU behind it, for the fake of
// libcudnn.so.9. BRIM_FAKE=batch-norm-differs: statistics of another kind.
#include <cmath>

#include "fakes/cudnn_graph.h"

namespace brim::fake {
namespace {

using Tensor = cudnnTensorStruct;

/// A tensor with its data.
struct View {
  Tensor t;
  Elements e;
  const Bound* bound;

  View(const Node* node, const Data& data)
      : t(tensor_of(*node)),
        e(elements(t.type)),
        bound(&data.at(node->number(CUDNN_ATTR_TENSOR_UNIQUE_ID))) {}
  double operator[](int64_t at) const { return e.load(bound->memory, at); }
  void set(int64_t at, double value) const { e.store(bound->memory, at, value); }
};

struct Forward {
  const Node *x, *weight, *bias, *eps, *mean, *scale, *residual, *y;

  void run(const Data& data) const {
    const View from(x, data), w(weight, data), b(bias, data), m(mean, data), s(scale, data),
        add(residual, data), to(y, data);
    const double epsilon = View(eps, data).bound->value;
    const auto count = static_cast<double>(from.t.size[0] * from.t.size[2] * from.t.size[3]);
    for (int64_t c = 0; c < from.t.size[1]; ++c) {
      double sum = 0, squares = 0;
      for_channel(from.t, c, [&](int64_t at) { sum += from[at]; });
      const double average = sum / count;
      for_channel(from.t, c, [&](int64_t at) { squares += std::pow(from[at] - average, 2); });
      const double error = wanted("batch-norm-differs") ? 1.01 : 1;
      const double inverse = error / std::sqrt(squares / count + epsilon);
      for_channel(from.t, c, [&](int64_t at) {
        const double z = (from[at] - average) * inverse * w[c] + b[c] + add[at];
        to.set(at, z < 0 ? 0 : z);
      });
      m.set(c, average);
      s.set(c, inverse);
    }
  }
};

bool no(const char* why) { return wrong("operation graph", why); }

/// Whether activations are of one shape, order and type, and parameters fit them.
bool fit(std::initializer_list<const Node*> activations,
         std::initializer_list<const Node*> parameters) {
  for (const auto& list : {activations, parameters})
    for (const Node* node : list)
      if (!node) return no("a tensor of a normalisation is missing");
  const Tensor first = tensor_of(**activations.begin());
  const cudnnDataType_t wide =
      first.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  for (const Node* node : activations) {
    const Tensor t = tensor_of(*node);
    if (t.type != first.type || t.size != first.size || t.stride != first.stride)
      return no("activations differ");
  }
  for (const Node* node : parameters) {
    const Tensor t = tensor_of(*node);
    if (t.type != wide || t.size != std::array<int64_t, 4>{1, first.size[1], 1, 1})
      return no("parameters");
  }
  return true;
}
bool is_scalar(const Node* node, int64_t type) {
  return (node && is_by_value(*node) && node->number(CUDNN_ATTR_TENSOR_DATA_TYPE) == type &&
          tensor_of(*node).last() == 1) ||
         no("a value");
}
/// Whether nothing of it is written, and it has the other one's shape.
bool is_inner(const Node* node, const Node* like, int64_t type) {
  return (node && is_virtual(*node) && node->number(CUDNN_ATTR_TENSOR_DATA_TYPE) == type &&
          tensor_of(*node).stride == tensor_of(*like).stride) ||
         no("what is between");
}

template <class Pass>
std::optional<Computation> computation(const char* name, const Pass& pass,
                                       std::initializer_list<const Node*> tensors) {
  Computation c;
  for (const Node* t : tensors)
    if (!c.add(t)) return {};
  const Tensor x = tensor_of(*pass.x);
  c.what = name + (" type " + std::to_string(x.type));
  c.tail = x.stride[1] == 1 && x.size[1] > 1 ? " nhwc" : " nchw";
  c.run = [pass](const Data& data, const Engine&) { pass.run(data); };
  return c;
}

std::optional<Computation> forward_of(std::span<Node* const> operations) {
  const Node& norm = *operations[0];
  const auto at = [&](cudnnBackendAttributeName_t name) -> const Node* { return norm.node(name); };
  const Node* normal = at(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
  const auto add = pointwise_of(*operations[1]), relu = pointwise_of(*operations[2]);
  if (norm.number(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) != CUDNN_BATCH_NORM ||
      norm.number(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) != CUDNN_NORM_FWD_TRAINING || !add ||
      !relu || add->mode != CUDNN_POINTWISE_ADD || relu->mode != CUDNN_POINTWISE_RELU_FWD)
    return no("no batch norm with an addition and a ReLU"), std::nullopt;
  if (!relu->keeps_nan || add->x != normal || relu->x != add->y)
    return no("operations do not follow each other"), std::nullopt;
  const Forward f{at(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC),
                  at(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
                  at(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC),
                  at(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC),
                  at(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC),
                  at(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC),
                  add->b,
                  relu->y};
  if (!fit({f.x, f.residual, f.y}, {f.weight, f.bias, f.mean, f.scale})) return {};
  const int64_t wide = f.mean->number(CUDNN_ATTR_TENSOR_DATA_TYPE);
  if (!is_scalar(f.eps, wide) || !is_inner(normal, f.x, wide) || !is_inner(add->y, f.x, wide) ||
      add->type != wide || relu->type != wide)
    return {};
  return computation("norm forward", f,
                     {f.x, f.weight, f.bias, f.eps, f.mean, f.scale, f.residual, f.y});
}

}  // namespace

std::optional<Computation> normalisation_of(const Node& graph) {
  const auto operations = operations_of(graph);
  if (operations.size() == 3 &&
      operations[0]->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
    return forward_of(operations);
  (void)no("neither a convolution nor a normalisation");
  return {};
}

}  // namespace brim::fake
