// A recipe: everything that a training run is made of, as a TOML file (docs/RECIPES.md) or a
// built-in one. Keys are strict: an unknown one is an error that names the nearest valid key.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/core/error.h>

namespace brim::train {

/// How parameters are updated.
struct OptimizerRecipe {
  std::string name = "sgd";  ///< sgd, adam, adamw, rmsprop
  double lr = 0.001;         ///< learning rate
  double weight_decay = 0;   ///< L2 penalty; adamw: decoupled
  double momentum = 0;       ///< sgd, rmsprop
  bool nesterov = false;     ///< sgd: looks ahead along the momentum
  double beta1 = 0.9;        ///< adam, adamw
  double beta2 = 0.999;      ///< adam, adamw
  double eps = 1e-8;         ///< adam, adamw, rmsprop
  double alpha = 0.99;       ///< rmsprop
  double clip_norm = 0;      ///< 0: gradients are not clipped
};

/// How the learning rate goes from step to step.
struct ScheduleRecipe {
  std::string name = "constant";  ///< constant, step, cosine, one-cycle
  double warmup = 0;              ///< epochs of linear warm-up before it
  double step_size = 1;           ///< step: epochs between drops
  double gamma = 0.1;             ///< step: factor of each drop
  double min_lr = 0;              ///< cosine: rate at the end
  double max_lr = 0;              ///< one-cycle: the peak; 0: ten times lr
  double pct_start = 0.3;         ///< one-cycle: part of the run in which the rate rises
};

/// What becomes of a sample before the network sees it.
struct InputRecipe {
  std::vector<double> mean = {0.5, 0.5, 0.5};  ///< subtracted from pixels in [0, 1], per channel
  std::vector<double> std = {0.5, 0.5, 0.5};   ///< divided by
  int64_t size = 0;                            ///< pictures become size x size; 0: as they are
  int64_t crop_padding = 0;                    ///< random crop after zero padding; training only
  bool random_resized_crop = false;            ///< a random part, resized to `size`; training only
  bool scaled_decode = true;  ///< of that part: let the JPEG decoder reduce large pictures
  bool flip = false;          ///< random horizontal flip; training only
  std::string on_corrupt =
      "raise";           ///< raise, or skip and count; parts of a batch take others instead
  int64_t channels = 0;  ///< of pictures with masks or tables; 0: as the first one has
  std::vector<std::string> columns = {};  ///< of a table, those of "x"; empty: all but the targets
  std::vector<std::string> targets = {};  ///< of a table; empty: the last column
  int64_t window = 256;                   ///< language: tokens of a sample
  std::string tokens = "u8";              ///< language: u8 (text as bytes), u16, i32, u32 or i64
  int64_t vocabulary = 256;               ///< language: tokens are below it
  /// Of one's own, see register_transform() in task.h; in this order, behind all others.
  std::vector<std::string> transforms = {};
};

/// The part of the training data that is not learned from.
struct ValidationRecipe {
  double fraction = 0;   ///< of the training data that is kept for it; 0: there is none
  std::string by = {};   ///< the metric that decides which epoch is the best; "": the task's first
  int64_t patience = 0;  ///< stop after so many epochs without a better one; 0: never
};

/// Weights that become zero and stay so while the others are trained, see compress/prune.h. With
/// weights to begin from (TrainOptions::weights) that is fine-tuning.
struct PruneRecipe {
  /// "": none; unstructured, N:M as 2:4, vector:V; or channels, which go before the first step: the
  /// training is that of a smaller network.
  std::string pattern = {};
  double sparsity = 0.75;  ///< of the weights that are pruned; of N:M it is 1 - N / M
  /// What is so sparse: each layer, or the network, whose layers then differ
  /// (compress::PruneScope).
  std::string scope = "layer";
  /// gradual, or iterative: the network is trained to the end, pruned a little, rewound and trained
  /// to the end again, `rounds` times (Renda et al. 2020, "Comparing rewinding and fine-tuning in
  /// neural network pruning").
  std::string schedule = "gradual";
  double epochs = 0;   ///< gradual: in which it rises to that, by a cubic curve; 0: at once
  int64_t rounds = 5;  ///< iterative: each leaves the same share of what the one before left
  /// iterative: what goes back to where it was, the learning rate with the weights, or alone.
  std::string rewind = "weights";
  int64_t rewind_epoch = 0;  ///< iterative: so many epochs from the start; 0: before training
  /// iterative: a file with the weights of then, instead of those of this run; "": these.
  std::string rewind_weights = {};
  /// iterative: what the run begins with is trained already, and is pruned first.
  bool is_trained = false;
  std::vector<std::string> dense = {};        ///< layers that are left as they are
  std::map<std::string, double> layers = {};  ///< sparsities of layers that have their own

