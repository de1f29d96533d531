// See cudnn_graph.h.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_graph.h"

#include <brim/core/tensor.h>

#include <algorithm>
#include <array>

namespace brim::cuda::dnn {
namespace {

// Of each mode's proposals so many at max_count are looked at, and so many at max_count are kept.
// Most of those for f32 are for TF32: of the 37 that cuDNN 9.19 has for a 3 x 3 convolution of 32
// channels to 64 on an H100 that was described to it, six are not.
constexpr int64_t kAsked = 128;
constexpr int kKept = 4;

/// All values of an attribute, of at max_count kMax.
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
/// Descriptors that an attribute holds, at max_count `max_count`.
std::vector<BackendDesc> descriptors_of(const BackendDesc& from, cudnnBackendAttributeName_t name,
                                        cudnnBackendDescriptorType_t type, int64_t max_count) {
  std::vector<BackendDesc> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < max_count; ++i) {
    all.push_back(DescriptorBuilder(type).take());
    raw.push_back(all.back().get());
  }
  int64_t count = 0;
  if (!is_supported(library().get_backend(from.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          max_count, &count, raw.data()),
                    "cudnnBackendGetAttribute"))
    count = 0;
  all.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, max_count)));
  return all;
}

/// The numbers of an engine's configuration; nothing where it is not allowed.
std::optional<std::string> numbers_of(
    const BackendDesc& config, const std::function<bool(cudnnBackendNumericalNote_t)>& is_allowed) {
  constexpr int64_t kMaxKnobs = 64;
  const auto engines =
      descriptors_of(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty()) return {};
  const auto notes = values_of<cudnnBackendNumericalNote_t, 32>(
      engines[0], CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
  if (!std::ranges::all_of(notes, is_allowed)) return {};
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

}  // namespace

DescriptorBuilder::DescriptorBuilder(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check(library().create_backend(type, &made), "cudnnBackendCreateDescriptor");
  made_.reset(made);
}

std::optional<BackendDesc> DescriptorBuilder::finish() {
  const cudnnStatus_t result = library().finalize_backend(made_.get());
  if (CUDNN_STATUS_CATEGORY(result) == CUDNN_STATUS_BAD_PARAM ||
      !is_supported(result, "cudnnBackendFinalize"))
    return {};
  return std::move(made_);
}

GraphBuilder::Desc GraphBuilder::keep(DescriptorBuilder& maker) {
  std::optional<BackendDesc> made = maker.finish();
  is_possible_ = is_possible_ && made;
  if (!made) return nullptr;
  parts_.push_back(std::move(*made));
  return parts_.back().get();
}

GraphBuilder::Desc GraphBuilder::tensor(int64_t id, const Shape& shape, cudnnDataType_t type,
                                        Place place) {
  const Strides strides = strides_of(shape, nhwc_ ? MemoryFormat::nhwc : MemoryFormat::nchw);
  const std::array<int64_t, 4> sizes{shape[0], shape[1], shape[2], shape[3]},
      steps{strides[0], strides[1], strides[2], strides[3]};
  DescriptorBuilder t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(sizes));
  t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(steps));
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, place == Place::inner);
  if (place == Place::value) t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  return keep(t);
}

void GraphBuilder::add(DescriptorBuilder& operation) {
  if (const Desc made = keep(operation)) operations_.push_back(made);
}

void GraphBuilder::add(cudnnPointwiseMode_t mode, Desc x, Desc b, Desc y) {
  if (!is_possible_) return;
  DescriptorBuilder how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, wide_type(dtype_));
  if (mode == CUDNN_POINTWISE_RELU_FWD)
    how.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  const Desc function = keep(how);
  if (!function) return;
  DescriptorBuilder operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add(operation);
}

std::shared_ptr<const Graph> GraphBuilder::finish() {
  if (!is_possible_) return nullptr;
  DescriptorBuilder graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::span<const Desc>(operations_));
  if (!keep(graph)) return nullptr;
  return std::make_shared<const Graph>(std::move(parts_));
}

void propose(const std::shared_ptr<const Graph>& graph, const std::string& name,
             const std::function<bool(cudnnBackendNumericalNote_t)>& is_allowed,
             std::vector<ExecutionPlan>& plans) {
  if (!graph) return;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B}) {
    DescriptorBuilder heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph->back().get());
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    const std::optional<BackendDesc> asked = heuristics.finish();
    if (!asked) continue;
    int kept = 0;
    for (BackendDesc& config : descriptors_of(*asked, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kAsked)) {
      const std::optional<std::string> numbers = numbers_of(config, is_allowed);
      if (!numbers) continue;
      std::string full = name + " " + *numbers;
      if (std::ranges::find(plans, full, &ExecutionPlan::name) != plans.end()) continue;
      plans.emplace_back(graph, std::move(config), std::move(full));
      if (++kept == kKept) break;
    }
  }
}

bool ExecutionPlan::make(cudnnHandle_t handle) {
  if (std::exchange(tried_, true)) return plan_ != nullptr;
  DescriptorBuilder maker(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  maker.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  maker.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_.get());
  std::optional<BackendDesc> made = maker.finish();
  if (!made) return false;
  const auto bytes =
      value_of<int64_t>(*made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
  if (bytes < 0 || static_cast<size_t>(bytes) > kMaxWorkspace) return false;
  workspace_ = static_cast<size_t>(bytes);
  plan_ = std::move(*made);
  return true;
}

bool ExecutionPlan::queue(cudnnHandle_t handle, std::span<const Binding> tensors,
                          void* scratch) const {
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const Binding& tensor : tensors) {
    ids.push_back(tensor.id);
    data.push_back(const_cast<void*>(tensor.data));
  }
  DescriptorBuilder pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const int64_t>(ids));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<void* const>(data));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, scratch);
  const std::optional<BackendDesc> finished = pack.finish();
  return finished && is_supported(library().execute_backend(handle, plan_.get(), finished->get()),
                                  "cudnnBackendExecute");
}

}  // namespace brim::cuda::dnn

#endif
