// See cudnn_plan.h.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_plan.h"

#include <brim/core/tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "backend/cuda/libraries/cudnn_recipe.h"

namespace brim::cuda::dnn {
namespace {

// Of each mode's proposals so many at most are looked at, and so many at most are kept. Most of
// those for f32 are for TF32: of the 37 that cuDNN 9.19 has for a 3 x 3 convolution of 32 channels
// to 64 on an H100 that was described to it, six are not.
constexpr int64_t kAsked = 128;
constexpr int kKept = 4;
enum Id : int64_t { kX = 1, kWeight, kY, kBias, kSum };  // of tensors, in a graph

/// The attributes of a descriptor, as C++ has them.
class Maker {
 public:
  explicit Maker(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    check(library().create_backend(type, &made), "cudnnBackendCreateDescriptor");
    made_.reset(made);
  }
  template <class T>
  Maker& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
             std::span<const T> values) {
    check(library().set_backend(made_.get(), name, type, static_cast<int64_t>(values.size()),
                                values.data()),
          "cudnnBackendSetAttribute");
    return *this;
  }
  template <class T>
  Maker& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  Maker& set(cudnnBackendAttributeName_t name, const BackendDesc& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }
  /// Nothing where cuDNN does not support what was described; so it may call what it cannot do
  /// wrong, as we describe no nonsense.
  std::optional<BackendDesc> finish() {
    const cudnnStatus_t result = library().finalize_backend(made_.get());
    if (CUDNN_STATUS_CATEGORY(result) == CUDNN_STATUS_BAD_PARAM ||
        !is_supported(result, "cudnnBackendFinalize"))
      return {};
    return std::move(made_);
  }
  BackendDesc take() { return std::move(made_); }  // for cuDNN to fill

 private:
  BackendDesc made_;
};

/// All values of an attribute, of at most kMax.
template <class T, size_t kMax>
std::vector<T> values_of(const BackendDesc& from, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type) {
  std::array<T, kMax> all{};
  int64_t count = 0;
  check(library().get_backend(from.get(), name, type, kMax, &count, all.data()),
        "cudnnBackendGetAttribute");
  return {all.begin(), all.begin() + std::clamp<int64_t>(count, 0, kMax)};
}
template <class T>
T value_of(const BackendDesc& from, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type) {
  const auto all = values_of<T, 1>(from, name, type);
  return all.empty() ? T{} : all[0];
}
/// Descriptors that an attribute holds, at most `most`.
std::vector<BackendDesc> descriptors_of(const BackendDesc& from, cudnnBackendAttributeName_t name,
                                        cudnnBackendDescriptorType_t type, int64_t most) {
  std::vector<BackendDesc> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < most; ++i) {
    all.push_back(Maker(type).take());
    raw.push_back(all.back().get());
  }
  int64_t count = 0;
  if (!is_supported(library().get_backend(from.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
                                          &count, raw.data()),
                    "cudnnBackendGetAttribute"))
    count = 0;
  all.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, most)));
  return all;
}

