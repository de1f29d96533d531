// The keys of a recipe, listed once; reading, writing and the lists of valid names come from here.
#pragma once

#include <string>
#include <vector>

#include <brim/nn/models.h>
#include <brim/train/metric.h>
#include <brim/train/recipe.h>
#include <brim/train/task.h>

namespace brim::train {

inline const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"sgd", "adam", "adamw", "rmsprop"};
  return names;
}
inline const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"constant", "step", "cosine", "one-cycle"};
  return names;
}

inline const std::vector<std::string>& prune_schedule_names() {
  static const std::vector<std::string> names = {"gradual", "iterative"};
  return names;
}
inline const std::vector<std::string>& prune_scope_names() {
  static const std::vector<std::string> names = {"layer", "network"};
  return names;
}
inline const std::vector<std::string>& rewind_names() {
  static const std::vector<std::string> names = {"weights", "learning-rate"};
  return names;
}

inline const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"fp32", "tf32", "fp16", "bf16"};
  return names;
}

inline const std::vector<std::string>& compression_names() {
  static const std::vector<std::string> names = {"none", "bf16", "fp16"};
  return names;
}

inline const std::vector<std::string>& places_to_augment() {
  static const std::vector<std::string> names = {"auto", "host", "device"};
  return names;
}

inline const std::vector<std::string>& token_names() {
  static const std::vector<std::string> names = {"u8", "u16", "i32", "u32", "i64"};
  return names;
}

inline const std::vector<std::string>& corrupt_names() {
  static const std::vector<std::string> names = {"raise", "skip"};
  return names;
}

/// Range of a number, ends included, or excluded where `open`.
struct Range {
  double low, high;
  bool open_low = false, open_high = false;
};

