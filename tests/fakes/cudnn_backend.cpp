// The backend API of the fake of libcudnn.so.9, for the graphs of cudnn_graph.h. Descriptors are
// checked when they are finalized, plans when they are executed. Its engines are slower than the
// algorithms of the other API, but for BRIM_FAKE=fast-plans. Others: "backend-fails" (no descriptor
// is made), "no-plans" (graphs are not supported), "heuristics-fail", "plans-fail" (when they are
// executed), "plans-need-much" (memory).
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fakes/cudnn_graph.h"

namespace {

using namespace brim::fake;

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

Node& node_of(cudnnBackendDescriptor_t d) { return *static_cast<Node*>(d); }

bool is_convolution(const Node& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

/// Says what is wrong with the graph; nothing is returned then.
std::optional<Computation> computation_of(const Node& graph) {
  const auto operations = operations_of(graph);
  if (operations.empty()) {
    (void)wrong("operation graph", "no operations");
    return {};
  }
  return is_convolution(*operations[0]) ? convolution_of(graph) : normalisation_of(graph);
}

/// What a descriptor lacks; null: nothing.
const char* lacks(Node& n) {
  switch (n.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const cudnnTensorStruct t = tensor_of(n);
      if (!elements(t.type).load && !(t.type == CUDNN_DATA_BOOLEAN && is_virtual(n))) return "type";
      for (size_t i = 0; i < 4; ++i)
        if (t.size[i] < 1 || t.stride[i] < 1) return "sizes or strides";
      if (n.number(CUDNN_ATTR_TENSOR_UNIQUE_ID) < 0) return "its number";
      return n.number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) == 16 ? nullptr : "alignment";
    }
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return n.number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 ? nullptr : "dimensions";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return lacks_of_conv(n);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (!n.has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)) return "a handle";
      return computation_of(n) ? nullptr : "sense";
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

std::optional<Pointwise> brim::fake::pointwise_of(const Node& operation) {
  const Node* how = operation.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const Pointwise p{
      operation.node(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
      operation.node(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
      operation.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
      how ? how->number(CUDNN_ATTR_POINTWISE_MODE) : -1,
      how ? how->number(CUDNN_ATTR_POINTWISE_MATH_PREC) : -1,
      how && how->number(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN};
  if (operation.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || !how || !p.x || !p.y)
    return {};
  return p;
}

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
    case CUDNN_TYPE_NAN_PROPOGATION:
    case CUDNN_TYPE_NORM_MODE:
    case CUDNN_TYPE_NORM_FWD_PHASE:
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
  const std::optional<Computation> known = computation_of(*plan.graph);
  if (!known) return CUDNN_STATUS_BAD_PARAM;
  const auto ids = pack.values.find(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto data = pack.values.find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids == pack.values.end() || data == pack.values.end() ||
      ids->second.numbers.size() != data->second.pointers.size() ||
      ids->second.numbers.size() != known->tensors.size())
    return bad(call, "the pack does not fit the graph");
  Data at;
  for (size_t i = 0; i < known->tensors.size(); ++i) {
    const int64_t id = ids->second.numbers[i];
    at[id].memory = data->second.pointers[i];
    if (!known->tensors.contains(id)) return bad(call, "a number of no tensor");
    const Node& tensor = *known->tensors.at(id);
    if (is_by_value(tensor)) {
      at[id].value = elements(tensor_of(tensor).type).load(at[id].memory, 0);
      continue;
    }
    if (!is_tensor(at[id].memory, tensor_of(tensor)) || !is_aligned(at[id].memory, 16))
      return bad(call, "a tensor leaves its memory, or is not aligned");
  }
  const auto room = pack.values.find(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (plan.engine->workspace > 0 &&
      (room == pack.values.end() || !is_memory(room->second.pointers[0], plan.engine->workspace)))
    return bad(call, "workspace");
  note("plan " + known->what + " engine " + std::to_string(plan.engine->number) + known->tail);
  machine->spend(handle->stream, milliseconds_of(*plan.engine) - 50);  // a launch costs 50
  machine->submit(handle->stream,
                  [run = known->run, at, engine = plan.engine] { run(at, *engine); });
  return CUDNN_STATUS_SUCCESS;
}