cudnnDataType_t wide_type(DType dtype) {
  return dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/// What a graph is made of: descriptors that must outlive it. The graph is the last one.
class GraphOf {
 public:
  GraphOf(cudnnHandle_t handle, const DnnConv& c, bool with_bias)
      : handle_(handle), c_(c), with_bias_(with_bias) {}

  /// Null where cuDNN does not support it.
  std::shared_ptr<const std::vector<BackendDesc>> make() {
    const ConvGeometry& g = c_.geometry;
    const auto x = tensor(kX, g.x_shape()), y = tensor(kY, g.y_shape());
    const auto weight = tensor(kWeight, g.weight_shape()), conv = convolution();
    if (!x || !y || !weight || !conv) return nullptr;
    std::vector<cudnnBackendDescriptor_t> operations;
    if (!with_bias_) {
      operations.push_back(pass(x, weight, y, conv));
    } else {
      const auto sum = tensor(kSum, g.y_shape()), bias = tensor(kBias, {1, g.o, 1, 1});
      if (!sum || !bias) return nullptr;
      operations = {pass(x, weight, sum, conv), add(sum, bias, y)};
    }
    if (std::ranges::count(operations, nullptr) > 0) return nullptr;
    Maker graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              std::span<const cudnnBackendDescriptor_t>(operations));
    if (!keep(graph)) return nullptr;
    return std::make_shared<const std::vector<BackendDesc>>(std::move(parts_));
  }

 private:
  cudnnBackendDescriptor_t keep(Maker& maker) {
    std::optional<BackendDesc> made = maker.finish();
    if (!made) return nullptr;
    parts_.push_back(std::move(*made));
    return parts_.back().get();
  }

  /// Of the activations' format, as cuDNN wants all of them.
  cudnnBackendDescriptor_t tensor(Id id, const Shape& shape) {
    const Strides strides = strides_of(shape, c_.nhwc ? MemoryFormat::nhwc : MemoryFormat::nchw);
    const std::array<int64_t, 4> sizes{shape[0], shape[1], shape[2], shape[3]},
        steps{strides[0], strides[1], strides[2], strides[3]};
    Maker t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const bool is_virtual = id == kSum;  // of it nothing is written
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<int64_t>(id));
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
          is_virtual ? wide_type(c_.dtype) : type_of(c_.dtype));
    t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
    t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(sizes));
    t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(steps));
    t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    return keep(t);
  }

  cudnnBackendDescriptor_t convolution() {
    const ConvGeometry& g = c_.geometry;
    const auto pair = [](Maker& to, cudnnBackendAttributeName_t name, int64_t h, int64_t w) {
      const std::array<int64_t, 2> both{h, w};
      to.set(name, CUDNN_TYPE_INT64, std::span<const int64_t>(both));
    };
    Maker conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, wide_type(c_.dtype));
    conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
    conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
    pair(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.padding.h, g.padding.w);
    pair(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.padding.h, g.padding.w);
    pair(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.stride.h, g.stride.w);
    pair(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, g.dilation.h, g.dilation.w);
    return keep(conv);
  }

  /// The factors of a result and of what stood there: 1 and 0.
  void replace(Maker& to, cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta) {
    if (c_.dtype == DType::f64)
      to.set(alpha, CUDNN_TYPE_DOUBLE, 1.0).set(beta, CUDNN_TYPE_DOUBLE, 0.0);
    else
      to.set(alpha, CUDNN_TYPE_FLOAT, 1.0f).set(beta, CUDNN_TYPE_FLOAT, 0.0f);
  }

  /// The convolution or its gradient; `y` as it stands in the graph.
  cudnnBackendDescriptor_t pass(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t weight,
                                cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t conv) {
    struct Names {
      cudnnBackendDescriptorType_t operation;
      cudnnBackendAttributeName_t alpha, beta, conv, x, weight, y;
    };
    static constexpr std::array kNames = {
        Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
        Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
        Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
    const Names& names = kNames[static_cast<size_t>(c_.pass)];
    Maker operation(names.operation);
    replace(operation, names.alpha, names.beta);
    operation.set(names.conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, conv);
    operation.set(names.x, CUDNN_TYPE_BACKEND_DESCRIPTOR, x);
    operation.set(names.weight, CUDNN_TYPE_BACKEND_DESCRIPTOR, weight);
    operation.set(names.y, CUDNN_TYPE_BACKEND_DESCRIPTOR, y);
    return keep(operation);
  }

  cudnnBackendDescriptor_t add(cudnnBackendDescriptor_t sum, cudnnBackendDescriptor_t bias,
                               cudnnBackendDescriptor_t y) {
    Maker how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, wide_type(c_.dtype));
    const cudnnBackendDescriptor_t addition = keep(how);
    if (!addition) return nullptr;
    Maker operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  addition);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, sum);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, bias);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, y);
    return keep(operation);
  }

  cudnnHandle_t handle_;
  const DnnConv& c_;
  bool with_bias_;
  std::vector<BackendDesc> parts_;
};

