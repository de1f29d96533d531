// Pruning: weights that matter little become zero and stay zero, in a pattern that hardware likes.
//
//   const compress::Pattern pattern = compress::parse_pattern("vector:32");
//   compress::Masks masks(net, {.pattern = pattern, .sparsity = 0.75});
//   for (...) {  // fine-tuning
//     ...
//     optimizer.step();
//     masks.apply();
//   }
//   compress::encode(net);  // inference: layers are sparse where that is faster
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/nn/module.h>

namespace brim::compress {

/// Which numbers of a weight (O, K), K for what each output reads, are kept or left out together.
struct Pattern {
  /// What goes together.
  enum class Kind : uint8_t {
    unstructured,  ///< each by itself
    n_of_m,        ///< `count` of each `length` neighbours along K are kept, as 2:4
    vector,        ///< a column for `length` outputs, which are chosen to need the same ones
  };
  Kind kind = Kind::vector;  ///< what goes together
  int64_t length = 32;       ///< outputs of a vector, or M of N:M
  int64_t count = 0;         ///< n_of_m: how many are kept

  std::string str() const;  ///< as parse_pattern() reads it: "2:4"
  /// Whether all parts are equal.
  friend bool operator==(const Pattern&, const Pattern&) = default;
};

/// "unstructured", "2:4", "vector:32" (4, 8, 16, 32 or 64). Throws ValueError.
Pattern parse_pattern(std::string_view text);

/// What is left out: that of the least of these, for each element.
enum class Criterion : uint8_t {
  magnitude,  ///< |w|
  taylor,     ///< |w x gradient|, about what the loss would change; of the gradients that there are
};

/// What is as sparse as asked for.
enum class PruneScope : uint8_t {
  layer,  ///< each layer
  /// All layers together, so that some keep more than others: of each layer go the units - vectors,
  /// or elements - that have little of what it has left (LAMP: Lee et al. 2021, "Layer-adaptive
  /// sparsity for the magnitude-based pruning"). Layers whose weights are alike lose fewer of them.
  network,
};

/// For the layers' names: their outputs in an order in which those that share vectors are together.
using OutputGroups = std::map<std::string, std::vector<int64_t>>;

/// Options of prune() and Masks.
struct PruneOptions {
  Pattern pattern = {};    ///< what is left out together
  double sparsity = 0.75;  ///< of the weights that are pruned; of n_of_m it is 1 - n / m
  PruneScope scope = PruneScope::layer;  ///< what is so sparse; of n_of_m it is each layer
  /// That it will rise to, which outputs share vectors for; 0: the same.
  double final_sparsity = 0;
  Criterion criterion = Criterion::magnitude;  ///< by what the least are found
  /// Names of layers that stay dense, as "conv1" or "layer1.0.conv1".
  std::vector<std::string> dense = {};
  /// Sparsities of layers that have their own, by name; not of n_of_m. `sparsity` is then that of
  /// the others. Where `sparsity` rises to
  /// `final_sparsity`, these rise alike.
  std::map<std::string, double> layers = {};
  /// Of masks that were made before (Masks::groups()), for layers that are to keep them.
  OutputGroups groups = {};
};

/// What became of a layer.
struct PrunedLayer {
  std::string name;     ///< of its module
  Shape shape;          ///< of its weight
  double sparsity = 0;  ///< zeros among its weights, when they were looked at
  std::string why;      ///< it stays dense
};

/// Its convolutions and linear layers, with the zeros that their weights have now, and why masks of
/// these options would leave them dense. Throws ValueError as Masks does.
std::vector<PrunedLayer> pruned_layers(nn::Module& network, const PruneOptions& options);
/// Throws ValueError where groups are no order of the outputs of such a layer of the network.
void check_groups(nn::Module& network, const OutputGroups& groups);
/// Zeros among the weights of those that are pruned.
double sparsity_of(const std::vector<PrunedLayer>& layers);

/// The masks of a network's convolutions and linear layers: where their weights are 0. They are of
/// the parameters as they are then: a network that is moved to another device needs new ones.
class Masks {
 public:
  /// Prunes the network to options.sparsity now. Layers that cannot take the pattern stay dense
  /// (layers() says why): convolutions of groups, and, of vectors, weights of fewer outputs than a
  /// vector. Throws ValueError for options out of range, a name that is no such layer, weights that
  /// are not finite, a network of which no layer can be pruned, groups that are no order of a
  /// layer's outputs, or a layer without the gradient that the criterion asks for; then nothing has
  /// changed.
  Masks(nn::Module& network, PruneOptions options);

  /// Prunes anew, by what the weights are now: with no lower sparsity than before, what is zero
  /// stays so. Throws ValueError as the constructor does.
  void prune(double sparsity);
  /// Makes masked weights zero again: call it behind each step of the optimizer. Compiled steps
  /// record it.
  void apply();
  /// The network's state of another time under the masks of now, as early in its training: what is
  /// pruned is zero, all else as it was then. Throws ValueError as Module::load_state_dict() does.
  void rewind(nn::Module& network, const StateDict& state);
  /// Makes their gradients zero: before a step that clips the gradients' norm.
  void apply_to_gradients();

  /// What became of each, in the network's order.
  const std::vector<PrunedLayer>& layers() const { return layers_; }
  /// Share of zeros among the weights of all of them.
  double sparsity() const { return sparsity_of(layers_); }
  /// The groups that share vectors; chosen when the network is pruned first, and kept.
  const OutputGroups& groups() const { return options_.groups; }

 private:
  struct Masked {
    size_t layer;
    Tensor parameter, is_zero;
  };
  PruneOptions options_;
  std::vector<PrunedLayer> layers_;
  std::vector<Masked> masked_;
};

/// What is zero after a round (from 1 on) of iterative pruning, each of which leaves the same share
/// of what the one before left; after the last one it is `sparsity` (Renda et al. 2020, "Comparing
/// rewinding and fine-tuning in neural network pruning"). Throws ValueError for a round out of
/// range, or a sparsity that is not above 0 and below 1.
double sparsity_of_round(double sparsity, int64_t round, int64_t rounds);

/// What `encode` made of a layer.
struct EncodedLayer {
  std::string name;      ///< of its module
  double density = 1;    ///< of its columns
  int64_t bytes = 0;     ///< of its encoded weight
  bool encoded = false;  ///< else it has no columns of zeros, has groups, is no f32, or on CUDA
};

/// Encodes the weights of layers that have columns of zeros (SparseWeight), so that they compute
/// with what is left where no gradients are wanted and that is faster on their device: the first
/// call with a shape of inputs measures both. What changes a weight afterwards makes its layer
/// dense again. Layers on devices without kernels for it stay dense.
std::vector<EncodedLayer> encode(nn::Module& network, int64_t vector = 32);

}  // namespace brim::compress
