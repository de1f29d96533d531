// GradScaler: keeps small f16 gradients from vanishing. The loss is scaled up before backward, and
// gradients are scaled down again before they are used; where that overflows, the step is skipped
// and the scale lowered.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);        // only to look at or clip gradients
//   scaler.step(optimizer);
//   scaler.update();
//
// Whether a step overflowed is decided and used on the device: scale, count and flag are tensors
// there, and the optimizer's kernels look at the flag. So nothing waits for the host, compiled
// steps record it, and losses are still read only when they are reported.
#pragma once

#include <cstdint>
#include <unordered_map>

#include <brim/core/state_dict.h>
#include <brim/optim/optimizer.h>

namespace brim::optim {

/// Options of GradScaler.
struct GradScalerOptions {
  double init_scale = 65536;       ///< of the first step
  double growth_factor = 2;        ///< after growth_interval good steps in a row
  double backoff_factor = 0.5;     ///< after an overflow
  int64_t growth_interval = 2000;  ///< steps without an overflow until the scale grows
};

/// Micikevicius et al., "Mixed precision training", ICLR 2018, with the rules of
/// torch.amp.GradScaler.
class GradScaler {
 public:
  using Options = GradScalerOptions;  ///< of the constructor
  /// Parameters live on `device`. Throws ValueError for options out of range.
  explicit GradScaler(Device device = default_device(), Options options = {});

  /// The loss times the scale, in f32 at least.
  Tensor scale(const Tensor& loss) const;
  /// Divides the optimizer's gradients by the scale, in place, and notes whether one is infinite or
  /// NaN. Throws ValueError if that was done since the last update().
  void unscale_(Optimizer& optimizer);
  /// unscale_(), if it was not called, then the optimizer's step unless there was an overflow.
  /// Throws ValueError if that was done since the last update().
  void step(Optimizer& optimizer);
  /// The scale of the next step, after step() or unscale_() of all optimizers. Throws ValueError if
  /// neither was called.
  void update();

  double get_scale() const;                            ///< waits for the device
  const Options& options() const { return options_; }  ///< as given

  /// "scale", "growth_factor", "backoff_factor", "growth_interval", "growth_tracker".
  StateDict state_dict() const;
  /// Goes on where state_dict() was taken. On error nothing has changed. Throws ValueError.
  void load_state_dict(const StateDict& state);

 private:
  struct Use {
    Tensor found_inf;  // f32 scalar: 1 after an overflow
    bool unscaled = false, stepped = false;
  };

  Options options_;
  Tensor scale_;       // f32 scalar
  Tensor good_steps_;  // i32 scalar: those since the scale last changed
  std::unordered_map<Optimizer*, Use> uses_;
};

}  // namespace brim::optim
