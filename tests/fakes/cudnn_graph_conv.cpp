// Graphs of a convolution, a bias and a ReLU behind it, or a gradient, for the fake of
// libcudnn.so.9.
#include <utility>

#include "fakes/cudnn_conv.h"
#include "fakes/cudnn_graph.h"

namespace brim::fake {
namespace {

/// The names of an operation's attributes.
struct Pass {
  const char* name;
  cudnnBackendAttributeName_t alpha, beta, conv, x, w, y;
};
const Pass* pass_of(const Node& operation) {
  static const Pass kForward{"forward",
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  static const Pass kGradX{"grad_x",
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  static const Pass kGradWeight{"grad_weight",
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return &kForward;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return &kGradX;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return &kGradWeight;
    default:
      return nullptr;
  }
}

/// Whether the factors are 1 and 0, of the type of the sums.
bool replaces(const Node& operation, const Pass& pass, cudnnDataType_t compute) {
  const auto type = compute == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  const auto is = [&](cudnnBackendAttributeName_t name, double factor) {
    const auto at = operation.values.find(name);
    return at != operation.values.end() && at->second.type == type &&
           at->second.factors == std::vector<double>{factor};
  };
  return is(pass.alpha, 1) && is(pass.beta, 0);
}

/// A graph's convolution and what is behind it.
struct Problem {
  const Pass* pass = nullptr;
  Tensor x, y, bias;
  Filter w;
  Conv conv;
  bool has_bias = false, relu = false;
  int64_t id_x = 0, id_w = 0, id_y = 0, id_bias = 0;
};

void compute(const Problem& p, const Data& data, const Engine& engine) {
  Conv conv = p.conv;
  conv.math = CUDNN_FMA_MATH;
  for (const auto numerical : engine.notes)
    if (numerical == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) conv.math = CUDNN_DEFAULT_MATH;
  void *const x = data.at(p.id_x).memory, *const w = data.at(p.id_w).memory,
              *const y = data.at(p.id_y).memory;
  const void* const bias = p.has_bias ? data.at(p.id_bias).memory : nullptr;
  const Elements e = elements(p.x.type);
  const bool forward = p.pass->name[0] == 'f', of_x = p.pass->name[5] == 'x';
  const Tensor& to = forward ? p.y : of_x ? p.x : static_cast<const Tensor&>(p.w);
  Sums sums(to);
  for_all(p.x, p.w, conv, p.y, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    if (forward)
      sums[at_y] += product(conv, p.x.type, e.load(x, at_x), e.load(w, at_w));
    else if (of_x)
      sums[at_x] += product(conv, p.x.type, e.load(y, at_y), e.load(w, at_w));
    else
      sums[at_w] += product(conv, p.x.type, e.load(x, at_x), e.load(y, at_y));
  });
  if (bias)
    for (int64_t n = 0; n < to.size[0]; ++n)
      for (int64_t c = 0; c < to.size[1]; ++c)
        for (int64_t i = 0; i < to.size[2]; ++i)
          for (int64_t j = 0; j < to.size[3]; ++j) sums[to.at(n, c, i, j)] += e.load(bias, c);
  if (p.relu)
    for (double& sum : sums.of) sum = sum < 0 ? 0 : sum;
  sums.store(to.type, forward ? y : of_x ? x : w);
}

}  // namespace

const char* lacks_of_conv(const Node& operation) {
  const Pass& pass = *pass_of(operation);
  const Node* conv = operation.node(pass.conv);
  if (!conv) return "its convolution";
  const auto type = static_cast<cudnnDataType_t>(conv->number(CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
  return replaces(operation, pass, type) ? nullptr : "factors";
}

std::optional<Computation> convolution_of(const Node& graph) {
  const char* const call = "operation graph";
  const auto operations = operations_of(graph);
  const auto no = [&](const char* why) {
    (void)wrong(call, why);
    return std::nullopt;
  };
  if (operations.size() > 3) return no("operations");
  const Node& first = *operations[0];
  Problem p;
  p.pass = pass_of(first);
  if (!p.pass) return no("the first operation is no convolution");
  const Node *x = first.node(p.pass->x), *w = first.node(p.pass->w), *y = first.node(p.pass->y),
             *conv = first.node(p.pass->conv);
  if (!x || !w || !y || !conv) return no("a convolution lacks something");
  p.x = tensor_of(*x);
  static_cast<Tensor&>(p.w) = tensor_of(*w);
  // The weights' strides say the format; where they may be both, the image's do.
  const auto is_planes = [](const Tensor& t) {
    return t.stride[3] == 1 && t.stride[1] == t.size[2] * t.size[3];
  };
  const auto is_pixels = [](const Tensor& t) {
    return t.stride[1] == 1 && t.stride[3] == t.size[1];
  };
  const bool pixels = is_pixels(p.w) && (!is_planes(p.w) || !is_planes(p.x));
  p.w.format = pixels ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  p.conv.pad_h = conv->number(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
  p.conv.pad_w = conv->number(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 1);
  for (size_t i = 0; i < 2; ++i)
    if (conv->number(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) !=
        conv->number(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i))
      return no("paddings differ");
  p.conv.stride_h = conv->number(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 0);
  p.conv.stride_w = conv->number(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
  p.conv.dilation_h = conv->number(CUDNN_ATTR_CONVOLUTION_DILATIONS, 0);
  p.conv.dilation_w = conv->number(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
  p.conv.mode = static_cast<cudnnConvolutionMode_t>(conv->number(CUDNN_ATTR_CONVOLUTION_CONV_MODE));
  p.conv.compute = static_cast<cudnnDataType_t>(conv->number(CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
  if (p.w.size[1] < 1 || p.x.size[1] % p.w.size[1] != 0) return no("channels");
  p.conv.groups = p.x.size[1] / p.w.size[1];
  const Node* result = y;
  Computation c;
  for (const Node* operation : operations.subspan(1)) {
    const std::optional<Pointwise> next = pointwise_of(*operation);
    if (!next || p.relu) return no("an operation behind the convolution is of another kind");
    if (next->type != p.conv.compute) return no("an operation computes in another type");
    if (next->x != result || !is_virtual(*result))
      return no("the sum between is not the operations' own");
    if (result->number(CUDNN_ATTR_TENSOR_DATA_TYPE) != p.conv.compute)
      return no("the sum is rounded");
    result = next->y;
    if (next->mode == CUDNN_POINTWISE_RELU_FWD) {
      if (!next->keeps_nan) return no("NaN would be lost");
      p.relu = true;
      continue;
    }
    if (next->mode != CUDNN_POINTWISE_ADD || !next->b || p.has_bias)
      return no("the second operation is no addition");
    p.has_bias = true;
    p.bias = tensor_of(*next->b);
    if (p.bias.type != p.x.type || p.bias.size != std::array<int64_t, 4>{1, p.w.size[0], 1, 1})
      return no("bias");
    p.id_bias = next->b->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (!c.add(next->b)) return {};
  }
  p.y = tensor_of(*result);
  if (!fits(call, p.x, p.w, p.conv, p.y)) return {};
  p.id_x = x->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  p.id_w = w->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  p.id_y = result->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  for (const Node* t : {x, w, result})
    if (!c.add(t)) return {};
  c.what = std::string(p.pass->name) + (p.has_bias ? " bias" : "") + (p.relu ? " relu" : "") +
           " type " + std::to_string(p.x.type);
  c.tail = p.w.format == CUDNN_TENSOR_NHWC ? " nhwc" : " nchw";
  c.run = [p](const Data& data, const Engine& engine) { compute(p, data, engine); };
  return c;
}

}  // namespace brim::fake