/// Calls visitor.choice / choices / option / number / numbers / flag / list / text / texts / line
/// for each
/// key, visitor.section around groups, and visitor.where around keys that only some tasks,
/// optimizers or schedules have.
template <class Visitor, class R>
void visit_recipe(Visitor& v, R& r) {
  constexpr double kMany = 1e9;
  v.choice("task", r.task, task_names());
  v.choice("model", r.model, nn::model_names());
  v.text("data", r.data);
  v.number("epochs", r.epochs, Range{1, 1e6});
  v.number("batch", r.batch, Range{1, 1e6});
  v.number("virtual_ranks", r.virtual_ranks, Range{0, 65536});
  v.flag("sync_batch_norm", r.sync_batch_norm);
  v.choice("compress_gradients", r.compress_gradients, compression_names());
  v.number("seed", r.seed, Range{0, 9.2e18});
  v.choice("precision", r.precision, precision_names());
  v.choices("metrics", r.metrics, metric_names());
  const auto is = [&](const char* task) { return r.task == task; };
  const bool own = !is("classify") && !is("multilabel") && !is("regress") && !is("segment") &&
                   !is("language");  // it may use what it likes
  v.where(!is("multilabel") && !is("regress"), "tasks classify, segment and language", [&] {
    v.number("label_smoothing", r.label_smoothing, Range{0, 1, false, true});
  });
  v.section("input", [&] {
    v.choice("on_corrupt", r.input.on_corrupt, corrupt_names());
    v.choices("transforms", r.input.transforms, transform_names());
    v.where(is("language") || own, "task language", [&] {
      v.number("window", r.input.window, Range{1, 1e6});
      v.choice("tokens", r.input.tokens, token_names());
      v.number("vocabulary", r.input.vocabulary, Range{1, 1e7});
    });
    v.where(is("classify") || is("regress") || own, "tasks classify and regress", [&] {
      v.texts("columns", r.input.columns);
      v.texts("targets", r.input.targets);
    });
    v.where(!is("language") && !is("classify"), "tasks multilabel, regress and segment", [&] {
      v.number("channels", r.input.channels, Range{0, 4});
    });
    v.where(!is("language"), "tasks of pictures and tables", [&] {
      v.list("mean", r.input.mean, Range{-kMany, kMany});
      v.list("std", r.input.std, Range{0, kMany, true});
      v.number("size", r.input.size, Range{0, 8192});
      v.number("crop_padding", r.input.crop_padding, Range{0, 256});
      v.flag("random_resized_crop", r.input.random_resized_crop);
      v.flag("scaled_decode", r.input.scaled_decode);
      v.flag("flip", r.input.flip);
    });
  });
  v.section("validation", [&] {
    v.number("fraction", r.validation.fraction, Range{0, 1, false, true});
    v.where(r.validation.fraction > 0, "a validation.fraction above 0", [&] {
      v.number("patience", r.validation.patience, Range{0, 1e6});
      v.option("by", r.validation.by, metric_names());
    });
  });
  v.section("optimizer", [&] {
    auto& o = r.optimizer;
    v.choice("name", o.name, optimizer_names());
    v.number("lr", o.lr, Range{0, kMany});
    v.number("weight_decay", o.weight_decay, Range{0, kMany});
    v.where(o.name == "sgd" || o.name == "rmsprop", "optimizers sgd and rmsprop", [&] {
      v.number("momentum", o.momentum, Range{0, 1});
    });
    v.where(o.name == "sgd", "optimizer sgd", [&] { v.flag("nesterov", o.nesterov); });
    v.where(o.name == "adam" || o.name == "adamw", "optimizers adam and adamw", [&] {
      v.number("beta1", o.beta1, Range{0, 1, false, true});
      v.number("beta2", o.beta2, Range{0, 1, false, true});
    });
    v.where(o.name != "sgd", "optimizers adam, adamw and rmsprop", [&] {
      v.number("eps", o.eps, Range{0, 1});
    });
    v.where(o.name == "rmsprop", "optimizer rmsprop", [&] {
      v.number("alpha", o.alpha, Range{0, 1});
    });
    v.number("clip_norm", o.clip_norm, Range{0, kMany});
  });
  v.section("schedule", [&] {
    auto& s = r.schedule;
    v.choice("name", s.name, schedule_names());
    v.where(s.name != "one-cycle", "schedules constant, step and cosine", [&] {
      v.number("warmup", s.warmup, Range{0, 1e6});
    });
    v.where(s.name == "step", "schedule step", [&] {
      v.number("step_size", s.step_size, Range{0, 1e6, true});
      v.number("gamma", s.gamma, Range{0, 1e3, true});
    });
    v.where(s.name == "cosine", "schedule cosine", [&] {
      v.number("min_lr", s.min_lr, Range{0, kMany});
    });
    v.where(s.name == "one-cycle", "schedule one-cycle", [&] {
      v.number("max_lr", s.max_lr, Range{0, kMany});
      v.number("pct_start", s.pct_start, Range{0, 1, true, true});
    });
  });
  v.section("prune", [&] {
    v.line("pattern", r.prune.pattern);
    v.where(!r.prune.pattern.empty(), "a prune.pattern", [&] {
      v.number("sparsity", r.prune.sparsity, Range{0, 1, true, true});
      v.choice("scope", r.prune.scope, prune_scope_names());
      v.choice("schedule", r.prune.schedule, prune_schedule_names());
      v.texts("dense", r.prune.dense);
      v.numbers("layers", r.prune.layers, Range{0, 1, true, true});
    });
    const auto is_pruned = [&](const char* schedule) {
      return !r.prune.pattern.empty() && r.prune.schedule == schedule;
    };
    v.where(is_pruned("gradual"), "a prune.pattern with schedule gradual", [&] {
      v.number("epochs", r.prune.epochs, Range{0, 1e6});
    });
    v.where(is_pruned("iterative"), "a prune.pattern with schedule iterative", [&] {
      v.number("rounds", r.prune.rounds, Range{1, 100});
      v.choice("rewind", r.prune.rewind, rewind_names());
      v.number("rewind_epoch", r.prune.rewind_epoch, Range{0, 1e6});
      v.line("rewind_weights", r.prune.rewind_weights);
      v.flag("is_trained", r.prune.is_trained);
    });
  });
  v.section("channels", [&] {
    v.numbers("inputs", r.channels.inputs, Range{1, 1e6});
    v.numbers("outputs", r.channels.outputs, Range{1, 1e6});
  });
  v.section("distill", [&] {
    v.line("teacher", r.distill.teacher);
    v.where(!r.distill.teacher.empty(), "a distill.teacher", [&] {
      v.number("weight", r.distill.weight, Range{0, 1, true});
      v.number("temperature", r.distill.temperature, Range{0, 1e3, true});
    });
  });
  v.section("speed", [&] {
    v.number("workers", r.speed.workers, Range{-1, 1024});
    v.choice("augment_on", r.speed.augment_on, places_to_augment());
    v.flag("data_on_device", r.speed.data_on_device);
    v.number("steps_per_graph", r.speed.steps_per_graph, Range{1, 10000});
    v.flag("compile", r.speed.compile);
    v.line("passes", r.speed.passes);
  });
}

}  // namespace brim::train
