// The backend API of the fake of libcudnn.so.9, for graphs of a convolution, a bias behind it, or a
// gradient. Descriptors are checked when they are finalized, plans when they are executed. Its
// engines are slower than the algorithms of the other API, but for BRIM_FAKE=fast-plans. Others:
// "backend-fails" (no descriptor is made), "no-plans" (graphs are not supported),
// "heuristics-fail", "plans-fail" (when they are executed), "plans-need-much" (memory).
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fakes/cudnn_conv.h"

namespace {

using namespace brim::fake;

/// An engine, and what its notes say.
struct Engine {
  int64_t number;
  std::vector<cudnnBackendNumericalNote_t> notes;
  double milliseconds;
  int64_t workspace = 0;
  bool supported = true;
  int64_t tile = 0;  // of a knob, where it has one
};
/// In the order of what the heuristics think; those that brim must not take are the fastest.
const std::vector<Engine>& engines() {
  static const auto* const all = new std::vector<Engine>{
      {0, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0.1},
      {1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, 0.1},
      {2, {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, 0.1},
      {3, {}, 0.1, 0, false},
      {4, {}, 0.1, int64_t{1} << 40},
      {5, {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4}, 5},
      {6, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 4, 64},
      {7, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, 3, 256, true, 16},
  };
  return *all;
}
double milliseconds_of(const Engine& engine) {
  return wanted("fast-plans") ? engine.milliseconds : 200;
}

struct Node;
struct Value {
  cudnnBackendAttributeType_t type{};
  std::vector<int64_t> numbers;
  std::vector<double> factors;
  std::vector<Node*> nodes;
  std::vector<void*> pointers;
};
struct Node {
  explicit Node(cudnnBackendDescriptorType_t t) : type(t) {}
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Value> values;
  const Engine* engine = nullptr;  // of configurations and engines
  Node* graph = nullptr;           // that they are for

  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  int64_t number(cudnnBackendAttributeName_t name, size_t i = 0) const {
    const auto at = values.find(name);
    return at == values.end() || at->second.numbers.size() <= i ? -1 : at->second.numbers[i];
  }
  Node* node(cudnnBackendAttributeName_t name, size_t i = 0) const {
    const auto at = values.find(name);
    return at == values.end() || at->second.nodes.size() <= i ? nullptr : at->second.nodes[i];
  }
};
Node& node_of(cudnnBackendDescriptor_t d) { return *static_cast<Node*>(d); }

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

Tensor tensor_of(const Node& t) {
  Tensor result;
  result.type = static_cast<cudnnDataType_t>(t.number(CUDNN_ATTR_TENSOR_DATA_TYPE));
  for (size_t i = 0; i < 4; ++i) {
    result.size[i] = t.number(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
    result.stride[i] = t.number(CUDNN_ATTR_TENSOR_STRIDES, i);
  }
  return result;
}
bool is_virtual(const Node& t) { return t.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL) == 1; }

/// A graph, taken apart.
struct Problem {
  const Pass* pass = nullptr;
  Tensor x, y, bias;
  Filter w;
  Conv conv;
  bool has_bias = false;
  std::map<int64_t, const Node*> tensors;  // that have data, by their numbers
  int64_t id_x = 0, id_w = 0, id_y = 0, id_bias = 0;
};

/// Says what is wrong with the operations; nothing is returned then.
std::optional<Problem> problem_of(const Node& graph) {
  const char* const call = "operation graph";
  const auto operations = graph.values.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const auto no = [&](const char* why) {
    (void)wrong(call, why);
    return std::nullopt;
  };
  if (operations == graph.values.end() || operations->second.nodes.empty() ||
      operations->second.nodes.size() > 2)
    return no("operations");
  const Node& first = *operations->second.nodes[0];
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
  if (operations->second.nodes.size() == 2) {
    const Node& second = *operations->second.nodes[1];
    const Node* how = second.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const Node* bias = second.node(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    result = second.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    if (second.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || !how || !bias || !result)
      return no("the second operation is no addition");
    if (how->number(CUDNN_ATTR_POINTWISE_MODE) != CUDNN_POINTWISE_ADD ||
        how->number(CUDNN_ATTR_POINTWISE_MATH_PREC) != p.conv.compute)
      return no("the second operation is another one");
    if (second.node(CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != y || !is_virtual(*y))
      return no("the sum between is not the operations' own");
    if (y->number(CUDNN_ATTR_TENSOR_DATA_TYPE) != p.conv.compute) return no("the sum is rounded");
    p.has_bias = true;
    p.bias = tensor_of(*bias);
    if (p.bias.type != p.x.type || p.bias.size != std::array<int64_t, 4>{1, p.w.size[0], 1, 1})
      return no("bias");
    p.id_bias = bias->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    p.tensors[p.id_bias] = bias;
  }
  p.y = tensor_of(*result);
  if (!fits(call, p.x, p.w, p.conv, p.y)) return {};
  p.id_x = x->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  p.id_w = w->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  p.id_y = result->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  for (const Node* t : {x, w, result}) {
    p.tensors[t->number(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = t;
    if (is_virtual(*t)) return no("an end of the graph is virtual");
  }
  if (p.tensors.size() != (p.has_bias ? 4U : 3U)) return no("numbers of tensors are not unique");
  return p;
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

/// What a descriptor lacks; null: nothing.
const char* lacks(Node& n) {
  switch (n.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const Tensor t = tensor_of(n);
      if (!elements(t.type).load) return "type";
      for (size_t i = 0; i < 4; ++i)
        if (t.size[i] < 1 || t.stride[i] < 1) return "sizes or strides";
      if (n.number(CUDNN_ATTR_TENSOR_UNIQUE_ID) < 0) return "its number";
      return n.number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) == 16 ? nullptr : "alignment";
    }
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return n.number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 ? nullptr : "dimensions";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: {
      const Node* conv = n.node(pass_of(n)->conv);
      if (!conv) return "its convolution";
      const auto compute =
          static_cast<cudnnDataType_t>(conv->number(CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
      return replaces(n, *pass_of(n), compute) ? nullptr : "factors";
    }
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (!n.has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)) return "a handle";
      return problem_of(n) ? nullptr : "sense";
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      n.graph = n.node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      return n.graph && n.has(CUDNN_ATTR_ENGINEHEUR_MODE) ? nullptr : "a graph or a mode";
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Node* config = n.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      if (!config || !config->engine || !n.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
        return "a configuration or a handle";
      n.engine = config->engine;
      n.graph = config->graph;
      return nullptr;
    }
    default:
      return nullptr;
  }
}

/// Elements of an attribute, as it is given.
template <class T>
std::vector<int64_t> numbers_at(const void* values, int64_t count) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<int64_t>(static_cast<const T*>(values)[i]));
  return result;
}

/// Fills descriptors that the caller has made with what the heuristics propose.
int64_t proposals(const Node& heuristics, Node** into, int64_t most) {
  // Mode A knows the first ones; B has most of those first that brim must not take, too.
  const bool a = heuristics.number(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
  int64_t count = 0;
  for (const Engine& engine : engines())
    if ((a ? engine.number < 4 : engine.number != 3) && count < most) {
      Node& config = *into[count++];
      config.engine = &engine;
      config.graph = heuristics.graph;
      config.finalized = true;
    }
  return count;
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  if (wanted("backend-fails")) return CUDNN_STATUS_INTERNAL_ERROR;
  *made = new Node(type);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete static_cast<Node*>(d);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  Node& n = node_of(d);
  if (machine->is_capturing() && n.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return bad("cudnnBackendFinalize", "in a capture");
  if (n.finalized) return bad("cudnnBackendFinalize", "twice");
  if (n.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && wanted("no-plans"))
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (n.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && wanted("heuristics-fail"))
    return CUDNN_STATUS_INTERNAL_ERROR;
  if (const char* what = lacks(n))
    return bad("cudnnBackendFinalize",
               "a descriptor of type " + std::to_string(n.type) + " lacks " + what);
  if (n.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && !n.engine->supported)
    return CUDNN_STATUS_NOT_SUPPORTED;
  n.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  Node& n = node_of(d);
  if (n.finalized) return bad("cudnnBackendSetAttribute", "it is finalized");
  if (count < 1 || !values) return bad("cudnnBackendSetAttribute", "no values");
  Value v;
  v.type = type;
  switch (type) {
    case CUDNN_TYPE_INT64:
      v.numbers = numbers_at<int64_t>(values, count);
      break;
    case CUDNN_TYPE_BOOLEAN:
      v.numbers = numbers_at<bool>(values, count);
      break;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_HEUR_MODE:
      v.numbers = numbers_at<int>(values, count);
      break;
    case CUDNN_TYPE_FLOAT:
      for (int64_t i = 0; i < count; ++i)
        v.factors.push_back(static_cast<double>(static_cast<const float*>(values)[i]));
      break;
    case CUDNN_TYPE_DOUBLE:
      v.factors.assign(static_cast<const double*>(values),
                       static_cast<const double*>(values) + count);
      break;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
      v.pointers.assign(static_cast<void* const*>(values),
                        static_cast<void* const*>(values) + count);
      break;
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      for (int64_t i = 0; i < count; ++i) {
        Node* const node = static_cast<Node* const*>(values)[i];
        if (!node || !node->finalized)
          return bad("cudnnBackendSetAttribute", "a descriptor is not finalized");
        v.nodes.push_back(node);
      }
      break;
    default:
      return bad("cudnnBackendSetAttribute", "type " + std::to_string(type));
  }
  n.values[name] = std::move(v);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t* count, void* values) {
  Node& n = node_of(d);
  if (!n.finalized) return bad("cudnnBackendGetAttribute", "it is not finalized");
  if (most < 1 || !values) return bad("cudnnBackendGetAttribute", "no room for values");
  auto* const nodes = static_cast<Node**>(values);
  const auto number = [&](int64_t value) {
    *static_cast<int64_t*>(values) = value;
    *count = 1;
    return type == CUDNN_TYPE_INT64 ? CUDNN_STATUS_SUCCESS
                                    : bad("cudnnBackendGetAttribute", "no INT64");
  };
  const auto is = [&](cudnnBackendDescriptorType_t wanted_type) {
    return type == CUDNN_TYPE_BACKEND_DESCRIPTOR && nodes[0] && nodes[0]->type == wanted_type;
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      if (!is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) break;
      *count = proposals(n, nodes, most);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      if (!is(CUDNN_BACKEND_ENGINE_DESCRIPTOR) || !n.engine) break;
      nodes[0]->engine = n.engine;
      nodes[0]->finalized = true;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      if (!is(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR) || !n.engine) break;
      nodes[0]->engine = n.engine;
      nodes[0]->finalized = true;
      *count = n.engine->tile > 0;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      if (type != CUDNN_TYPE_KNOB_TYPE || !n.engine) break;
      *static_cast<cudnnBackendKnobType_t*>(values) = CUDNN_KNOB_TYPE_TILE_SIZE;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      if (!n.engine) break;
      return number(n.engine->tile);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      if (!n.engine) break;
      return number(n.engine->number);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      if (type != CUDNN_TYPE_NUMERICAL_NOTE || !n.engine) break;
      const auto& notes = n.engine->notes;
      *count = std::min<int64_t>(most, static_cast<int64_t>(notes.size()));
      std::copy_n(notes.begin(), *count, static_cast<cudnnBackendNumericalNote_t*>(values));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (!n.engine) break;
      return number(wanted("plans-need-much") ? int64_t{513} << 20 : n.engine->workspace);
    default:
      break;
  }
  return bad("cudnnBackendGetAttribute", "attribute " + std::to_string(name));
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_desc,
                                  cudnnBackendDescriptor_t pack_desc) {
  const char* const call = "cudnnBackendExecute";
  if (!handle || !handle->stream) return bad(call, "no handle or stream");
  const Node &plan = node_of(plan_desc), &pack = node_of(pack_desc);
  if (!plan.finalized || !pack.finalized || !plan.engine) return bad(call, "not finalized");
  if (wanted("plans-fail")) return CUDNN_STATUS_EXECUTION_FAILED;
  const std::optional<Problem> problem = problem_of(*plan.graph);
  if (!problem) return CUDNN_STATUS_BAD_PARAM;
  const Problem p = *problem;
  const auto ids = pack.values.find(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto data = pack.values.find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids == pack.values.end() || data == pack.values.end() ||
      ids->second.numbers.size() != data->second.pointers.size() ||
      ids->second.numbers.size() != p.tensors.size())
    return bad(call, "the pack does not fit the graph");
  std::map<int64_t, void*> at;
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    const int64_t id = ids->second.numbers[i];
    at[id] = data->second.pointers[i];
    if (!p.tensors.contains(id)) return bad(call, "a number of no tensor");
    if (!is_tensor(at[id], tensor_of(*p.tensors.at(id))) || !is_aligned(at[id], 16))
      return bad(call, "a tensor leaves its memory, or is not aligned");
  }
  const auto room = pack.values.find(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (plan.engine->workspace > 0 &&
      (room == pack.values.end() || !is_memory(room->second.pointers[0], plan.engine->workspace)))
    return bad(call, "workspace");
  note("plan " + std::string(p.pass->name) + (p.has_bias ? " bias" : "") + " type " +
       std::to_string(p.x.type) + " engine " + std::to_string(plan.engine->number) +
       (p.w.format == CUDNN_TENSOR_NHWC ? " nhwc" : " nchw"));
  machine->spend(handle->stream, milliseconds_of(*plan.engine) - 50);  // a launch costs 50
  Conv conv = p.conv;
  conv.math = CUDNN_FMA_MATH;
  for (const auto numerical : plan.engine->notes)
    if (numerical == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) conv.math = CUDNN_DEFAULT_MATH;
  void *const x = at[p.id_x], *const w = at[p.id_w], *const y = at[p.id_y];
  const void* const bias = p.has_bias ? at[p.id_bias] : nullptr;
  machine->submit(handle->stream, [=] {
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
    sums.store(to.type, forward ? y : of_x ? x : w);
  });
  return CUDNN_STATUS_SUCCESS;
}
