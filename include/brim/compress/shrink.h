// Shrinking: each layer gets the form that it computes in - dense, without columns of zeros, in
// 8-bit integers - by what the forms cost of time, bytes and closeness to the dense network.
//
//   compress::FormMeter meter(net, {.inputs = batches, .timed = batches[0], .distance = ..});
//   std::vector<compress::LayerCosts> costs;
//   for (size_t i = 0; i < meter.layers(); ++i) costs.push_back(meter.measure(i));
//   const auto forms = compress::forms_of(costs, compress::choose_forms(costs, {.bytes =
//   100'000})); if (const auto pruning = compress::pruning_of(costs, forms, 8)) {
//     compress::Masks masks(net, *pruning);
//     ...  // train on, with masks.apply() behind each step
//   }
//   compress::use_forms(net, forms, 8, [&] { for (const Tensor& x : batches) net(x); });
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/compress/channels.h>
#include <brim/compress/prune.h>
#include <brim/compress/quantize.h>
#include <brim/core/tensor.h>
#include <brim/nn/module.h>

namespace brim::compress {

/// How a layer computes.
struct LayerForm {
  double sparsity = 0;  ///< of its weight, in vectors; 0: dense
  bool int8 = false;    ///< in 8-bit integers
  double channels = 0;  ///< of its outputs that are left out, with all that goes with them

  /// In f32 with all weights.
  bool is_dense() const { return sparsity == 0 && !int8 && channels == 0; }
  /// "f32", "75 % zeros", "int8", "int8, 75 % zeros", "50 % fewer channels".
  std::string str() const;
  /// Whether all parts are equal.
  friend bool operator==(const LayerForm&, const LayerForm&) = default;
};
/// By the layers' names; layers that are not there are dense.
using LayerForms = std::map<std::string, LayerForm>;

/// What a layer costs in a form.
struct FormCost {
  LayerForm form;      ///< what it is
  double seconds = 0;  ///< of one forward pass
  int64_t bytes = 0;   ///< of its weight, as files have it
  /// Of the network's outputs from the dense network's, by this layer alone; where it is sparse,
  /// with its outputs' means and variances brought back, which is the least that training does.
  double distance = 0;
};

/// A layer and what its forms cost.
struct LayerCosts {
  std::string name;             ///< of its module
  Shape shape;                  ///< of its weight
  std::vector<FormCost> forms;  ///< the dense one first
  std::string why;              ///< it has no other form
};

/// Options of FormMeter.
struct FormOptions {
  /// Batches by which ranges of integers are chosen and distances are measured.
  std::vector<Tensor> inputs = {};
  /// The batch that times are of.
  Tensor timed = {};
  /// Of the network's output and the dense network's, of one batch; 0 where they are equal. For
  /// logits the Kullback-Leibler divergence, for numbers the mean square difference.
  std::function<double(const Tensor& output, const Tensor& dense)> distance = {};
  int64_t vector = 8;                                 ///< outputs of a vector
  std::vector<double> sparsities = {0.5, 0.75, 0.9};  ///< that are tried
  bool int8 = true;                                   ///< whether integers are tried
  /// Names of layers that stay dense, as "conv1" or "layer1.0.conv1".
  std::vector<std::string> keep = {};
  /// What was measured of the network before it lost channels: distances are taken from there.
  std::vector<LayerCosts> known = {};
};

/// Measures the forms of a network's convolutions and linear layers, one after the other, in eval
/// mode and without gradients whatever the network's mode. Layers of
/// groups, of fewer outputs than a vector (for sparse forms), or that integers cannot hold have
/// fewer forms.
class FormMeter {
 public:
  /// Runs the network over the inputs. Throws ValueError for options out of range, a name that is
  /// no layer, inputs that do not run, or are not finite.
  FormMeter(nn::Module& network, FormOptions options);
  ~FormMeter();

