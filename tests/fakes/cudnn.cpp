// A fake of libcudnn.so.9. The signatures and numbers are those of NVIDIA's headers.
#include <cudnn.h>

#include <array>
#include <utility>
#include <vector>

#include "fakes/fake.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type{};
  std::array<int64_t, 4> size{}, stride{};

  int64_t last() const {
    int64_t at = 1;
    for (size_t i = 0; i < 4; ++i) at += (size[i] - 1) * stride[i];
    return at;
  }
  int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
  }
};
struct cudnnFilterStruct : cudnnTensorStruct {
  cudnnTensorFormat_t format{};
};
struct cudnnConvolutionStruct {
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  cudnnConvolutionMode_t mode{};
  cudnnDataType_t compute{};
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

using namespace brim::fake;
using Tensor = cudnnTensorStruct;
using Filter = cudnnFilterStruct;
using Conv = cudnnConvolutionStruct;

Elements elements(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return Elements::of<float>();
    case CUDNN_DATA_DOUBLE:
      return Elements::of<double>();
    case CUDNN_DATA_HALF:
      return Elements::of<brim::Half>();
    case CUDNN_DATA_BFLOAT16:
      return Elements::of<brim::BFloat16>();
    default:
      return {};
  }
}

cudnnStatus_t bad(const char* call, const std::string& why) {
  (void)wrong(call, why);
  return CUDNN_STATUS_BAD_PARAM;
}

/// Whether the description makes sense; says what does not.
bool fits(const char* call, const Tensor& x, const Filter& w, const Conv& c, const Tensor& y) {
  if (x.type != w.type || x.type != y.type || !elements(x.type).load) return wrong(call, "types");
  if (c.compute != (x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return wrong(call, "compute type");
  if (c.mode != CUDNN_CROSS_CORRELATION) return wrong(call, "the kernel is turned");
  if (c.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return wrong(call, "f32 would become f16");
  if (c.groups < 1 || x.size[1] != w.size[1] * c.groups || w.size[0] % c.groups != 0)
    return wrong(call, "groups and channels");
  const auto out = [](int64_t n, int64_t pad, int64_t k, int64_t dilation, int64_t stride) {
    return (n + 2 * pad - (dilation * (k - 1) + 1)) / stride + 1;
  };
  const std::array<int64_t, 4> want{x.size[0], w.size[0],
                                    out(x.size[2], c.pad_h, w.size[2], c.dilation_h, c.stride_h),
                                    out(x.size[3], c.pad_w, w.size[3], c.dilation_w, c.stride_w)};
  if (y.size != want) return wrong(call, "the result's size");
  const bool nhwc = w.format == CUDNN_TENSOR_NHWC;
  for (const Tensor* t : {&x, &y}) {
    const auto [n, ch, h, width] = t->size;
    const auto pixels = std::array<int64_t, 4>{h * width * ch, 1, width * ch, ch};
    const auto planes = std::array<int64_t, 4>{ch * h * width, h * width, width, 1};
    if (t->stride != (nhwc ? pixels : planes)) return wrong(call, "strides and filter format");
  }
  return true;
}

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
    {0, true, true, CUDNN_DEFAULT_MATH, 0, 3},
    {1, true, true, CUDNN_DEFAULT_MATH, 1 << 20, 1},
};
constexpr Kind kBackward[] = {
    {0, false, true, CUDNN_DEFAULT_MATH, 0, 0.1},
    {3, false, true, CUDNN_DEFAULT_MATH, 0, 0.1},
    {5, true, true, CUDNN_DEFAULT_MATH, 64, 3},
    {1, true, true, CUDNN_DEFAULT_MATH, 1 << 18, 1},
};

template <class Perf, class Kinds>
cudnnStatus_t propose(const char* call, bool ok, const Kinds& kinds, const Conv& conv, int most,
                      int* count, Perf* all) {
  *count = 0;
  if (!ok) return CUDNN_STATUS_BAD_PARAM;
  if (wanted("no-algorithm")) return CUDNN_STATUS_NOT_SUPPORTED;
  note(std::string(call) + " math " + std::to_string(conv.math));
  for (const Kind& kind : kinds) {
    if (*count == most) break;
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
  if (!kind || !kind->supported) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = kind->workspace;
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
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!handle || !handle->stream) return bad(call, "no handle or stream");
  if (!fits(call, *x.desc, static_cast<const Filter&>(*w.desc), conv, *y.desc))
    return CUDNN_STATUS_BAD_PARAM;
  const bool is_double = x.desc->type == CUDNN_DATA_DOUBLE;
  const auto scale = [&](const void* number_at) {
    return is_double ? *static_cast<const double*>(number_at)
                     : static_cast<double>(*static_cast<const float*>(number_at));
  };
  if (scale(alpha) != 1 || scale(beta) != 0) return bad(call, "alpha or beta");
  const Kind* kind = find(kinds, number);
  if (!kind || !kind->supported) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!kind->deterministic) return bad(call, "its result does not repeat itself");
  if (bytes < kind->workspace) return bad(call, "size of the workspace");
  if (bytes > 0 && !is_memory(workspace, static_cast<int64_t>(bytes)))
    return bad(call, "workspace");
  const int64_t size = elements(x.desc->type).size;
  for (const Part& part : {x, w, y})
    if (!is_memory(part.data, part.desc->last() * size) || !is_aligned(part.data, size))
      return bad(call, "a tensor leaves its memory");
  note(std::string(call) + " type " + std::to_string(x.desc->type) + " math " +
       std::to_string(conv.math) + " algorithm " + std::to_string(number) +
       (static_cast<const Filter&>(*w.desc).format == CUDNN_TENSOR_NHWC ? " nhwc" : " nchw"));
  machine->spend(kind->milliseconds - 5);  // a launch costs 5
  machine->submit([=, x = *x.desc, w = static_cast<const Filter&>(*w.desc), y = *y.desc] {
    compute(x, w, conv, y);
  });
  return CUDNN_STATUS_SUCCESS;
}

/// As the units of `conv` multiply.
double product(const Conv& conv, cudnnDataType_t type, double a, double b) {
  if (type == CUDNN_DATA_FLOAT && conv.math != CUDNN_FMA_MATH) return to_tf32(a) * to_tf32(b);
  return a * b;
}

/// Calls f(place in x, in w, in y) for all that meet.
template <class F>
void for_all(const Tensor& x, const Filter& w, const Conv& c, const Tensor& y, const F& f) {
  const int64_t of_group = y.size[1] / c.groups;
  for (int64_t n = 0; n < y.size[0]; ++n)
    for (int64_t o = 0; o < y.size[1]; ++o)
      for (int64_t oy = 0; oy < y.size[2]; ++oy)
        for (int64_t ox = 0; ox < y.size[3]; ++ox)
          for (int64_t i = 0; i < w.size[1]; ++i)
            for (int64_t ky = 0; ky < w.size[2]; ++ky)
              for (int64_t kx = 0; kx < w.size[3]; ++kx) {
                const int64_t iy = oy * c.stride_h - c.pad_h + ky * c.dilation_h;
                const int64_t ix = ox * c.stride_w - c.pad_w + kx * c.dilation_w;
                if (iy < 0 || ix < 0 || iy >= x.size[2] || ix >= x.size[3]) continue;
                f(x.at(n, o / of_group * w.size[1] + i, iy, ix), w.at(o, i, ky, kx),
                  y.at(n, o, oy, ox));
              }
}

/// Sums in double, stored as `to`'s elements; all of it is written.
struct Sums {
  std::vector<double> of;
  explicit Sums(const Tensor& to) : of(static_cast<size_t>(to.last())) {}
  double& operator[](int64_t at) { return of[static_cast<size_t>(at)]; }
  void store(cudnnDataType_t type, void* data) const {
    for (size_t i = 0; i < of.size(); ++i)
      elements(type).store(data, static_cast<int64_t>(i), of[i]);
  }
};

}  // namespace