  bool is_of_channels() const { return pattern == "channels"; }             ///< by the pattern
  bool has_masks() const { return !pattern.empty() && !is_of_channels(); }  ///< else none is masked
  bool is_iterative() const { return has_masks() && schedule == "iterative"; }  ///< and rewinds
};

/// What is left of a network that whole channels were left out of, see compress/channels.h: whole
/// numbers, by the names of its modules.
struct ChannelsRecipe {
  std::map<std::string, double> inputs = {};   ///< channels or features that a layer takes
  std::map<std::string, double> outputs = {};  ///< and makes
};

/// A network that is trained, and its outputs what the network is to imitate (Hinton et al. 2015,
/// "Distilling the knowledge in a neural network").
struct DistillRecipe {
  std::string teacher = {};  ///< its file of weights, which says its recipe; "": none
  double weight = 0.5;       ///< of imitating it; the task's loss has the rest
  double temperature = 4;    ///< by which the outputs of both are divided
};

/// How fast it trains: nothing of it touches a bit of the weights, but that plans round otherwise
/// than eager steps, and one selection of passes than another. A Trainer goes by TrainOptions,
/// which with_speed() takes from here. Checkpoints and weights leave it out.
struct SpeedRecipe {
  int workers = -1;                 ///< loader threads; -1: chosen
  std::string augment_on = "auto";  ///< auto, host, device
  bool data_on_device = false;      ///< see TrainOptions::data_on_device
  int64_t steps_per_graph = 1;      ///< see TrainOptions::steps_per_graph
  bool compile = true;              ///< false: steps run eagerly
  std::string passes = {};          ///< of the plan, see CompileOptions::passes
};

/// What is trained, on what and how; a TOML file (docs/RECIPES.md).
struct Recipe {
  std::string name = {};  ///< of the built-in recipe or the file
  /// What is learned, see task.h: classify, multilabel, regress, segment, language, or one's own.
  std::string task = "classify";
  std::string model = "tutorial-cnn";  ///< a name that make_model() knows
  std::string data = "shapes10";       ///< a registered name, a file or a folder
  int64_t epochs = 2;                  ///< passes over the training data
  int64_t batch = 4;                   ///< of all ranks together
  /// A batch is cut into so many equal parts, which decide the bits whatever number of ranks
  /// computes them (see dist::DataParallel); 0: as many as there are ranks, or as the resumed run
  /// had.
  int64_t virtual_ranks = 0;
  /// Layers of batch norm use the statistics of all ranks' samples, so that any number of ranks
  /// learns what one does, to rounding; without virtual ranks.
  bool sync_batch_norm = false;
  /// Ranks exchange gradients as bf16 or fp16 (see dist::DataParallel), or as they are: none;
  /// without virtual ranks.
  std::string compress_gradients = "none";
  uint64_t seed = 0;           ///< of initial weights, order and augmentation
  double label_smoothing = 0;  ///< see CrossEntropyOptions
  /// What matrix products and convolutions work in: fp32, tf32, fp16, bf16. Parameters, gradients
  /// and the optimizer are f32 in all of them (see Autocast).
  std::string precision = "fp32";
  std::vector<std::string> metrics = {};  ///< of evaluations, see metric.h; empty: the task's
  InputRecipe input = {};                 ///< [input]
  ValidationRecipe validation = {};       ///< [validation]
  OptimizerRecipe optimizer = {};         ///< [optimizer]
  ScheduleRecipe schedule = {};           ///< [schedule]
  PruneRecipe prune = {};                 ///< [prune]
  ChannelsRecipe channels = {};           ///< [channels]
  DistillRecipe distill = {};             ///< [distill]
  SpeedRecipe speed = {};                 ///< [speed]

  /// The recipe as a TOML document that parses to the same.
  std::string toml() const;
  /// That without [speed], on which what is learned does not depend.
  std::string learned_toml() const;
};

/// The recipe that `name_or_path` names: a built-in one, or a file (anything that ends in .toml or
/// holds a slash). Throws ValueError with the nearest built-in name, or FileError.
Recipe load_recipe(const std::string& name_or_path);

/// Parses and checks a TOML document; `name` is for messages. Throws FileError for a document that
/// is not TOML, ValueError for unknown keys, wrong types and values out of range.
Recipe parse_recipe(std::string_view toml, const std::string& name);

/// Names of the built-in recipes.
std::vector<std::string> recipe_names();

/// The dtype of a recipe's Autocast scope: f16, bf16, or f32 for fp32 and tf32. TF32 is the matrix
/// units' way of multiplying f32 on cuda devices (see <brim/core/tf32.h>); others compute in full
/// f32.
DType autocast_dtype(const Recipe& recipe);

/// Checks a recipe that was changed after parsing: ranges, and that its texts are UTF-8. Throws
/// ValueError.
void check_recipe(const Recipe& recipe);

}  // namespace brim::train
