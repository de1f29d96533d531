// Normalisation layers.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <brim/nn/module.h>

namespace brim::nn {

/// batch_norm over the channels of (N, C, H, W). In training with the batch's statistics, which
/// also move the running ones; in eval with the running ones. weight starts at 1, bias at 0.
/// Names of the state as in PyTorch: weight, bias, running_mean, running_var, num_batches_tracked.
class BatchNorm2d : public Module {
 public:
  struct Options {
    int64_t features = 0;
    double eps = 1e-5;
    double momentum = 0.1;
    bool affine = true;               ///< false: no weight and bias
    bool track_running_stats = true;  ///< false: the batch's statistics in eval too
    DType dtype = DType::f32;
    Device device = default_device();
  };
  explicit BatchNorm2d(Options options);
  Tensor forward(const Tensor& x) override;

  /// Normalises x in training, and moves the layer's running statistics.
  using Normalise = std::function<Tensor(const Tensor& x, BatchNorm2d& layer)>;
  /// From now on `f` does so instead of batch_norm, which knows this x alone (see
  /// dist::convert_sync_batch_norm); null: batch_norm again.
  void normalise_with(Normalise f) { normalise_ = std::move(f); }
  bool has_own_normalisation() const { return normalise_ != nullptr; }
  /// Other parameters and statistics, (features) each and of another number of them. Throws
  /// ShapeError unless they are all of one size, and defined where the layer's are.
  void replace(const Tensor& new_weight, const Tensor& new_bias, const Tensor& new_mean,
               const Tensor& new_var);

 private:
  Options own_;

 public:
  const Options& options = own_;
  Tensor &weight, &bias;               ///< (features); undefined unless affine
  Tensor &running_mean, &running_var;  ///< (features); undefined unless tracked
  Tensor& num_batches_tracked;         ///< (), i64

 protected:
  std::string options_str() const override;

 private:
  Normalise normalise_;
};

/// layer_norm over the last axes, whose sizes are `shape`. weight starts at 1, bias at 0.
class LayerNorm : public Module {
 public:
  struct Options {
    Shape shape = {};
    double eps = 1e-5;
    bool affine = true;
    bool bias = true;  ///< false: a weight alone
    DType dtype = DType::f32;
    Device device = default_device();
  };
  explicit LayerNorm(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;
  Tensor &weight, &bias;

 protected:
  std::string options_str() const override;
};

/// rms_norm over the last axes, whose sizes are `shape`. weight starts at 1.
class RMSNorm : public Module {
 public:
  struct Options {
    Shape shape = {};
    std::optional<double> eps = {};  ///< unless given the precision of f32, or of f64 for that
    bool affine = true;
    DType dtype = DType::f32;
    Device device = default_device();
  };
  explicit RMSNorm(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;
  Tensor& weight;

 protected:
  std::string options_str() const override;
};

/// group_norm of `groups` groups of channels. weight starts at 1, bias at 0.
class GroupNorm : public Module {
 public:
  struct Options {
    int64_t groups = 0;
    int64_t channels = 0;
    double eps = 1e-5;
    bool affine = true;
    DType dtype = DType::f32;
    Device device = default_device();
  };
  explicit GroupNorm(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;
  Tensor &weight, &bias;

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