size_t cudnnGetVersion() { return wanted("old") ? 8907 : 91900; }
size_t cudnnGetCudartVersion() { return wanted("mismatched") ? 12090 : 13000; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                 : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "the fake says so");
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (machine->is_captured()) return bad("cudnnCreate", "in a capture");
  note("create");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  *made = new Tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n,
                                           int c, int h, int w, int sn, int sc, int sh, int sw) {
  *d = {type, {n, c, h, w}, {sn, sc, sh, sw}};
  return n > 0 && c > 0 && h > 0 && w > 0 ? CUDNN_STATUS_SUCCESS
                                          : bad("cudnnSetTensor4dDescriptorEx", "a size is 0");
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  *made = new Filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  d->type = type;
  d->format = format;
  d->size = {k, c, h, w};
  if (format == CUDNN_TENSOR_NHWC)
    d->stride = {int64_t{h} * w * c, 1, int64_t{w} * c, c};
  else
    d->stride = {int64_t{c} * h * w, int64_t{h} * w, w, 1};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  *made = new Conv;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
                                              int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  *d = {pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  d->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}

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

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void*,
                                   const cudnnTensorDescriptor_t x_desc, const void* x, const void*,
                                   const cudnnTensorDescriptor_t y_desc, void* y) {
  const char* const call = "cudnnTransformTensor";
  const Tensor from = *x_desc, to = *y_desc;
  if (from.type != to.type || from.size != to.size) return bad(call, "tensors differ");
  const Elements e = elements(from.type);
  if (!handle->stream || !is_memory(x, from.last() * e.size) || !is_memory(y, to.last() * e.size))
    return bad(call, "memory");
  machine->submit([=] {
    for (int64_t n = 0; n < to.size[0]; ++n)
      for (int64_t c = 0; c < to.size[1]; ++c)
        for (int64_t h = 0; h < to.size[2]; ++h)
          for (int64_t w = 0; w < to.size[3]; ++w)
            e.store(y, to.at(n, c, h, w), e.load(x, from.at(n, c, h, w)));
  });
  machine->spend(-5);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void*,
                             const cudnnTensorDescriptor_t a_desc, const void* a, const void*,
                             const cudnnTensorDescriptor_t y_desc, void* y) {
  const char* const call = "cudnnAddTensor";
  const Tensor from = *a_desc, to = *y_desc;
  if (from.type != to.type || from.size != std::array<int64_t, 4>{1, to.size[1], 1, 1})
    return bad(call, "not one number for each channel");
  const Elements e = elements(from.type);
  if (!handle->stream || !is_memory(a, from.last() * e.size) || !is_memory(y, to.last() * e.size))
    return bad(call, "memory");
  machine->submit([=] {
    for (int64_t n = 0; n < to.size[0]; ++n)
      for (int64_t c = 0; c < to.size[1]; ++c)
        for (int64_t h = 0; h < to.size[2]; ++h)
          for (int64_t w = 0; w < to.size[3]; ++w) {
            const int64_t at = to.at(n, c, h, w);
            e.store(y, at, e.load(y, at) + e.load(a, from.at(0, c, 0, 0)));
          }
  });
  machine->spend(-5);
  return CUDNN_STATUS_SUCCESS;
}