  size_t layers() const;  ///< how many convolutions and linear layers there are
  const std::string& name(size_t layer) const;  ///< throws IndexError
  /// Times of the forms in turns, and for each form a run over the inputs.
  LayerCosts measure(size_t layer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Options of ChannelMeter.
struct ChannelMeterOptions {
  /// Batches by which channels are chosen and distances are measured.
  std::vector<Tensor> inputs = {};
  /// As FormOptions has it.
  std::function<double(const Tensor& output, const Tensor& dense)> distance = {};
  /// How long a pass of the network takes as it is then, in seconds.
  std::function<double()> pass_seconds = {};
  std::vector<double> sparsities = {0.25, 0.5, 0.75};  ///< that are tried
  /// Names of layers that keep their channels.
  std::vector<std::string> keep = {};
};

/// Measures what a network costs without some of its channels, those with the least activations x
/// weight (ChannelCriterion). Channels that go together, through residuals too, are a group, named
/// by the first layer that makes them.
class ChannelMeter {
 public:
  /// Runs the network over the inputs. Throws ValueError for missing options, a sparsity out of
  /// range, or inputs that do not run.
  ChannelMeter(nn::Module& network, ChannelMeterOptions options);
  ~ChannelMeter();

  size_t groups() const;                        ///< whose channels can go
  const std::string& name(size_t group) const;  ///< throws IndexError
  /// The network without channels of the group, and with all of them again: its forms have
  /// `channels`, and the costs are those of the whole network. Where it does not run so, there is
  /// no form but the dense one, and `why`.
  LayerCosts measure(size_t group);
  /// Of the network's outputs without the channels of groups, by name; with the outputs of layers
  /// that read them at the means and variances that they had.
  double distance(const LayerForms& forms);
  /// Leaves them out for good; the meter is of no use then. Throws ValueError as shrink_channels()
  /// does.
  ShrunkNetwork shrink(const LayerForms& forms);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of the layers together; what the rest of the network costs comes on top.
struct Limits {
  double seconds = std::numeric_limits<double>::infinity();  ///< of one forward pass
  int64_t bytes = std::numeric_limits<int64_t>::max();       ///< of the weights, as files have them
};

/// A form for each layer, and what they cost together.
struct Choice {
  std::vector<size_t> forms;  ///< of LayerCosts::forms
  ///@{
  /// What the layers cost together, as FormCost has it.
  double seconds = 0, distance = 0;
  int64_t bytes = 0;
  ///@}
};

/// From all dense to what costs least, by one layer at a time: that whose distance grows least for
/// what it spares. Costs are seconds and bytes with these weights; each choice is the closest one
/// of its cost among those on the layers' convex hulls.
std::vector<Choice> form_frontier(const std::vector<LayerCosts>& layers, double of_seconds,
                                  double of_bytes);

/// The closest choice within the limits that a search along frontiers of several weights finds, and
/// single layers given back where there is room. Throws ValueError where none is within them, with
/// what is.
Choice choose_forms(const std::vector<LayerCosts>& layers, const Limits& limits);

/// By name, without those that are dense.
LayerForms forms_of(const std::vector<LayerCosts>& layers, const Choice& choice);

/// The choice of these forms. Throws ValueError where a layer has no such form.
Choice choice_of(const std::vector<LayerCosts>& layers, const LayerForms& forms);

/// How layers are pruned to have these forms: each to its sparsity, in vectors of so many outputs;
/// the others stay dense. Empty where no form is sparse.
std::optional<PruneOptions> pruning_of(const std::vector<LayerCosts>& layers,
                                       const LayerForms& forms, int64_t vector);

/// The layers compute in these forms from now on: with the columns that are zero left out where
/// that is faster, and in integers, for which `run` is called as quantize() does. What became of
/// those in integers. Throws ValueError as quantize() does.
std::vector<QuantizedLayer> use_forms(nn::Module& network, const LayerForms& forms, int64_t vector,
                                      const std::function<void()>& run,
                                      const QuantizeOptions& options = {});

}  // namespace brim::compress
