// What commands that make a network smaller share: a trainer with the network's weights, its
// evaluations before and after, and the time of its forward pass.
#pragma once

#include <brim/train/trainer.h>
#include <brim/train/weights.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command/command.h"
#include "command/progress.h"

namespace brim::command {

/// What all of them are asked.
struct CompressionArguments {
  std::string recipe, weights, data, out, device = "auto", json;
  std::optional<double> lr;
  std::optional<int64_t> batch;
  int threads = 0;

  /// Adds what has the same meaning for all.
  void add_to(Arguments args);
};

/// The asked recipe, or the weights' own, with what the arguments change; `what` names the command.
train::Recipe recipe_of(const CompressionArguments& o, const char* what);

/// Checks outputs and the launch, chooses the device and calls `body` with it.
int run_compression(const CompressionArguments& o, const char* what,
                    const std::function<int(Device)>& body);

class CompressionRun {
 public:
  using Json = nlohmann::ordered_json;

  /// `trained_in`: where checkpoints go; empty: there are none.
  CompressionRun(const CompressionArguments& o, const char* what, Device device,
                 train::Recipe recipe, const std::string& trained_in);

 protected:
  /// Of the test split, reported as `what` and under `key`; of classes also by how much the
  /// accuracy differs from that of the first evaluation, with the interval that the same samples
  /// tell of it. Throws ValueError where the loss is not finite.
  void evaluate(const char* what, const char* key);
  /// The median times of the forward pass in batches of 1 and of 16, before and after `change`;
  /// told, and in the JSON's "times" as `before`_s and `after`_s. Nothing but
  /// `change` for other tasks than classification.
  void tell_times(const char* before, const char* after, const std::function<void()>& change);
  /// What is written at the end.
  void write();
  bool is_stopped() const { return stop_ != 0; }
  /// Exit status of a stopped run.
  int stopped(const std::string& what_to_do) const;

  const CompressionArguments& o_;
  const bool quiet_;
  const char* const what_;
  const Device device_;
  const train::Recipe recipe_;
  ProgressDisplay display_;
  const std::atomic<int>& stop_;
  train::Trainer trainer_;
  Json json_;

 private:
  train::TrainOptions options(const std::string& out);
  /// Whether each sample's class is predicted right; empty for other tasks.
  std::vector<bool> right_samples();

  std::vector<bool> right_before_;  // of the first evaluation
};

}  // namespace brim::command
