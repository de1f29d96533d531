// Quantisation: layers that compute in 8-bit integers (brim/ops/int8.h), after a look at what goes
// into them.
//
//   compress::quantize(net, [&] {
//     for (const data::Batch& batch : loader) net(batch.x);  // some hundred samples are enough
//   });
//
// Networks that lose too much by that are trained on with their rounding in sight:
//
//   compress::FakeQuantizer rounding(net, [&] { ... });  // as above
//   for (...) { ... optimizer.step(); }                  // fine-tuning
//   rounding.quantize();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/nn/module.h>
#include <brim/ops/int8.h>
#include <brim/ops/sparse_int8.h>

namespace brim::compress {

/// How the range of a layer's inputs is chosen from the values that were seen. What lies outside of
/// it is held to its ends.
enum class Calibration : uint8_t {
  min_max,     ///< all of them
  percentile,  ///< all but a share of them at each end
  entropy,     ///< that which tells most like the values: the least Kullback-Leibler divergence, as
               ///< TensorRT does (Migacz 2017)
  mse,         ///< that whose steps have the least mean square error
};
/// "min-max", "percentile", "entropy" or "mse". Throws ValueError.
Calibration parse_calibration(std::string_view text);

/// Options of quantize().
struct QuantizeOptions {
  Calibration calibration = Calibration::mse;  ///< how ranges are chosen
  double percentile = 99.99;  ///< of Calibration::percentile: of the values at each end
  /// Adds to each output what rounding the weights takes off it on average (Nagel et al.,
  /// "Data-free quantization through weight equalization and bias correction", ICCV 2019).
  bool correct_bias = true;
  /// Layers that are slower in integers on this machine stay f32: both are measured, with the first
  /// inputs that were seen, and with the first sample of them. All stay so where the network as a
  /// whole is clearly slower.
  bool only_faster = true;
  /// With only_faster: how long passes of the network take as it is then, in seconds, say compiled
  /// ones of a batch and of one sample. Layers are chosen by these: the network with those that
  /// are faster alone, with all of them, and with some in between are compared, and none of its
  /// passes is slower than in f32. Called for each, in eval mode and a NoGrad scope.
  std::function<std::vector<double>()> pass_seconds = {};
  /// With only_faster: called before each layer is measured, with the share of those before it.
  std::function<void(double fraction)> progress = {};
  /// Names of layers that stay f32, as "conv1" or "layer1.0.conv1".
  std::vector<std::string> keep = {};
  /// Layers that were pruned in vectors of so many outputs (brim/compress/prune.h) leave their
  /// columns of zeros out of the integers: where that was measured to be faster, or with
  /// only_faster = false wherever there are any. 4, 8, 16, 32 or 64; 0: no layer does.
  int64_t vector = 0;
};

/// What became of a layer.
struct QuantizedLayer {
  std::string name;              ///< of its module
  Shape shape;                   ///< of its weight
  std::string why;               ///< it stays f32; empty: it is in integers
  QuantParams input;             ///< of its inputs
  double min = 0, max = 0;       ///< of its inputs
  double error = 0;              ///< of its outputs: root mean square over that of the outputs
  double f32_s = 0, int8_s = 0;  ///< of the first inputs, where it was measured
  double sparse_int8_s = 0;      ///< the same, where there are columns of zeros to leave out
  Int8Weight weight;             ///< empty: it stays f32, or computes with `sparse`
  SparseInt8Weight sparse = {};  ///< the same integers; empty unless the layer computes with it