/// Whether an engine with this note computes what is asked for, to the bit in each run. The header
/// does not say what "down-converted" inputs become, so nothing allows that.
bool is_allowed(const DnnConv& c, cudnnBackendNumericalNote_t note) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // f32 would be multiplied as TF32
      return c.dtype != DType::f32 || uses_tf32(c);
    case CUDNN_NUMERICAL_NOTE_FFT:  // see adds_products()
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return size_of(c.dtype) != 2;
    default:  // down-converted inputs, sums in less than f32, atomics, and what is not known
      return false;
  }
}

/// The numbers of an engine's configuration; nothing where it is not allowed.
std::optional<std::string> name_of(const DnnConv& c, const BackendDesc& config) {
  constexpr int64_t kMaxKnobs = 64;
  const auto engines =
      descriptors_of(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty()) return {};
  const auto notes = values_of<cudnnBackendNumericalNote_t, 32>(
      engines[0], CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
  if (!std::ranges::all_of(notes, [&](auto note) { return is_allowed(c, note); })) return {};
  std::string name = fmt::format(
      "{}", value_of<int64_t>(engines[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
  for (const BackendDesc& knob : descriptors_of(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMaxKnobs))
    name +=
        fmt::format(" {}={}",
                    static_cast<int>(value_of<cudnnBackendKnobType_t>(
                        knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)),
                    value_of<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64));
  return name;
}

void propose(cudnnHandle_t handle, const DnnConv& c, bool with_bias, std::vector<ConvPlan>& plans) {
  const auto graph = GraphOf(handle, c, with_bias).make();
  if (!graph) return;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B}) {
    Maker heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph->back());
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    const std::optional<BackendDesc> asked = heuristics.finish();
    if (!asked) continue;
    int kept = 0;
    for (BackendDesc& config : descriptors_of(*asked, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kAsked)) {
      const std::optional<std::string> numbers = name_of(c, config);
      if (!numbers) continue;
      std::string name = (with_bias ? "plan bias " : "plan ") + *numbers;
      if (std::ranges::find(plans, name, &ConvPlan::name) != plans.end()) continue;
      plans.emplace_back(graph, std::move(config), std::move(name), with_bias);
      if (++kept == kKept) break;
    }
  }
}

}  // namespace

ConvPlan::ConvPlan(std::shared_ptr<const std::vector<BackendDesc>> graph, BackendDesc config,
                   std::string name, bool adds_bias)
    : graph_(std::move(graph)),
      config_(std::move(config)),
      name_(std::move(name)),
      adds_bias_(adds_bias) {}

bool ConvPlan::make(cudnnHandle_t handle, size_t most) {
  if (std::exchange(tried_, true)) return plan_ != nullptr;
  Maker maker(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  maker.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  maker.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_);
  std::optional<BackendDesc> made = maker.finish();
  if (!made) return false;
  const auto bytes =
      value_of<int64_t>(*made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
  if (bytes < 0 || static_cast<size_t>(bytes) > most) return false;
  workspace_ = static_cast<size_t>(bytes);
  plan_ = std::move(*made);
  return true;
}

bool ConvPlan::queue(cudnnHandle_t handle, const DnnConv& c, void* weight, void* room) const {
  std::vector<int64_t> ids{kX, kWeight, kY};
  std::vector<void*> data{c.x, weight, c.y};
  if (adds_bias_) {
    ids.push_back(kBias);
    data.push_back(const_cast<void*>(c.bias));
  }
  Maker pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const int64_t>(ids));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<void* const>(data));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, room);
  const std::optional<BackendDesc> finished = pack.finish();
  return finished && is_supported(library().execute_backend(handle, plan_.get(), finished->get()),
                                  "cudnnBackendExecute");
}

std::vector<ConvPlan> conv_plans(cudnnHandle_t handle, const DnnConv& c) {
  std::vector<ConvPlan> plans;
  try {
    if (can_fuse_bias(c)) propose(handle, c, true, plans);
    propose(handle, c, false, plans);
  } catch (const DeviceError& error) {
    raise_if_lost("asking for execution plans");
    (void)cudaGetLastError();
    plans.clear();
    static std::once_flag warned;
    std::call_once(warned, [&] {
      warn(fmt::format("{}: convolutions do without cuDNN's execution plans where it fails so",
                       error.what()));
    });
  }
  return plans;
}

}  // namespace brim::cuda::dnn

#endif
