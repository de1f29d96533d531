// Convolutions by cuDNN 9. Its heuristics choose the algorithm, among those whose results repeat
// themselves: measured choices would differ from run to run, and so would the results' last bits.
#include "backend/cuda/libraries/dnn.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/cuda/libraries/dynamic_library.h"
#include "backend/cuda/runtime.h"
#include "core/check.h"

namespace brim::cuda {
namespace {

using backend::ConvGeometry;

/// The functions used here.
struct Library : DynamicLibrary {
  Library() : DynamicLibrary("libcudnn.so." + std::to_string(CUDNN_MAJOR)) {}
  decltype(&cudnnCreate) create = find("cudnnCreate");
  decltype(&cudnnSetStream) set_stream = find("cudnnSetStream");
  decltype(&cudnnGetErrorString) error_string = find("cudnnGetErrorString");
  decltype(&cudnnCreateTensorDescriptor) create_tensor = find("cudnnCreateTensorDescriptor");
  decltype(&cudnnSetTensor4dDescriptorEx) set_tensor = find("cudnnSetTensor4dDescriptorEx");
  decltype(&cudnnCreateFilterDescriptor) create_filter = find("cudnnCreateFilterDescriptor");
  decltype(&cudnnSetFilter4dDescriptor) set_filter = find("cudnnSetFilter4dDescriptor");
  decltype(&cudnnCreateConvolutionDescriptor) create_conv =
      find("cudnnCreateConvolutionDescriptor");
  decltype(&cudnnSetConvolution2dDescriptor) set_conv = find("cudnnSetConvolution2dDescriptor");
  decltype(&cudnnSetConvolutionGroupCount) set_groups = find("cudnnSetConvolutionGroupCount");
  decltype(&cudnnSetConvolutionMathType) set_math = find("cudnnSetConvolutionMathType");
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithm =
      find("cudnnGetConvolutionForwardAlgorithm_v7");
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) grad_x_algorithm =
      find("cudnnGetConvolutionBackwardDataAlgorithm_v7");
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) grad_weight_algorithm =
      find("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  decltype(&cudnnConvolutionForward) forward = find("cudnnConvolutionForward");
  decltype(&cudnnConvolutionBackwardData) grad_x = find("cudnnConvolutionBackwardData");
  decltype(&cudnnConvolutionBackwardFilter) grad_weight = find("cudnnConvolutionBackwardFilter");
  decltype(&cudnnTransformTensor) transform = find("cudnnTransformTensor");
  decltype(&cudnnAddTensor) add = find("cudnnAddTensor");
};

const Library& library() {
  static const Library dnn;
  return dnn;
}

void check(cudnnStatus_t result, const char* call) {
  if (result != CUDNN_STATUS_SUCCESS) [[unlikely]]
    raise<DeviceError>("[cuda] cuDNN: {} failed: {}", call, library().error_string(result));
}
/// False where cuDNN does not support what was asked for.
bool is_supported(cudnnStatus_t result, const char* call) {
  if (result / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) return false;
  check(result, call);
  return true;
}
#define BRIM_CUDNN(name, ...) check(library().name(__VA_ARGS__), #name)

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

constexpr size_t kMostWorkspace = size_t{512} << 20;

/// How a convolution is computed; kept for ever.
struct Recipe {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnTensorDescriptor_t weight_given = nullptr, weight_used = nullptr;  // row-major and nhwc
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  int algorithm = 0;
  size_t workspace = 0;
  bool possible = false;
};

using Key = std::array<int64_t, 17>;
Key key_of(const DnnConv& c) {
  const ConvGeometry& g = c.geometry;
  return {static_cast<int64_t>(c.pass),
          static_cast<int64_t>(c.dtype),
          c.nhwc,
          g.n,
          g.c,
          g.h,
          g.w,
          g.o,
          g.kh,
          g.kw,
          g.stride.h,
          g.stride.w,
          g.padding.h,
          g.padding.w,
          g.dilation.h,
          g.dilation.w,
          g.groups};
}

cudnnTensorDescriptor_t tensor(DType dtype, const Shape& s, bool nhwc) {
  cudnnTensorDescriptor_t result = nullptr;
  BRIM_CUDNN(create_tensor, &result);
  const auto n = static_cast<int>(s[0]), c = static_cast<int>(s[1]), h = static_cast<int>(s[2]),
             w = static_cast<int>(s[3]);
  if (nhwc)
    BRIM_CUDNN(set_tensor, result, type_of(dtype), n, c, h, w, h * w * c, 1, w * c, c);
  else
    BRIM_CUDNN(set_tensor, result, type_of(dtype), n, c, h, w, c * h * w, h * w, w, 1);
  return result;
}

/// The first of the heuristics' proposals, best first, that is usable.
template <class Perf>
void choose(const std::array<Perf, 8>& proposals, int count, DType dtype, Recipe& recipe) {
  for (int i = 0; i < count && !recipe.possible; ++i) {
    const Perf& p = proposals[static_cast<size_t>(i)];
    // Tensor cores are for 16 bits: f32 would be rounded to TF32.
    const bool on_tensor_cores = p.mathType != CUDNN_FMA_MATH && p.mathType != CUDNN_DEFAULT_MATH;
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC ||
        (on_tensor_cores && size_of(dtype) != 2) || p.memory > kMostWorkspace)
      continue;
    recipe.algorithm = static_cast<int>(p.algo);
    recipe.workspace = p.memory;
    recipe.possible = true;
    BRIM_CUDNN(set_math, recipe.conv, on_tensor_cores ? p.mathType : CUDNN_FMA_MATH);
  }
}

