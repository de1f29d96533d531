// Unscaling gradients and moving the loss scale, on the CPU.
#include "backend/options/loss_scale.h"

#include <atomic>
#include <cmath>

#include "backend/cpu/elementwise/loop.h"

namespace brim::cpu {
namespace {

template <class T>
void unscale(const Context&, std::span<Tensor> grads, const Tensor& scale, Tensor& found_inf) {
  // The reciprocal of a power of two is exact.
  const T factor =
      static_cast<T>(1.0 / static_cast<double>(*static_cast<const float*>(scale.raw())));
  std::atomic<bool> overflow = false;
  for (Tensor& g : grads) {
    const Loop<1> loop = make_loop(g);
    T* const p = static_cast<T*>(g.raw());
    const int64_t step = loop.stride[0][0];
    for_each_row(loop, kElementwiseGrain, [&](const std::array<int64_t, 1>& at, int64_t n) {
      T* const row = p + at[0];
      T sum = 0;  // x - x is 0, or NaN where x is not finite
      for (int64_t i = 0; i < n; ++i) {
        T& x = row[i * step];
        sum += x - x;
        x *= factor;
      }
      if (sum != 0) overflow.store(true, std::memory_order_relaxed);
    });
  }
  if (overflow.load()) *static_cast<float*>(found_inf.raw()) = 1;
}

void update(const Context&, const Tensor& found_inf, Tensor& scale, Tensor& good_steps,
            const backend::LossScaleRule& rule) {
  float& s = *static_cast<float*>(scale.raw());
  int32_t& good = *static_cast<int32_t*>(good_steps.raw());
  if (*static_cast<const float*>(found_inf.raw()) != 0) {
    s *= static_cast<float>(rule.backoff);
    good = 0;
  } else if (++good >= rule.interval) {
    const float larger = s * static_cast<float>(rule.growth);
    if (std::isfinite(larger)) s = larger;
    good = 0;
  }
}

const bool registered =
    backend::register_kernel("list_unscale", DeviceKind::cpu, DType::f32, &unscale<float>) &&
    backend::register_kernel("list_unscale", DeviceKind::cpu, DType::f64, &unscale<double>) &&
    backend::register_kernel("update_loss_scale", DeviceKind::cpu, DType::f32, &update);

}  // namespace
}  // namespace brim::cpu
