// Normalisation layers.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <brim/nn/module.h>

namespace brim::nn {

/// batch_norm over the channels of (N, C, H, W). In training with the batch's statistics, which
/// also move the running ones; in eval with the running ones. weight starts at 1, bias at 0.
/// Without `features`, the channels of x are it at the first call (Module::initialize()).
/// Names of the state as in PyTorch: weight, bias, running_mean, running_var, num_batches_tracked.
class BatchNorm2d : public Module {
 public:
  /// Options of BatchNorm2d.
  struct Options {
    int64_t features = 0;              ///< channels; 0: inferred at the first call
    double eps = 1e-5;                 ///< added to the variance
    double momentum = 0.1;             ///< running = (1 - momentum) running + momentum batch
    bool affine = true;                ///< false: no weight and bias
    bool track_running_stats = true;   ///< false: the batch's statistics in eval too
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit BatchNorm2d(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  /// Normalises x in training, and moves the layer's running statistics.
  using Normalise = std::function<Tensor(const Tensor& x, BatchNorm2d& layer)>;
  /// From now on `f` does so instead of batch_norm, which knows this x alone (see
  /// dist::convert_sync_batch_norm); null: batch_norm again.
  void normalise_with(Normalise f) { normalise_ = std::move(f); }
  /// Whether normalise_with() gave it one.
  bool has_own_normalisation() const { return normalise_ != nullptr; }
  /// Other parameters and statistics, (features) each and of another number of them. Throws
  /// ShapeError unless they are all of one size, and defined where the layer's are.
  void replace(const Tensor& new_weight, const Tensor& new_bias, const Tensor& new_mean,
               const Tensor& new_var);

 private:
  Options own_;

 public:
  const Options& options = own_;       ///< `features`: as given, inferred, or of replace()
  Tensor &weight, &bias;               ///< (features); undefined unless affine
  Tensor &running_mean, &running_var;  ///< (features); undefined unless tracked
  Tensor& num_batches_tracked;         ///< (), i64

 protected:
  std::string options_str() const override;

 private:
  Normalise normalise_;
};

/// layer_norm over the last axes, whose sizes are `shape`. weight starts at 1, bias at 0. Without
/// `shape` it is over the last axis, whose size the first call shows (Module::initialize()).
class LayerNorm : public Module {
 public:
  /// Options of LayerNorm.
  struct Options {
    Shape shape = {};                  ///< sizes of the last axes; {}: of one, inferred
    double eps = 1e-5;                 ///< added to the variance
    bool affine = true;                ///< false: no weight and bias
    bool bias = true;                  ///< false: a weight alone
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit LayerNorm(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  const Options& options = options_;  ///< with what was inferred, after the first call
  Tensor &weight, &bias;              ///< of `shape`; undefined unless affine

 protected:
  std::string options_str() const override;

 private:
  Options options_;
};

/// rms_norm over the last axes, whose sizes are `shape`. weight starts at 1. Without `shape` as
/// LayerNorm.
class RMSNorm : public Module {
 public:
  /// Options of RMSNorm.
  struct Options {
    Shape shape = {};                  ///< sizes of the last axes; {}: of one, inferred
    std::optional<double> eps = {};    ///< unless given the precision of f32, or of f64 for that
    bool affine = true;                ///< false: no weight
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit RMSNorm(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  const Options& options = options_;  ///< with what was inferred, after the first call
  Tensor& weight;                     ///< of `shape`; undefined unless affine

 protected:
  std::string options_str() const override;

 private:
  Options options_;
};

/// group_norm of `groups` groups of channels. weight starts at 1, bias at 0.
class GroupNorm : public Module {
 public:
  /// Options of GroupNorm.
  struct Options {
    int64_t groups = 0;                ///< how many groups of channels
    int64_t channels = 0;              ///< a multiple of groups; 0: inferred at the first call
    double eps = 1e-5;                 ///< added to the variance
    bool affine = true;                ///< false: no weight and bias
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit GroupNorm(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  const Options& options = options_;  ///< with what was inferred, after the first call
  Tensor &weight, &bias;              ///< (channels); undefined unless affine

 protected:
  std::string options_str() const override;

 private:
  Options options_;
};

}  // namespace brim::nn