/// The library on one device.
class Dnn {
 public:
  explicit Dnn(int device) {
    const DeviceGuard guard(device);
    BRIM_CUDNN(create, &handle_);
  }

  bool run(const Context& context, const DnnConv& c) {
    // The handle has one stream: one convolution at a time is queued.
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(context.device().index);
    BRIM_CUDNN(set_stream, handle_, native(context.stream));
    auto [at, is_new] = recipes_.try_emplace(key_of(c));
    Recipe& recipe = at->second;
    if (is_new) recipe = find(c);
    // An algorithm that was proposed may still be refused.
    recipe.possible = recipe.possible && queue(context, c, recipe);
    if (!recipe.possible) return false;
    note_queued(context.device().index);
    return true;
  }

 private:
  Recipe find(const DnnConv& c) const {
    const ConvGeometry& g = c.geometry;
    const auto number = [](int64_t v) { return static_cast<int>(v); };
    Recipe r;
    r.x = tensor(c.dtype, g.x_shape(), c.nhwc);
    r.y = tensor(c.dtype, g.y_shape(), c.nhwc);
    r.bias = tensor(c.dtype, {1, g.o, 1, 1}, false);
    r.weight_given = tensor(c.dtype, g.weight_shape(), false);
    r.weight_used = tensor(c.dtype, g.weight_shape(), c.nhwc);
    BRIM_CUDNN(create_filter, &r.weight);
    BRIM_CUDNN(set_filter, r.weight, type_of(c.dtype),
               c.nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, number(g.o), number(g.c_per_group()),
               number(g.kh), number(g.kw));
    BRIM_CUDNN(create_conv, &r.conv);
    BRIM_CUDNN(set_conv, r.conv, number(g.padding.h), number(g.padding.w), number(g.stride.h),
               number(g.stride.w), number(g.dilation.h), number(g.dilation.w),
               CUDNN_CROSS_CORRELATION,
               c.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    BRIM_CUDNN(set_groups, r.conv, number(g.groups));
    BRIM_CUDNN(set_math, r.conv, size_of(c.dtype) == 2 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
    // A failure here says that the library cannot do it.
    int count = 0;
    if (c.pass == ConvPass::forward) {
      std::array<cudnnConvolutionFwdAlgoPerf_t, 8> all{};
      if (library().forward_algorithm(handle_, r.x, r.weight, r.conv, r.y, 8, &count, all.data()) ==
          CUDNN_STATUS_SUCCESS)
        choose(all, count, c.dtype, r);
    } else if (c.pass == ConvPass::grad_x) {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, 8> all{};
      if (library().grad_x_algorithm(handle_, r.weight, r.y, r.conv, r.x, 8, &count, all.data()) ==
          CUDNN_STATUS_SUCCESS)
        choose(all, count, c.dtype, r);
    } else {
      std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 8> all{};
      if (library().grad_weight_algorithm(handle_, r.x, r.y, r.conv, r.weight, 8, &count,
                                          all.data()) == CUDNN_STATUS_SUCCESS)
        choose(all, count, c.dtype, r);
    }
    return r;
  }

  /// False where cuDNN does not support it; what was queued by then is of no use, and no harm.
  bool queue(const Context& context, const DnnConv& c, const Recipe& r) const {
    const float numbers[2] = {0, 1};
    const double numbers64[2] = {0, 1};
    const auto number = [&](int i) -> const void* {
      if (c.dtype == DType::f64) return &numbers64[i];
      return &numbers[i];
    };
    const void *zero = number(0), *one = number(1);
    const Workspace room = context.workspace(std::max<size_t>(r.workspace, 1));
    // Activations in nhwc want their weights so, too.
    std::optional<Workspace> turned;
    void* weight = c.weight;
    if (c.nhwc) {
      const auto bytes = static_cast<size_t>(c.geometry.weight_shape().numel()) * size_of(c.dtype);
      turned.emplace(bytes, context.stream, context.scratch);
      weight = turned->as<void>();
      if (c.pass != ConvPass::grad_weight &&
          !is_supported(library().transform(handle_, one, r.weight_given, c.weight, zero,
                                            r.weight_used, weight),
                        "transform"))
        return false;
    }
    if (!is_supported(compute(c, r, weight, room.as<void>(), one, zero), "convolution"))
      return false;
    if (c.nhwc && c.pass == ConvPass::grad_weight)
      return is_supported(
          library().transform(handle_, one, r.weight_used, weight, zero, r.weight_given, c.weight),
          "transform");
    return !c.bias ||
           is_supported(library().add(handle_, one, r.bias, c.bias, one, r.y, c.y), "add");
  }

  cudnnStatus_t compute(const DnnConv& c, const Recipe& r, void* weight, void* room,
                        const void* one, const void* zero) const {
    switch (c.pass) {
      case ConvPass::forward:
        return library().forward(handle_, one, r.x, c.x, r.weight, weight, r.conv,
                                 static_cast<cudnnConvolutionFwdAlgo_t>(r.algorithm), room,
                                 r.workspace, zero, r.y, c.y);
      case ConvPass::grad_x:
        return library().grad_x(handle_, one, r.weight, weight, r.y, c.y, r.conv,
                                static_cast<cudnnConvolutionBwdDataAlgo_t>(r.algorithm), room,
                                r.workspace, zero, r.x, c.x);
      case ConvPass::grad_weight:
        return library().grad_weight(handle_, one, r.x, c.x, r.y, c.y, r.conv,
                                     static_cast<cudnnConvolutionBwdFilterAlgo_t>(r.algorithm),
                                     room, r.workspace, zero, r.weight, weight);
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
  }

  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, Recipe> recipes_;
};

/// Never destroyed: the driver may be gone before static objects are.
Dnn& dnn_of(int device) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Dnn>>;
  const std::lock_guard lock(mutex);
  auto& dnn = (*all)[device];
  if (!dnn) dnn = std::make_unique<Dnn>(device);
  return *dnn;
}

}  // namespace

bool dnn_conv(const Context& context, const DnnConv& conv) {
  const ConvGeometry& g = conv.geometry;
  // cuDNN counts in int.
  for (const Shape& shape : {g.x_shape(), g.weight_shape(), g.y_shape()})
    if (shape.numel() > INT32_MAX) return false;
  return library().is_there() && dnn_of(context.device().index).run(context, conv);
}

}  // namespace brim::cuda

#else

namespace brim::cuda {

// Built without cuDNN's headers.
bool dnn_conv(const Context&, const DnnConv&) { return false; }

}  // namespace brim::cuda

#endif
