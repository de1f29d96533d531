// Batch normalisation in training, with a residual and a ReLU behind it, as graphs of cuDNN's
// backend API. Of the gradient cuDNN 9 has a product with a mask, not CUDNN_POINTWISE_RELU_BWD: an
// infinity that the ReLU stops becomes NaN, and where y is NaN, nothing passes; brim's own kernel
// stops the one and lets the other pass. Running statistics are no part of the graph, as it is
// not said which variance they take.
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

/// What both directions have of `b`, a DnnBatchNorm or its gradient.
template <class Norm>
class NormGraph : public GraphBuilder {
 public:
  NormGraph(cudnnHandle_t handle, const Norm& b) : GraphBuilder(handle, b.dtype, b.nhwc), b_(b) {}

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
  const Norm& b_;
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

enum BackwardId : int64_t {
  kBackwardDy = 1,
  kBackwardY,
  kBackwardZero,
  kBackwardMask,
  kBackwardMasked,
  kBackwardX,
  kBackwardMean,
  kBackwardScale,
  kBackwardWeight,
  kBackwardDx,
  kBackwardDWeight,
  kBackwardDBias
};

std::shared_ptr<const Graph> backward_graph(cudnnHandle_t handle, const DnnBatchNormGrad& b,
                                            bool has_dresidual) {
  NormGraph g(handle, b);
  const auto dy = g.activation(kBackwardDy), y = g.activation(kBackwardY),
             zero = g.value(kBackwardZero, type_of(b.dtype)),
             mask = g.inner(kBackwardMask, CUDNN_DATA_BOOLEAN),
             masked = g.activation(kBackwardMasked, has_dresidual ? Place::memory : Place::inner),
             x = g.activation(kBackwardX), mean = g.parameter(kBackwardMean),
             scale = g.parameter(kBackwardScale), weight = g.parameter(kBackwardWeight),
             dx = g.activation(kBackwardDx), dweight = g.parameter(kBackwardDWeight),
             dbias = g.parameter(kBackwardDBias);
  g.add(CUDNN_POINTWISE_CMP_GT, y, zero, mask);
  g.add(CUDNN_POINTWISE_MUL, dy, mask, masked);
  if (!g.is_possible()) return nullptr;
  DescriptorBuilder norm(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, scale);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, masked);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, weight);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dweight);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbias);
  norm.set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
  g.add(norm);
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
template <class Norm>
bool may_plan(const Norm& b) {
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

bool dnn_batch_norm_relu_grad(const Context& context, const DnnBatchNormReluGrad& fused,
                              const Work& own) {
  const DnnBatchNormGrad& b = fused.norm;
  if (!may_plan(b)) return false;
  static auto* const all = new Problems<7, NormPlans>;
  // As in dnn_batch_norm_grad().
  const std::array outputs{Output{b.dweight, b.c, b.parameters, true},
                           Output{b.dbias, b.c, b.parameters},
                           Output{b.dx, b.n * b.c * b.pixels, b.dtype}};
  static constexpr double kNothing = 0;  // of any type
  std::vector<Binding> tensors{{kBackwardDy, b.dy},           {kBackwardY, fused.y},
                               {kBackwardZero, &kNothing},    {kBackwardX, b.x},
                               {kBackwardMean, b.mean},       {kBackwardScale, b.scale},
                               {kBackwardWeight, b.weight},   {kBackwardDx, b.dx},
                               {kBackwardDWeight, b.dweight}, {kBackwardDBias, b.dbias}};
  if (fused.dresidual) tensors.push_back({kBackwardMasked, fused.dresidual});
  return all->run(
      context, "batch_norm_relu_grad",
      {context.device().index, static_cast<int64_t>(b.dtype), b.nhwc, b.n, b.c, b.pixels,
       fused.dresidual != nullptr},
      outputs,
      [&](cudnnHandle_t handle) {
        return plans_or_none("gradients of normalisations", [&] {
          return plans_of(backward_graph(handle, b, fused.dresidual != nullptr));
        });
      },
      [&](cudnnHandle_t handle, const Context& at, NormPlans& plans, size_t way, bool) {
        return plans.queue(handle, at, way, tensors);
      },
      own);
}

}  // namespace brim::cuda

#endif
