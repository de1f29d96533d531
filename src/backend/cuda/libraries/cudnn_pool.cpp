// Average pooling by cuDNN 9.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_handle.h"
#include "backend/cuda/libraries/cudnn_tensor.h"
#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/libraries/open.h"

namespace brim::cuda {
namespace {

using namespace dnn;
using backend::PoolGeometry;

struct PoolOperation : OneWay {
  TensorDesc x, y;
  PoolingDesc pooling;
};

PoolOperation describe(const DnnAvgPool& p) {
  const PoolGeometry& g = p.geometry;
  const auto number = [](int64_t v) { return static_cast<int>(v); };
  cudnnPoolingDescriptor_t made = nullptr;
  check(library().create_pooling(&made), "cudnnCreatePoolingDescriptor");
  PoolingDesc pooling(made);
  check(library().set_pooling(made,
                              g.count_include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                                  : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
                              CUDNN_PROPAGATE_NAN, number(g.kernel.h), number(g.kernel.w),
                              number(g.padding.h), number(g.padding.w), number(g.stride.h),
                              number(g.stride.w)),
        "cudnnSetPooling2dDescriptor");
  return {{},
          tensor(p.dtype, {g.n, g.c, g.h, g.w}, p.nhwc),
          tensor(p.dtype, {g.n, g.c, g.oh, g.ow}, p.nhwc),
          std::move(pooling)};
}

}  // namespace

bool dnn_avg_pool(const Context& context, const DnnAvgPool& p, const Work& own) {
  const PoolGeometry& g = p.geometry;
  const int64_t elements = g.n * g.c * g.h * g.w, results = g.n * g.c * g.oh * g.ow;
  if (elements < small_work() || !are_ints({elements, results, g.kernel.h, g.kernel.w, g.stride.h,
                                            g.stride.w, g.padding.h, g.padding.w}))
    return false;
  if (!library().problem().empty()) return false;  // own kernels do not need it
  static auto* const all = new Problems<16, PoolOperation>;
  const char* const call = "cudnnPoolingForward";
  const std::array outputs{Output{p.y, results, p.dtype}};
  return all->run(
      context, call,
      {context.device().index, static_cast<int64_t>(p.dtype), p.nhwc, g.count_include_pad, g.n, g.c,
       g.h, g.w, g.oh, g.ow, g.kernel.h, g.kernel.w, g.stride.h, g.stride.w, g.padding.h,
       g.padding.w},
      outputs, [&](cudnnHandle_t) { return describe(p); },
      [&](cudnnHandle_t handle, const Context&, const PoolOperation& r, size_t, bool) {
        return is_supported(library().pool(handle, r.pooling.get(), one(p.dtype), r.x.get(), p.x,
                                           zero(p.dtype), r.y.get(), p.y),
                            call);
      },
      own);
}

}  // namespace brim::cuda

#endif
