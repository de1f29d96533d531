// Unscaling gradients and moving the loss scale: what is decided stays on the device.
#include "backend/options/loss_scale.h"

#include <vector>

#include "backend/cuda/elementwise/list.cuh"

namespace brim::cuda {
namespace {

/// x / scale. Every thread that meets an infinity or NaN writes the same 1.
template <class T>
struct Unscale {
  T factor;
  float* found_inf;
  __device__ bool does_nothing() const { return false; }
  __device__ T operator()(T x) const {
    if (!(x - x == T(0))) *found_inf = 1;
    return x * factor;
  }
};
template <class T>
struct MakeUnscale {
  const float* scale;
  float* found_inf;
  __device__ Unscale<T> operator()() const {
    return {static_cast<T>(1.0 / static_cast<double>(*scale)), found_inf};
  }
};
/// The same for one tensor of any strides.
template <class T>
struct UnscaleOne {
  MakeUnscale<T> make;
  __device__ T operator()(T x) const { return make()(x); }
};

template <class T>
void unscale(const Context& context, std::span<Tensor> grads, const Tensor& scale,
             Tensor& found_inf) {
  const MakeUnscale<T> make{data<const float>(scale), data<float>(found_inf)};
  std::vector<Tensor> dense;
  for (Tensor& g : grads) {
    if (g.is_contiguous() || g.is_contiguous(MemoryFormat::nhwc))
      dense.push_back(g);
    else
      elementwise<T, T>(context, UnscaleOne<T>{make}, g, g);
  }
  in_lists<T>(dense, [&](const List<T>& list, int64_t) {
    launch(context, &list_kernel<T, MakeUnscale<T>>, grid_of(list), list, make);
  });
}

__global__ void update_kernel(const float* found_inf, float* scale, int32_t* good_steps,
                              backend::LossScaleRule rule) {
  begin_kernel();
  if (*found_inf != 0) {
    *scale *= static_cast<float>(rule.backoff);
    *good_steps = 0;
  } else if (++*good_steps >= rule.interval) {
    const float larger = *scale * static_cast<float>(rule.growth);
    if (larger - larger == 0.0f) *scale = larger;  // finite
    *good_steps = 0;
  }
}

void update(const Context& context, const Tensor& found_inf, Tensor& scale, Tensor& good_steps,
            const backend::LossScaleRule& rule) {
  launch(context, &update_kernel, Grid{dim3(1), dim3(1)}, data<const float>(found_inf),
         data<float>(scale), data<int32_t>(good_steps), rule);
}

constexpr DeviceKind kCuda = DeviceKind::cuda;
const bool registered =
    backend::register_kernel("list_unscale", kCuda, DType::f32, &unscale<float>) &&
    backend::register_kernel("list_unscale", kCuda, DType::f64, &unscale<double>) &&
    backend::register_kernel("update_loss_scale", kCuda, DType::f32, &update);

}  // namespace
}  // namespace brim::cuda
