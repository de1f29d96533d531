// A fake of libcudnn.so.9: convolutions. The signatures and numbers are those of NVIDIA's headers.
#include <utility>

#include "fakes/cudnn_conv.h"

namespace {

using namespace brim::fake;
using Tensor = cudnnTensorStruct;
using Filter = cudnnFilterStruct;
using Conv = cudnnConvolutionStruct;

/// The algorithms: their numbers in the three passes, what they need, how long they take.
struct Kind {
  int number;
  bool deterministic, supported;
  cudnnMathType_t math;  // DEFAULT: what the descriptor says
  size_t workspace;
  double milliseconds;
};
constexpr size_t kMany = size_t{1} << 40;
// Of forward 0 and 1 are both deterministic, backwards 0 adds with atomics.
constexpr Kind kForward[] = {
    {6, true, false, CUDNN_DEFAULT_MATH, 0, 0.1},
    {1, true, true, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 0, 0.1},
    {2, true, true, CUDNN_DEFAULT_MATH, kMany, 0.1},
    {0, true, true, CUDNN_DEFAULT_MATH, 0, 30},
    {1, true, true, CUDNN_DEFAULT_MATH, 1 << 20, 10},
    {7, true, true, CUDNN_DEFAULT_MATH, 0, 5},  // Winograd
};
constexpr Kind kBackward[] = {
    {0, false, true, CUDNN_DEFAULT_MATH, 0, 0.1}, {3, false, true, CUDNN_DEFAULT_MATH, 0, 0.1},
    {5, true, true, CUDNN_DEFAULT_MATH, 64, 30},  {1, true, true, CUDNN_DEFAULT_MATH, 1 << 18, 10},
    {4, true, true, CUDNN_DEFAULT_MATH, 0, 5},  // Winograd, both backwards
};

template <class Perf, class Kinds>
cudnnStatus_t propose(const char* call, bool ok, const Kinds& kinds, const Conv& conv, int most,
                      int* count, Perf* all) {
  *count = 0;
  if (!ok || wanted("heuristics-refuse")) return CUDNN_STATUS_BAD_PARAM;
  if (wanted("no-algorithm")) return CUDNN_STATUS_NOT_SUPPORTED;
  note(std::string(call) + " math " + std::to_string(conv.math));
  for (const Kind& kind : kinds) {
    if (*count == most) break;
    if (&kind == &std::end(kinds)[-1] && !wanted("winograd")) break;
    Perf& p = all[(*count)++];
    p = {};
    p.algo = static_cast<decltype(p.algo)>(kind.number);
    p.status = kind.supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    p.time = -1;
    p.memory = kind.workspace;
    p.determinism = kind.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    p.mathType = kind.math == CUDNN_DEFAULT_MATH ? conv.math : kind.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

/// The kind that an algorithm is run as: the last of its number.
template <class Kinds>
const Kind* find(const Kinds& kinds, int number) {
  const Kind* found = nullptr;
  for (const Kind& kind : kinds)
    if (kind.number == number) found = &kind;
  return found;
}

template <class Kinds>
cudnnStatus_t workspace_of(const Kinds& kinds, int number, size_t* bytes) {
  const Kind* kind = find(kinds, number);
  if (wanted("workspace-fails")) return CUDNN_STATUS_INTERNAL_ERROR;
  if (!kind || !kind->supported) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = number == 1 && wanted("1-needs-much") ? size_t{512} << 20 : kind->workspace;
  return CUDNN_STATUS_SUCCESS;
}

struct Part {
  const void* data;
  const Tensor* desc;
};

/// Checks a pass, then lets `compute` do it.
template <class Kinds, class F>
cudnnStatus_t run(const char* call, cudnnHandle_t handle, const Kinds& kinds, int number,
                  const void* alpha, const void* beta, void* workspace, size_t bytes, Part x,
                  Part w, const Conv& conv, Part y, const F& compute) {
  if (wanted(call) || (number == 1 && wanted("1-fails")) ||
      (number == 1 && wanted("1-fails-in-graphs") && machine->is_captured(handle->stream)))
    return CUDNN_STATUS_EXECUTION_FAILED;
  if (!handle || !handle->stream) return bad(call, "no handle or stream");
  if (!fits(call, *x.desc, static_cast<const Filter&>(*w.desc), conv, *y.desc))
    return CUDNN_STATUS_BAD_PARAM;
  if (!replaces(x.desc->type, alpha, beta)) return bad(call, "alpha or beta");
  const Kind* kind = find(kinds, number);
  if (!kind || !kind->supported) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!kind->deterministic) return bad(call, "its result does not repeat itself");
  if (bytes < kind->workspace) return bad(call, "size of the workspace");
  if (bytes > 0 && !is_memory(workspace, static_cast<int64_t>(bytes)))
    return bad(call, "workspace");
  for (const Part& part : {x, w, y})
    if (!is_tensor(part.data, *part.desc)) return bad(call, "a tensor leaves its memory");
  note(std::string(call) + " type " + std::to_string(x.desc->type) + " math " +
       std::to_string(conv.math) + " algorithm " + std::to_string(number) +
       (static_cast<const Filter&>(*w.desc).format == CUDNN_TENSOR_NHWC ? " nhwc" : " nchw"));
  machine->spend(handle->stream, kind->milliseconds - 50);  // a launch costs 50
  machine->submit(handle->stream, [=, x = *x.desc, w = static_cast<const Filter&>(*w.desc),
                                   y = *y.desc] { compute(x, w, conv, y); });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t c,
                                                     const cudnnTensorDescriptor_t y,
                                                     const int most, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* all) {
  return propose("forward", fits("forward", *x, *w, *c, *y), kForward, *c, most, count, all);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t x, const int most,
    int* count, cudnnConvolutionBwdDataAlgoPerf_t* all) {
  return propose("grad_x", fits("grad_x", *x, *w, *c, *y), kBackward, *c, most, count, all);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t w, const int most,
    int* count, cudnnConvolutionBwdFilterAlgoPerf_t* all) {
  return propose("grad_weight", fits("grad_weight", *x, *w, *c, *y), kBackward, *c, most, count,
                 all);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                      const cudnnFilterDescriptor_t,
                                                      const cudnnConvolutionDescriptor_t,
                                                      const cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algo,
                                                      size_t* bytes) {
  return workspace_of(kForward, algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t,
    cudnnConvolutionBwdDataAlgo_t algo, size_t* bytes) {
  return workspace_of(kBackward, algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t* bytes) {
  return workspace_of(kBackward, algo, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x_desc, const void* x,
                                      const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void* workspace, size_t bytes,
                                      const void* beta, const cudnnTensorDescriptor_t y_desc,
                                      void* y) {
  return run("cudnnConvolutionForward", handle, kForward, algo, alpha, beta, workspace, bytes,
             {x, x_desc}, {w, w_desc}, *conv, {y, y_desc},
             [=](const Tensor& tx, const Filter& tw, const Conv& c, const Tensor& ty) {
               const Elements e = elements(tx.type);
               Sums sums(ty);
               for_all(tx, tw, c, ty, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
                 sums[at_y] += product(c, tx.type, e.load(x, at_x), e.load(w, at_w));
               });
               sums.store(ty.type, y);
             });
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_desc, const void* w,
                                           const cudnnTensorDescriptor_t y_desc, const void* y,
                                           const cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                           size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t x_desc, void* x) {
  return run("cudnnConvolutionBackwardData", handle, kBackward, algo, alpha, beta, workspace, bytes,
             {x, x_desc}, {w, w_desc}, *conv, {y, y_desc},
             [=](const Tensor& tx, const Filter& tw, const Conv& c, const Tensor& ty) {
               const Elements e = elements(tx.type);
               Sums sums(tx);
               for_all(tx, tw, c, ty, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
                 sums[at_x] += product(c, tx.type, e.load(y, at_y), e.load(w, at_w));
               });
               sums.store(tx.type, x);
             });
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_desc, const void* x,
                                             const cudnnTensorDescriptor_t y_desc, const void* y,
                                             const cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t w_desc, void* w) {
  return run("cudnnConvolutionBackwardFilter", handle, kBackward, algo, alpha, beta, workspace,
             bytes, {x, x_desc}, {w, w_desc}, *conv, {y, y_desc},
             [=](const Tensor& tx, const Filter& tw, const Conv& c, const Tensor& ty) {
               const Elements e = elements(tx.type);
               Sums sums(tw);
               for_all(tx, tw, c, ty, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
                 sums[at_w] += product(c, tx.type, e.load(x, at_x), e.load(y, at_y));
               });
               sums.store(tw.type, w);
             });
}
