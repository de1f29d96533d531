// Which plans the training loop has, and what its result says of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "train/training_loop.h"

namespace brim::train {

void TrainingLoop::compile_steps() {
  if (!s_.options.compile) return;
  compiled_.emplace(compile_options());
  if (s_.options.keep_gradients) keeping_.emplace(compile_options(/*keep_gradients=*/true));
  if (!s_.options.data_on_device) return;
  const auto step = [this] { update(parts_of(feed_.next_in_step())); };
  resident_.emplace(step, compile_options());
  if (keeping_) resident_keeping_.emplace(step, compile_options(/*keep_gradients=*/true));
}

CompileOptions TrainingLoop::compile_options(bool keep_gradients) {
  return {.passes = s_.options.passes,
          .keep_gradients = keep_gradients,
          .fall_back = true,
          .fixed_layouts = s_.virtual_ranks > 1,  // so that any number of ranks agrees
          .progress =
              [this](double fraction) {
                if (s_.options.stage) s_.options.stage("measure layouts", fraction);
              },
          .warn = s_.options.warn};
}

bool TrainingLoop::keep_gradients_of(int64_t batch) {
  if (keeps_gradients_) s_.optimizer->zero_grad();  // as the other plan has met them
  keeps_gradients_ = keeping_ && batch + 1 == per_epoch_;
  return keeps_gradients_;
}

void TrainingLoop::tell_compiled(TrainResult& result) const {
  if (!compiled_) {
    result.compile = {.eager_steps = result.steps, .fell_back = "switched off"};
    return;
  }
  struct Part {
    const char* of;
    CompileStats stats;
    std::string plan;
    PlanTimeline timeline;
  };
  std::vector<Part> parts;
  const auto add = [&parts](const char* of, const auto& steps) {
    if (steps) parts.push_back({of, steps->stats(), steps->explain(), steps->timeline()});
  };
  add("full batches", resident_);
  add(resident_ ? "other batches" : "all batches", compiled_);
  add("full batches, keeping gradients", resident_keeping_);
  add("batches, keeping gradients", keeping_);
  const auto has_run = [](const Part& part) {
    return part.stats.plans > 0 || part.stats.eager_steps > 0 || !part.stats.fell_back.empty();
  };
  if (std::ranges::any_of(parts, has_run))
    std::erase_if(parts, [&](const Part& part) { return !has_run(part); });
  else
    parts.resize(1);
  result.compile = parts[0].stats;  // of most steps
  result.timeline = std::move(parts[0].timeline);
  result.plan = parts.size() == 1 ? parts[0].plan : "";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts.size() > 1) result.plan += fmt::format("of {}:\n{}", parts[i].of, parts[i].plan);
    if (i == 0) continue;
    result.compile.plans += parts[i].stats.plans;
    result.compile.replays += parts[i].stats.replays;
    result.compile.eager_steps += parts[i].stats.eager_steps;
    result.compile.compile_ms += parts[i].stats.compile_ms;
  }
}

}  // namespace brim::train
