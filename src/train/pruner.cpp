#include "train/pruner.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace brim::train {
namespace {

constexpr std::string_view kModel = "model.", kOptimizer = "optimizer.", kSchedule = "schedule.";

void add_copies(std::string_view prefix, const StateDict& from, StateDict& to) {
  for (const auto& [name, value] : from) to[std::string(prefix) + name] = value.clone();
}

StateDict with_prefix(std::string_view prefix, const StateDict& all) {
  StateDict part;
  for (const auto& [name, value] : all)
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = value;
  return part;
}

}  // namespace

compress::PruneScope scope_of(const PruneRecipe& prune) {
  return prune.scope == "network" ? compress::PruneScope::network : compress::PruneScope::layer;
}

Pruner::Pruner(Trainer::State& state) : s_(state) {
  prune();
  (void)begin_round();
}

double Pruner::sparsity_now() const {
  const PruneRecipe& p = s_.recipe.prune;
  if (p.is_iterative())
    return s_.at.round == 0 ? 0 : compress::sparsity_of_round(p.sparsity, s_.at.round, p.rounds);
  // By a cubic curve (Zhu and Gupta 2017, "To prune, or not to prune").
  const double left =
      p.epochs > 0 ? std::max(0.0, 1 - static_cast<double>(s_.at.epoch + 1) / p.epochs) : 0;
  return p.sparsity * (1 - left * left * left);
}

void Pruner::prune() {
  const PruneRecipe& p = s_.recipe.prune;
  if (!p.has_masks()) return;
  const double before = std::exchange(pruned_to_, sparsity_now());
  if (before == pruned_to_) return;
  if (masks_) return masks_->prune(pruned_to_);
  masks_.emplace(*s_.model, compress::PruneOptions{.pattern = compress::parse_pattern(p.pattern),
                                                   .sparsity = pruned_to_,
                                                   .scope = scope_of(p),
                                                   .final_sparsity = p.sparsity,
                                                   .criterion = compress::Criterion::magnitude,
                                                   .dense = p.dense,
                                                   .layers = p.layers,
                                                   .groups = s_.output_groups});
  s_.output_groups = masks_->groups();
}

bool Pruner::is_not_sparse_yet() const {
  return s_.recipe.prune.has_masks() && pruned_to_ < s_.recipe.prune.sparsity;
}

void Pruner::apply() {
  if (masks_) masks_->apply();
}

void Pruner::apply_to_gradients() {
  if (masks_) masks_->apply_to_gradients();
}

int64_t Pruner::epochs_left() const {
  const PruneRecipe& p = s_.recipe.prune;
  const int64_t of_this_round = s_.recipe.epochs - s_.at.epoch;
  if (!p.is_iterative()) return of_this_round;
  return of_this_round + (p.rounds - s_.at.round) * (s_.recipe.epochs - p.rewind_epoch);
}

StateDict Pruner::remembered() const {
  const PruneRecipe& p = s_.recipe.prune;
  StateDict all;
  add_copies(kSchedule, s_.schedule->state_dict(), all);
  if (p.rewind != "weights") return all;
  add_copies(kOptimizer, s_.optimizer->state_dict(), all);
  if (p.rewind_weights.empty()) {
    add_copies(kModel, s_.model->state_dict(), all);
    return all;
  }
  StateDict now;
  add_copies("", s_.model->state_dict(), now);
  load_weights(WeightsFile(p.rewind_weights), *s_.model);
  check_finite(*s_.model, p.rewind_weights);
  add_copies(kModel, s_.model->state_dict(), all);
  (void)s_.model->load_state_dict(now);
  return all;
}

void Pruner::rewind() {
  s_.schedule->load_state_dict(with_prefix(kSchedule, s_.rewind));
  if (s_.recipe.prune.rewind != "weights") return;
  s_.optimizer->load_state_dict(with_prefix(kOptimizer, s_.rewind));
  masks_->rewind(*s_.model, with_prefix(kModel, s_.rewind));
}

bool Pruner::begin_round() {
  const PruneRecipe& p = s_.recipe.prune;
  Position& at = s_.at;
  if (!p.is_iterative()) return false;
  if (s_.rewind.empty() && at.epoch == p.rewind_epoch && at.batch == 0) s_.rewind = remembered();
  const bool is_over = at.epoch == s_.recipe.epochs || (p.is_trained && at.round == 0);
  if (!is_over || at.batch > 0 || at.round == p.rounds) return false;
  ++at.round;
  prune();
  rewind();
  at.epoch = p.rewind_epoch;
  return true;
}

}  // namespace brim::train
