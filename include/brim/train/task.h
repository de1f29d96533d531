// What a network is trained for, by name: where its data comes from, its loss, how well it does.
//
//   class Ranking final : public train::Task { ... };
//   const bool ranking = train::register_task(
//       "ranking", [](const train::Recipe&) { return std::make_unique<Ranking>(); });
//   int main(int argc, char** argv) { return brim::cli(argc, argv); }
//
// This program is `brim` with one more task: task = "ranking" in a recipe. <brim/command/cli.h>.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/data/batch.h>
#include <brim/data/dataset.h>
#include <brim/data/source.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// A split of what Recipe::data names, open.
struct TaskData {
  data::DatasetPtr samples{};  ///< fields "x", "y" and whatever the task's loss knows
  /// Instead of samples: labelled pictures, which are also augmented on the device and resident
  /// there (TrainOptions); the recipe's [input] says how they become batches.
  std::shared_ptr<const data::Source> pictures{};
  int64_t outputs = 0;                 ///< that the network shall have
  std::vector<std::string> names{};    ///< of the outputs, where they have any
  std::vector<std::string> targets{};  ///< columns of "y", likewise
  std::vector<std::string> columns{};  ///< of "x", where it is a row of a table
};

/// How data is to be opened.
struct DataRequest {
  data::Split split = data::Split::train;  ///< which split
  bool training = false;                   ///< with what is random
  data::OpenProgress progress{};           ///< told how far it is
  /// Data that it must match, as the training split, or that which weights were trained on: its
  /// columns, targets and names, where it has any. May be null.
  const TaskData* like = nullptr;
};

/// What is learned: its data, its loss and its metrics. Those of one's own derive from it and are
/// registered.
class Task {
 public:
  virtual ~Task() = default;

  /// Opens Recipe::data where that is no registered name. Throws FileError, data::NoSuchSplit; by
  /// default ValueError.
  virtual TaskData open(const Recipe& recipe, const DataRequest& request) const;

  /// The mean loss of a batch, or of a part of one, given what the network put out for its x.
  /// `training`: with what is for training alone, as label smoothing. A compiled step replays what
  /// this does with tensors; Batch::samples and index are empty and 0 there.
  virtual Tensor loss(const Tensor& output, const data::Batch& batch, bool training) const = 0;

  /// How far an output is from what another network, the teacher, puts out for the same samples
  /// (Recipe::distill); 0 where they are equal. By default the mean square difference of them
  /// (Ba and Caruana 2014), without the temperature.
  virtual Tensor imitation_loss(const Tensor& output, const Tensor& teacher,
                                double temperature) const;

  /// Names of the metrics (metric.h) of an evaluation; the first one decides which checkpoint is
  /// the best where there is a validation split.
  virtual std::vector<std::string> metrics() const = 0;

  /// Whether samples follow each other, as the parts of a text do: the validation split is then the
  /// end of the data, and not drawn.
  virtual bool in_order() const { return false; }
};

/// Makes a task for a recipe.
using TaskFactory = std::function<std::unique_ptr<Task>(const Recipe& recipe)>;

/// Make names known to recipes. All are thread-safe and throw ValueError when a name is taken.
///
/// Recipe::task. These are known: classify, multilabel, regress, segment, language.
bool register_task(const std::string& name, TaskFactory factory);
std::vector<std::string> task_names();  ///< all that are known, in alphabetical order
/// Throws ValueError naming the nearest valid name.
std::unique_ptr<Task> make_task(const Recipe& recipe);

/// Recipe::data, "NAME" or "NAME:PARAMETERS". Throws data::NoSuchSplit for splits that it has not
/// got, and other errors.
using DataOpener = std::function<TaskData(const std::string& parameters, const Recipe& recipe,
                                          const DataRequest& request)>;
/// Makes `name` known as Recipe::data.
bool register_data(const std::string& name, DataOpener opener);
std::vector<std::string> data_names();  ///< all that are known, in alphabetical order

/// InputRecipe::transforms, each of which makes samples of samples (data::map); empty where there
/// is nothing to do, as for what is random when it is not `training`.
using SampleTransform = std::function<void(const data::Sample& in, data::Sample& out)>;
/// Makes the transform of one data set; `training`: with what is random.
using SampleTransformFactory = std::function<SampleTransform(const Recipe& recipe, bool training)>;
/// Makes `name` known as InputRecipe::transforms.
bool register_transform(const std::string& name, SampleTransformFactory factory);
std::vector<std::string> transform_names();  ///< all that are known, in alphabetical order

}  // namespace brim::train