  /// Its columns of zeros are left out of the integers.
  bool is_sparse() const { return sparse.values.defined(); }
  /// Of the first inputs, in the integers that it computes with.
  double integers_s() const { return is_sparse() ? sparse_int8_s : int8_s; }
};

/// Conv2d and Linear layers compute in 8-bit integers from now on, where no gradients are
/// wanted. `run` runs the network over the data of the calibration, of which a few hundred samples
/// are enough; it is called several times, in eval mode and a NoGrad scope, and is to stay in the
/// calling thread. Layers that cannot be
/// quantised stay f32 and say why. Throws ValueError for options out of range or names that are no
/// such layer, if nothing was run, if inputs are not finite, or if no layer can be quantised (being
/// slower is no such reason); then all layers compute with their dense weights, which nothing
/// changes.
std::vector<QuantizedLayer> quantize(nn::Module& network, const std::function<void()>& run,
                                     const QuantizeOptions& options = {});

/// A layer in integers, as files have it.
struct Int8Layer {
  Int8Weight weight;             ///< empty: the layer has `sparse`
  QuantParams input;             ///< of its inputs
  SparseInt8Weight sparse = {};  ///< the same integers without columns of zeros; empty: it has none

  bool is_sparse() const { return sparse.values.defined(); }  ///< whether it has `sparse`
  /// Of the dense weight (O, ...)
  const Shape& shape() const { return is_sparse() ? sparse.shape : weight.shape(); }
  /// f32 (O), or undefined: none.
  const Tensor& correction() const { return is_sparse() ? sparse.correction : weight.correction; }
};
/// By the names of their weights: "conv1.weight".
using Int8Layers = std::map<std::string, Int8Layer>;
/// These layers compute in integers from now on; how many they are. On a device without kernels for
/// that (CUDA) none does. Throws ValueError for a name that is no weight of a convolution or linear
/// layer, or one of another shape; then nothing has changed.
size_t use_int8(nn::Module& network, const Int8Layers& layers);

/// Those of what became of layers that are in integers.
Int8Layers int8_layers(const std::vector<QuantizedLayer>& layers);

/// All layers compute with their dense weights again.
void use_dense(nn::Module& network);

/// Training with the rounding in sight (Jacob et al. 2018): layers compute with inputs and weights
/// rounded as they will be in integers, for as long as this lives; gradients pass the rounding
/// straight through. In eval mode too, so that a validation tells what integers will do. Eager
/// steps compute these layers twice; compiled ones do not.
class FakeQuantizer {
 public:
  /// Chooses ranges and layers as quantize() does, and throws as it does.
  FakeQuantizer(nn::Module& network, const std::function<void()>& run,
                const QuantizeOptions& options = {});
  /// Of what quantize() has chosen: nothing is measured again. `run` as above.
  FakeQuantizer(nn::Module& network, std::vector<QuantizedLayer> layers,
                const std::function<void()>& run);
  ~FakeQuantizer();
  FakeQuantizer(const FakeQuantizer&) = delete;
  FakeQuantizer& operator=(const FakeQuantizer&) = delete;

  /// What was chosen for each, in the network's order.
  const std::vector<QuantizedLayer>& layers() const { return layers_; }
  /// The layers compute in integers, with the ranges that were trained with; `run` is called once
  /// more, for what they lose. This has no more effect then.
  std::vector<QuantizedLayer> quantize();

 private:
  nn::Module& network_;
  const std::function<void()> run_;
  std::vector<QuantizedLayer> layers_;
  std::vector<nn::Module::HookHandle> hooks_;
  bool is_over_ = false;
};

/// The values that were seen, in bins, and ranges for them.
class ValueHistogram {
 public:
  /// Throws ValueError where a value is not finite.
  void add(const Tensor& x);
  int64_t count() const { return count_; }  ///< how many values were seen
  ///@{
  /// The extreme value that was seen.
  double min() const { return min_; }
  double max() const { return max_; }
  ///@}
  /// Throws ValueError if nothing was added.
  QuantParams params(Calibration calibration, double percentile = 99.99) const;

 private:
  struct Range {
    double low, high;
  };
  void widen(double min, double max);
  double middle(size_t bin) const;
  Range of_percentile(double percentile) const;
  /// The range among shrunken ones whose cost is least.
  Range of_least(double (ValueHistogram::*cost)(QuantParams) const) const;
  double square_error(QuantParams params) const;
  double divergence(QuantParams params) const;

  // Bin i holds values from (first_ + i) * width_ on.
  std::vector<double> bins_;
  int64_t first_ = 0;
  double width_ = 0;
  double min_ = 0, max_ = 0;
  int64_t count_ = 0;
};

}  // namespace brim::compress
