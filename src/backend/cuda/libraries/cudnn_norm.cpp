// Batch normalisation in training by cuDNN 9. Its mode is SPATIAL: SPATIAL_PERSISTENT may overflow
// where it adds in integers, as NVIDIA says.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_handle.h"
#include "backend/cuda/libraries/cudnn_tensor.h"
#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/libraries/open.h"

namespace brim::cuda {
namespace {

using namespace dnn;

struct NormOperation : OneWay {
  TensorDesc activations, parameters;
};
using Norms = Problems<6, NormOperation>;

template <class Norm>
NormOperation describe(const Norm& b) {
  return {{},
          tensor(b.dtype, {b.n, b.c, b.pixels, 1}, b.nhwc),
          tensor(b.parameters, {1, b.c, 1, 1}, false)};
}

template <class Norm>
Norms::Key key_of(const Context& context, const Norm& b) {
  return {context.device().index, static_cast<int64_t>(b.dtype), b.nhwc, b.n, b.c, b.pixels};
}

/// Whether cuDNN, which counts in int, may be asked.
template <class Norm>
bool may_ask(const Norm& b) {
  const int64_t elements = b.n * b.c * b.pixels;
  return elements >= small_work() && elements > 0 && elements <= INT32_MAX &&
         library().problem().empty();  // own kernels do not need it
}

}  // namespace

bool dnn_batch_norm(const Context& context, const DnnBatchNorm& b, const Work& own) {
  if (!may_ask(b) || b.eps < CUDNN_BN_MIN_EPSILON) return false;
  static auto* const all = new Norms;
  const char* const call = "cudnnBatchNormalizationForwardTraining";
  const std::array outputs{Output{b.mean, b.c, b.parameters}, Output{b.scale, b.c, b.parameters},
                           Output{b.y, b.n * b.c * b.pixels, b.dtype}};
  return all->run(
      context, call, key_of(context, b), outputs, [&](cudnnHandle_t) { return describe(b); },
      [&](cudnnHandle_t handle, const Context&, const NormOperation& r, size_t, bool measured) {
        return is_supported(
            library().batch_norm(handle, CUDNN_BATCHNORM_SPATIAL, one(b.dtype), zero(b.dtype),
                                 r.activations.get(), b.x, r.activations.get(), b.y,
                                 r.parameters.get(), b.weight, b.bias, b.momentum,
                                 measured ? nullptr : b.running_mean,
                                 measured ? nullptr : b.running_var, b.eps, b.mean, b.scale),
            call);
      },
      own);
}

bool dnn_batch_norm_grad(const Context& context, const DnnBatchNormGrad& b, const Work& own) {
  if (!may_ask(b)) return false;
  static auto* const all = new Norms;
  const char* const call = "cudnnBatchNormalizationBackward";
  // One of them may be nothing but rounding, as dbias is where dy's sums are 0.
  const std::array outputs{Output{b.dweight, b.c, b.parameters, true},
                           Output{b.dbias, b.c, b.parameters},
                           Output{b.dx, b.n * b.c * b.pixels, b.dtype}};
  return all->run(
      context, call, key_of(context, b), outputs, [&](cudnnHandle_t) { return describe(b); },
      [&](cudnnHandle_t handle, const Context&, const NormOperation& r, size_t, bool) {
        // 1 / sqrt(variance + eps) is handed over, so eps has no say any more.
        return is_supported(
            library().batch_norm_grad(handle, CUDNN_BATCHNORM_SPATIAL, one(b.dtype), zero(b.dtype),
                                      one(b.dtype), zero(b.dtype), r.activations.get(), b.x,
                                      r.activations.get(), b.dy, r.activations.get(), b.dx,
                                      r.parameters.get(), b.weight, b.dweight, b.dbias,
                                      CUDNN_BN_MIN_EPSILON, b.mean, b.scale),
            call);
      },
      own);
}

}  // namespace brim::cuda

#endif
