#include <brim/nn/conv.h>

#include "nn/inference_form.h"
#include "nn/layer.h"

namespace brim::nn {
namespace {

int64_t least(Pair p) { return std::min(p.h, p.w); }

template <class Options>
const Options& checked(const char* layer, const Options& o) {
  check_in_or_inferred(layer, o.in);
  check_positive(layer, "out", o.out);
  check_positive(layer, "groups", o.groups);
  check_positive(layer, "kernel", least(o.kernel));
  check_positive(layer, "stride", least(o.stride));
  check_positive(layer, "dilation", least(o.dilation));
  BRIM_CHECK(least(o.padding) >= 0, ValueError, "[{}] padding is {}; it must be 0 or more", layer,
             pair_str(o.padding));
  BRIM_CHECK(o.in % o.groups == 0 && o.out % o.groups == 0, ValueError,
             "[{}] {} groups do not divide in = {} and out = {}", layer, o.groups, o.in, o.out);
  return o;
}

template <class Options>
std::string described(const Options& o, Pair output_padding = 0) {
  std::string text =
      fmt::format("in={}, out={}, kernel={}", in_str(o.in), o.out, pair_str(o.kernel));
  if (o.stride != 1) text += ", stride=" + pair_str(o.stride);
  if (o.padding != 0) text += ", padding=" + pair_str(o.padding);
  if (output_padding != 0) text += ", output_padding=" + pair_str(output_padding);
  if (o.dilation != 1) text += ", dilation=" + pair_str(o.dilation);
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  return text + (o.bias ? "" : ", bias=false");
}

void check_one_group(const char* what, const Conv2d::Options& o) {
  BRIM_CHECK(o.groups == 1, NotImplemented, "[{}] convolutions with {} groups are not implemented",
             what, o.groups);
}

Shape weight_shape(const Conv1d::Options& o) { return {o.out, o.in / o.groups, o.kernel}; }

Shape weight_shape(const Conv2d::Options& o) {
  return {o.out, o.in / o.groups, o.kernel.h, o.kernel.w};
}

Shape weight_shape(const ConvTranspose2d::Options& o) {
  return {o.in, o.out / o.groups, o.kernel.h, o.kernel.w};
}

/// Undefined until `in` is known, as is the bias.
template <class Options>
Tensor weight_of(const Options& o) {
  return o.in == 0 ? Tensor() : Tensor::empty(weight_shape(o), o.dtype, o.device);
}

template <class Options>
Tensor bias_of(const Options& o) {
  return o.in == 0 || !o.bias ? Tensor() : Tensor::empty({o.out}, o.dtype, o.device);
}

/// `layout`: what x must be, its channels as its second axis.
void check_channels_of(const char* layer, const Tensor& x, int rank, const char* layout) {
  BRIM_CHECK(x.rank() == rank && x.size(1) > 0, ShapeError,
             "[{}] x is {}; {} is expected, where C is inferred", layer, x.shape().str(), layout);
}

/// Makes weight and bias for the channels of x.
template <class Options>
void make_for_channels(const char* layer, const Tensor& x, const DeferredParameters& how,
                       Options& options, Tensor& weight, Tensor& bias) {
  const Options o = checked(layer, with_size(options, &Options::in, x.size(1), how));
  weight = weight_of(o);
  bias = bias_of(o);
  init_weight_and_bias(weight, bias);
  options = o;
}

}  // namespace

Conv2d::Conv2d(Options o)
    : weight(parameter("weight", weight_of(checked("Conv2d", o)))),
      bias(parameter("bias", bias_of(o))),
      options_(o) {
  if (o.in == 0)
    defer_parameters(where_of(o));
  else
    init_weight_and_bias(weight, bias);
}

Tensor Conv2d::forward(const Tensor& x) {
  if (deferred_parameters()) {
    check_channels_of("Conv2d", x, 4, "(N, C, H, W)");
    make_deferred([&](const DeferredParameters& how) {
      make_for_channels("Conv2d", x, how, options_, weight, bias);
    });
  }
  const Conv2dOptions how = convolution_of(options);
  const auto dense = [&](const Tensor& some) { return conv2d(some, weight, bias, how); };
  if (int8_ && int8_->serves(x, weight)) return int8_->conv2d(x, bias, how);
  if (!sparse_ || !sparse_->serves(x, weight)) return dense(x);
  const auto sparse = [&](const Tensor& some) {
    return sparse_conv2d(some, sparse_->weight(), bias, how);
  };
  return sparse_->is_faster(x, dense, sparse) ? sparse(x) : dense(x);
}

void Conv2d::replace(const Tensor& new_weight, const Tensor& new_bias) {
  const bool is_depthwise = options.groups == options.in && options.in == options.out;
  BRIM_CHECK(
      new_weight.rank() == 4 && new_weight.size(2) == options.kernel.h &&
          new_weight.size(3) == options.kernel.w && new_weight.numel() > 0 &&
          (is_depthwise ? new_weight.size(1) == 1 : new_weight.size(0) % options.groups == 0) &&
          is_bias_of(new_weight, bias, new_bias),
      ShapeError, "[Conv2d] {} is no weight to replace one of {}, or its bias is none",
      new_weight.shape().str(), weight.shape().str());
  use_dense();
  options_.out = new_weight.size(0);
  if (is_depthwise) options_.groups = options_.out;
  options_.in = new_weight.size(1) * options_.groups;
  weight = new_weight;
  bias = new_bias;
}

void Conv2d::use_sparse(SparseWeight w) {
  sparse_ = std::make_shared<SparseForm>(weight, std::move(w));
  int8_.reset();
}

void Conv2d::use_int8(Int8Weight w, QuantParams input) {
  check_one_group("use_int8", options);
  int8_ = std::make_shared<Int8Form>(weight, std::move(w), input);
  sparse_.reset();
}

void Conv2d::use_sparse_int8(SparseInt8Weight w, QuantParams input) {
  check_one_group("use_sparse_int8", options);
  int8_ = std::make_shared<Int8Form>(weight, std::move(w), input);
  sparse_.reset();
}

const Int8Weight* Conv2d::int8_weight() const { return int8_ ? &int8_->weight() : nullptr; }

void Conv2d::use_dense() {
  sparse_.reset();
  int8_.reset();
}

std::string Conv2d::options_str() const { return described(options) + form_str(int8_, sparse_); }

Conv1d::Conv1d(Options o)
    : weight(parameter("weight", weight_of(checked("Conv1d", o)))),
      bias(parameter("bias", bias_of(o))),
      options_(o) {
  if (o.in == 0)
    defer_parameters(where_of(o));
  else
    init_weight_and_bias(weight, bias);
}

Tensor Conv1d::forward(const Tensor& x) {
  if (deferred_parameters()) {
    check_channels_of("Conv1d", x, 3, "(N, C, L)");
    make_deferred([&](const DeferredParameters& how) {
      make_for_channels("Conv1d", x, how, options_, weight, bias);
    });
  }
  return conv1d(x, weight, bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups});
}

std::string Conv1d::options_str() const { return described(options); }

ConvTranspose2d::ConvTranspose2d(Options o)
    : weight(parameter("weight", weight_of(checked("ConvTranspose2d", o)))),
      bias(parameter("bias", bias_of(o))),
      options_(o) {
  const Pair more = o.output_padding;
  BRIM_CHECK(least(more) >= 0 && more.h < o.stride.h && more.w < o.stride.w, ValueError,
             "[ConvTranspose2d] output_padding is {}; it must be 0 or more, and below the stride",
             pair_str(more));
  if (o.in == 0)
    defer_parameters(where_of(o));
  else
    init_weight_and_bias(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  if (deferred_parameters()) {
    check_channels_of("ConvTranspose2d", x, 4, "(N, C, H, W)");
    make_deferred([&](const DeferredParameters& how) {
      make_for_channels("ConvTranspose2d", x, how, options_, weight, bias);
    });
  }
  return conv_transpose2d(x, weight, bias,
                          {.stride = options.stride,
                           .padding = options.padding,
                           .output_padding = options.output_padding,
                           .dilation = options.dilation,
                           .groups = options.groups});
}

std::string ConvTranspose2d::options_str() const {
  return described(options, options.output_padding);
}

}  // namespace brim::nn
