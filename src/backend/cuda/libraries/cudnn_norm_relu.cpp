// Batch normalisation in training, with a residual and a ReLU behind it, as graphs of cuDNN's
// backend API. Running statistics are no part of the graph, as it is not said which variance they
// take. Of the gradient cuDNN 9.19 has plans, too, but on an H100 all of them read or write where
// they may not, so brim's own kernel computes it.
#if BRIM_HAVE_CUDNN
#include <array>
#include <cstdint>
#include <vector>

#include "backend/cuda/libraries/cudnn_graph.h"
#include "backend/cuda/libraries/cudnn_handle.h"
#include "backend/cuda/libraries/cudnn_tensor.h"
#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/libraries/open.h"

namespace brim::cuda {
namespace {

using namespace dnn;
using Place = GraphBuilder::Place;
using Binding = ExecutionPlan::Binding;

struct NormPlans {
  std::vector<ExecutionPlan> engines;

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const ExecutionPlan& engine : engines) all.push_back(engine.name());
    return all;
  }
  /// False where the engine cannot do it after all.
  bool queue(cudnnHandle_t handle, const Context& context, size_t way,
             std::span<const Binding> tensors) {
    ExecutionPlan& engine = engines[way];
    if (!engine.make(handle)) return false;
    const Workspace scratch = context.workspace(std::max<size_t>(engine.workspace(), 1));
    return engine.queue(handle, tensors, scratch.as<void>());
  }
};

/// The tensors of `b`.
class NormGraph : public GraphBuilder {
 public:
  NormGraph(cudnnHandle_t handle, const DnnBatchNorm& b)
      : GraphBuilder(handle, b.dtype, b.nhwc), b_(b) {}

  Desc activation(int64_t id, Place place = Place::memory) {
    return tensor(id, shape(), type_of(b_.dtype), place);
  }
  Desc inner(int64_t id, cudnnDataType_t type) { return tensor(id, shape(), type, Place::inner); }
  Desc parameter(int64_t id) { return tensor(id, {1, b_.c, 1, 1}, type_of(b_.parameters)); }
  Desc value(int64_t id, cudnnDataType_t type) {
    return tensor(id, {1, 1, 1, 1}, type, Place::value);
  }

 private:
  Shape shape() const { return {b_.n, b_.c, b_.pixels, 1}; }
  const DnnBatchNorm& b_;
};

enum ForwardId : int64_t {
  kForwardX = 1,
  kForwardWeight,
  kForwardBias,
  kForwardEps,
  kForwardMean,
  kForwardScale,
  kForwardResidual,
  kForwardY,
  kForwardNormal,
  kForwardSum
};

std::shared_ptr<const Graph> forward_graph(cudnnHandle_t handle, const DnnBatchNorm& b) {
  NormGraph g(handle, b);
  const auto wide = wide_type(b.dtype);
  const auto x = g.activation(kForwardX), y = g.activation(kForwardY),
             residual = g.activation(kForwardResidual), weight = g.parameter(kForwardWeight),
             bias = g.parameter(kForwardBias), mean = g.parameter(kForwardMean),
             scale = g.parameter(kForwardScale), eps = g.value(kForwardEps, wide),
             normal = g.inner(kForwardNormal, wide), sum = g.inner(kForwardSum, wide);
  if (!g.is_possible()) return nullptr;
  DescriptorBuilder norm(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, weight);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, eps);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, scale);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, normal);
  g.add(norm);
  g.add(CUDNN_POINTWISE_ADD, normal, residual, sum);
  g.add(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y);
  return g.finish();
}

NormPlans plans_of(const std::shared_ptr<const Graph>& graph) {
  NormPlans plans;
  // No note that such engines have changes numbers in a way that brim allows.
  const auto is_allowed = [](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  };
  propose(graph, "plan", is_allowed, plans.engines);
  return plans;
}

/// Whether cuDNN, which counts in int, may be asked.
bool may_plan(const DnnBatchNorm& b) {
  const int64_t elements = b.n * b.c * b.pixels;
  return elements >= small_work() && elements > 0 && elements <= INT32_MAX &&
         library().problem().empty();  // own kernels do not need it
}

}  // namespace

bool dnn_batch_norm_relu(const Context& context, const DnnBatchNormRelu& fused, const Work& own) {
  const DnnBatchNorm& b = fused.norm;
  if (!may_plan(b)) return false;
  static auto* const all = new Problems<7, NormPlans>;
  const std::array outputs{Output{b.mean, b.c, b.parameters}, Output{b.scale, b.c, b.parameters},
                           Output{b.y, b.n * b.c * b.pixels, b.dtype}};
  const auto eps = static_cast<float>(b.eps);
  const std::array tensors{
      Binding{kForwardX, b.x},
      Binding{kForwardWeight, b.weight},
      Binding{kForwardBias, b.bias},
      Binding{kForwardEps, b.dtype == DType::f64 ? static_cast<const void*>(&b.eps) : &eps},
      Binding{kForwardMean, b.mean},
      Binding{kForwardScale, b.scale},
      Binding{kForwardResidual, fused.residual},
      Binding{kForwardY, b.y}};
  const auto queue = [&](cudnnHandle_t handle, const Context& at, NormPlans& plans, size_t way,
                         bool measured) {
    if (!plans.queue(handle, at, way, tensors)) return false;
    if (!b.running_mean) return true;
    if (!measured) {
      fused.update(at, b.running_mean, b.running_var);
      return true;
    }
    // Of no use, but as much work.
    const auto bytes = static_cast<size_t>(b.c) * size_of(b.parameters);
    const Workspace mean = at.workspace(bytes), var = at.workspace(bytes);
    fused.update(at, mean.as<void>(), var.as<void>());
    return true;
  };
  return all->run(
      context, "batch_norm_relu",
      {context.device().index, static_cast<int64_t>(b.dtype), b.nhwc, b.n, b.c, b.pixels,
       b.running_mean != nullptr},
      outputs,
      [&](cudnnHandle_t handle) {
        return plans_or_none("normalisations", [&] { return plans_of(forward_graph(handle, b)); });
      },
      queue, own);
}

}  // namespace brim::cuda

#endif
