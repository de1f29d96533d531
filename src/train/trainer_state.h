// What a Trainer is made of. Construction is in trainer.cpp, going on from a checkpoint in
// resume.cpp, the loop in training_loop.cpp.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/compress/prune.h>
#include <brim/data/device_loader.h>
#include <brim/data/loader.h>
#include <brim/dist/data_parallel.h>
#include <brim/nn/module.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/optimizer.h>
#include <brim/optim/schedule.h>
#include <brim/train/task.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>

#include "data/file.h"
#include "train/run_folder.h"
#include "train/run_state.h"

namespace brim::train {

/// All that a recipe's data has.
struct OpenData {
  TaskData train;
  std::optional<TaskData> validation, test;
};

/// What the ranks of a process open once: the first one does, and the others wait for it.
class SharedData {
 public:
  /// In the first rank.
  void set(const OpenData& data) { promise_.set_value(data); }
  /// In the others. Throws DistError if the first one ended before set().
  const OpenData& get() const;
  /// The first rank has ended.
  void end();

 private:
  std::promise<OpenData> promise_;
  const std::shared_future<OpenData> data_ = promise_.get_future().share();
};

struct Trainer::State {
  struct Split {
    TaskData data;
    data::Loader loader;
    bool is_shared = false;                  // by the ranks, which evaluate it together
    std::optional<data::DeviceLoader> feed;  // of the loader
  };

  Recipe recipe;
  TrainOptions options;         // of this rank alone: one device, and its group
  std::vector<Device> devices;  // of all ranks of this process
  std::unique_ptr<Task> task;
  std::string decisive_metric;                   // of the validation split; "": its loss
  std::optional<Split> train, validation, test;  // the last two where there is such a split
  std::unique_ptr<nn::Module> model;
  std::unique_ptr<nn::Module> teacher;  // of Recipe::distill; null: none
  std::string teacher_hash;             // of its file
  int64_t virtual_ranks = 1;
  std::optional<dist::DataParallel> parallel;  // of model, where there are virtual ranks
  std::optional<bool> stop_agreed;             // by all ranks, while they train
  int64_t heat_pauses = 0;                     // of several ranks together
  double heat_seconds = 0;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  std::optional<optim::GradScaler> scaler;  // in fp16
  std::vector<Tensor> parameters;
  std::string out;
  std::optional<data::EmptyFolders> made;  // goes with the run if nothing is put there
  std::optional<FolderLock> lock;          // of `out`
  Position at;                             // where this run begins, then where it is
  BestCheckpoint best;                     // in `out`, when this run begins
  Shape input;                             // of one x
  compress::OutputGroups output_groups;    // of masks, once there are some
  StateDict rewind;                        // what rounds of pruning go back to, once it is known
  std::string resumed_from;
  int64_t steps_before = 0;

  /// Of one rank of a process whose ranks work on `devices`. All ranks of the run make theirs at
  /// the same time. Throws what Trainer's constructor does.
  State(const Recipe& recipe, TrainOptions options, std::vector<Device> devices,
        SharedData& shared);
  /// Those of TrainOptions::weights. Throws FileError.
  void begin_with_weights();
  /// Of Recipe::prune, by samples of the training split: the model is a smaller one then.
  void leave_out_channels();
  /// Of a checkpoint whose run left some out.
  void take_channels(const ChannelsRecipe& channels);
  /// What follows from the model.
  void make_optimizer_of_model();
  /// The network of Recipe::distill. Throws FileError, ValueError.
  std::unique_ptr<nn::Module> make_teacher();
  /// Opens all splits.
  OpenData open() const;
  TaskData open(data::Split split, bool training, const TaskData* like = nullptr) const;
  /// `shared`: of all ranks, a part for each.
  Split split_of(TaskData data, bool training, bool shared = false) const;
  WeightsInfo weights_info() const;

  /// For messages: what there is one part of a batch for.
  const char* rank_word() const { return devices.size() > 1 ? "device" : "rank"; }
  int rank() const { return options.group ? options.group->rank() : 0; }
  int world_size() const { return options.group ? options.group->size() : 1; }
  /// By this process.
  bool stop_wanted() const {
    return options.stop && options.stop->load(std::memory_order_relaxed) != 0;
  }
  bool stop_asked() const { return stop_agreed.value_or(stop_wanted()); }
  StepMode mode() const { return {options.compile, options.passes}; }
  /// How well the network does there, all ranks together where they share it; empty where there is
  /// none, or on a stop. Throws FileError.
  std::optional<Evaluation> evaluate(std::optional<Split>& on, int64_t most_wrong = 0);
  /// For opening data and for its upload: reports, and whether to go on.
  data::OpenProgress open_progress(const char* stage = "open") const;
  /// Where the loaders' batches go.
  LoaderPlace place() const;
  data::DeviceLoader make_feed(const data::Loader& from) const;
  /// Throws DistError, naming both, where another rank has other settings or other data.
  void check_ranks_agree(const std::string& text) const;
  /// Of the recipe, of the run to go on from, or one for each rank. Throws ValueError.
  int64_t choose_virtual_ranks() const;
  /// All ranks begin where rank 0 does. Throws FileError, ValueError, DistError.
  void prepare_ranks();
  /// Makes and locks `out`, and finds where to begin. Throws FileError, ValueError.
  void prepare_out();
  /// Takes everything over from a sound checkpoint, or throws FileError or ValueError.
  void load(const std::string& path);
  /// This rank's part of Trainer::train().
  TrainResult train_rank();
  /// The whole state between two steps. Throws ValueError if the loss is not finite.
  RunState snapshot() const;
};

}  // namespace brim::train
