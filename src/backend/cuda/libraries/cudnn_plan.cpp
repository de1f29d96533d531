// See cudnn_plan.h.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_plan.h"

#include <array>
#include <cstdint>
#include <span>

#include "backend/cuda/libraries/cudnn_operation.h"

namespace brim::cuda::dnn {
namespace {

enum Id : int64_t { kX = 1, kWeight, kY, kBias, kSum, kShifted };  // of tensors, in a graph

/// The graph of a convolution or its gradient, and of its epilogue.
class ConvGraph {
 public:
  ConvGraph(cudnnHandle_t handle, const DnnConv& c) : c_(c), builder_(handle, c.dtype, c.nhwc) {}

  /// Null where cuDNN does not support it.
  std::shared_ptr<const Graph> make(bool with_epilogue) {
    const ConvGeometry& g = c_.geometry;
    const bool has_bias = with_epilogue && c_.bias, has_relu = with_epilogue && c_.relu;
    const auto sums = [&](Id id, bool is_last) {
      return is_last ? outer(kY, g.y_shape())
                     : builder_.tensor(id, g.y_shape(), wide_type(c_.dtype), Place::inner);
    };
    const Desc x = outer(kX, g.x_shape()), weight = outer(kWeight, g.weight_shape());
    Desc y = sums(kSum, !has_bias && !has_relu);
    convolve(x, weight, y);
    if (has_bias) {
      const Desc bias = outer(kBias, {1, g.o, 1, 1}), shifted = sums(kShifted, !has_relu);
      builder_.add(CUDNN_POINTWISE_ADD, y, bias, shifted);
      y = shifted;
    }
    if (has_relu) builder_.add(CUDNN_POINTWISE_RELU_FWD, y, nullptr, sums(kY, true));
    return builder_.finish();
  }

 private:
  using Desc = GraphBuilder::Desc;
  using Place = GraphBuilder::Place;

  Desc outer(Id id, const Shape& shape) { return builder_.tensor(id, shape, type_of(c_.dtype)); }

  Desc convolution() {
    const ConvGeometry& g = c_.geometry;
    const auto pair = [](DescriptorBuilder& to, cudnnBackendAttributeName_t name, int64_t h,
                         int64_t w) {
      const std::array<int64_t, 2> both{h, w};
      to.set(name, CUDNN_TYPE_INT64, std::span<const int64_t>(both));
    };
    DescriptorBuilder conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, wide_type(c_.dtype));
    conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
    conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
    pair(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.padding.h, g.padding.w);
    pair(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.padding.h, g.padding.w);
    pair(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.stride.h, g.stride.w);
    pair(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, g.dilation.h, g.dilation.w);
    return builder_.keep(conv);
  }

  /// The factors of a result and of what stood there: 1 and 0.
  void replace(DescriptorBuilder& to, cudnnBackendAttributeName_t alpha,
               cudnnBackendAttributeName_t beta) {
    if (c_.dtype == DType::f64)
      to.set(alpha, CUDNN_TYPE_DOUBLE, 1.0).set(beta, CUDNN_TYPE_DOUBLE, 0.0);
    else
      to.set(alpha, CUDNN_TYPE_FLOAT, 1.0f).set(beta, CUDNN_TYPE_FLOAT, 0.0f);
  }

  void convolve(Desc x, Desc weight, Desc y) {
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
    const Desc conv = convolution();
    if (!builder_.is_possible()) return;
    const Names& names = kNames[static_cast<size_t>(c_.pass)];
    DescriptorBuilder operation(names.operation);
    replace(operation, names.alpha, names.beta);
    operation.set(names.conv, conv).set(names.x, x).set(names.weight, weight).set(names.y, y);
    builder_.add(operation);
  }

  const DnnConv& c_;
  GraphBuilder builder_;
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

void propose_for(cudnnHandle_t handle, const DnnConv& c, bool with_epilogue,
                 std::vector<ConvPlan>& plans) {
  std::string name = "plan";
  if (with_epilogue && c.bias) name += " bias";
  if (with_epilogue && c.relu) name += " relu";
  std::vector<ExecutionPlan> engines;
  propose(
      ConvGraph(handle, c).make(with_epilogue), name,
      [&](cudnnBackendNumericalNote_t note) { return is_allowed(c, note); }, engines);
  for (ExecutionPlan& engine : engines) plans.push_back({std::move(engine), with_epilogue});
}

}  // namespace

bool ConvPlan::queue(cudnnHandle_t handle, const DnnConv& c, void* weight, void* scratch) const {
  std::vector<ExecutionPlan::Binding> tensors{{kX, c.x}, {kWeight, weight}, {kY, c.y}};
  if (has_epilogue && c.bias) tensors.push_back({kBias, c.bias});
  return engine.queue(handle, tensors, scratch);
}

std::vector<ConvPlan> conv_plans(cudnnHandle_t handle, const DnnConv& c) {
  return plans_or_none("convolutions", [&] {
    std::vector<ConvPlan> plans;
    if (can_fuse_epilogue(c)) propose_for(handle, c, true, plans);
    propose_for(handle, c, false, plans);
    return plans;
  });
}

}  // namespace brim::cuda::dnn

#endif
