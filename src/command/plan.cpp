// `brim plan RECIPE|MODEL`: the memory that a training step takes on a device that is not here, and
// what is moved to the host or computed again where that is more than there is.
#include <brim/train/forecast.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "command/command.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/memory_limit.h"
#include "command/profiled_device.h"
#include "command/recipe_or_network.h"
#include "command/report.h"
#include "command/say.h"
#include "core/check.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string recipe, device = "h100", batches = "32", limits, host_limit, precision, passes,
                      policy = "shortest", json;
  int64_t outputs = 1000, picture = 224;
  bool explain = false;
};

constexpr int64_t kMostBatch = 1'000'000;

constexpr std::array<std::pair<const char*, MemoryPolicy>, 5> kPolicies = {
    {{"shortest", MemoryPolicy::shortest},
     {"in-turn", MemoryPolicy::in_turn},
     {"vdnn-conv", MemoryPolicy::vdnn_conv},
     {"vdnn-all", MemoryPolicy::vdnn_all},
     {"vdnn-dynamic", MemoryPolicy::vdnn_dynamic}}};

MemoryPolicy policy_of(const std::string& text) {
  return std::ranges::find(kPolicies, text, [](const auto& entry) { return entry.first; })->second;
}

/// What a batch takes within a limit.
struct Row {
  int64_t batch, limit;
  std::optional<train::Forecast> forecast;  ///< empty: weights and one layer do not fit

  bool fits() const {
    return forecast && forecast->memory <= limit && (!forecast->fit || forecast->fit->fits);
  }
};

struct Largest {
  int64_t limit, batch;  ///< 0: not even one sample fits
};

class Planner {
 public:
  Planner(const Options& o, train::Recipe recipe) : o_(o), recipe_(std::move(recipe)) {}

  Row row(int64_t batch, int64_t limit) const {
    Row row{.batch = batch, .limit = limit, .forecast = {}};
    try {
      row.forecast =
          train::forecast(recipe_, {.batch = batch,
                                    .device = Device::sim(0),
                                    .outputs = o_.outputs,
                                    .picture = o_.picture,
                                    .memory_limit = limit,
                                    .passes = o_.passes.empty() ? recipe_.speed.passes : o_.passes,
                                    .memory_policy = policy_of(o_.policy)});
    } catch (const OutOfMemory&) {  // not even what is there before a step
    }
    return row;
  }
  /// By halves, from one that was tried; in multiples of what a batch is cut into. `tell` is told
  /// what is tried.
  Largest largest(const std::vector<Row>& tried, int64_t limit,
                  const std::function<void(int64_t batch)>& tell) const {
    const int64_t parts = std::max<int64_t>(recipe_.virtual_ranks, 1), most = kMostBatch / parts;
    int64_t fits = 0, too_large = most + 1;  // times `parts`
    for (const Row& row : tried) {
      if (row.limit != limit) continue;
      if (row.fits())
        fits = std::max(fits, row.batch / parts);
      else
        too_large = std::min(too_large, row.batch / parts);
    }
    const auto next = [&] {
      return too_large <= most ? (fits + too_large) / 2 : std::min(2 * fits, most);
    };
    for (int64_t count = next(); count > fits && count < too_large; count = next()) {
      tell(count * parts);
      (row(count * parts, limit).fits() ? fits : too_large) = count;
    }
    return {limit, fits * parts};
  }

 private:
  const Options& o_;
  const train::Recipe recipe_;
};

struct Counts {
  int64_t offloaded = 0, again = 0, masks = 0, rounded = 0;  ///< bytes
};
Counts counts_of(const train::Forecast& f) {
  Counts counts;
  if (!f.fit) return counts;
  for (const MemoryFit::Tensor& t : f.fit->tensors) {
    if (t.choice == "offload") counts.offloaded += t.bytes;
    if (t.choice == "offload bf16") counts.offloaded += t.bytes / 2;
    if (t.choice == "recompute") counts.again += t.bytes;
    if (t.choice == "keep mask") counts.masks += t.bytes;
    if (t.choice.ends_with("bf16")) counts.rounded += t.bytes;
  }
  return counts;
}

/// Of a step without a limit, what this one takes more.
double longer(const train::Forecast& f) {
  return f.fit && f.fit->seconds_before > 0 ? f.fit->seconds / f.fit->seconds_before - 1 : 0;
}

/// Why a step does not fit whose weights do.
std::string why_not(const train::Forecast& f, const std::string& policy) {
  const std::string others = format_bytes(f.memory - f.step.arena_bytes);
  if (f.fit && f.fit->host_is_short)
    return fmt::format("{} moves {} to the host, more than its limit", policy,
                       format_bytes(f.fit->host));
  if (f.fit && is_vdnn(policy_of(policy)))
    return fmt::format("by {} temporaries take {}, and {} are left beside {} and scratch memory",
                       policy, format_bytes(f.fit->least), format_bytes(f.fit->room), others);
  if (f.fit && f.fit->seconds_rounded > 0)
    return fmt::format("it would with --passes +round_activations, {:+.1f} %",
                       100 * (f.fit->seconds_rounded / f.fit->seconds_before - 1));
  if (f.fit && f.fit->least <= f.fit->room)
    return fmt::format(
        "temporaries might take as little as {} of the {} left beside {}, but no such plan was "
        "found; more of the host (--host-limit) may help",
        format_bytes(f.fit->least), format_bytes(f.fit->room), others);
  return fmt::format("{} besides temporaries, which take {}{}", others, f.fit ? "at least " : "",
                     format_bytes(f.fit ? f.fit->least : f.step.arena_bytes));
}

void print(const Row& row, const std::string& policy) {
  say(stdout, "{:>7} {:>10} ", row.batch, format_bytes(row.limit));
  if (!row.forecast) {
    say(stdout, "does not fit: weights, optimizer and batch alone are more\n");
    return;
  }
  const train::Forecast& f = *row.forecast;
  if (!row.fits()) {
    say(stdout, "does not fit: {}\n", why_not(f, policy));
    return;
  }
  const Counts counts = counts_of(f);
  say(stdout, "{:>10} {:>10} {:>11.3f} ms {:>8} {:>10} {:>11} {:>10} {:>10} {:>10}{}\n",
      format_bytes(f.memory),
      format_bytes(f.memory - f.step.arena_bytes + (f.fit ? f.fit->before : f.step.arena_bytes)),
      1e3 * f.step.step, f.fit ? fmt::format("{:+.1f} %", 100 * longer(f)) : "",
      counts.offloaded ? format_bytes(counts.offloaded) : "",
      counts.again ? format_bytes(counts.again) : "",
      counts.masks ? format_bytes(counts.masks) : "",
      counts.rounded ? format_bytes(counts.rounded) : "",
      f.step.host_bytes ? format_bytes(f.step.host_bytes) : "",
      f.fit && f.fit->host_is_short ? fmt::format("  nothing is moved: {}", why_not(f, policy))
                                    : "");
}

void print_choices(const Row& row) {
  if (!row.fits() || !row.forecast->fit) return;
  const MemoryFit& fit = *row.forecast->fit;
  say(stdout,
      "\nbatches of {} in {}: {} for temporaries, which take {} as they are and {} fitted\n",
      row.batch, format_bytes(row.limit), format_bytes(fit.room), format_bytes(fit.before),
      format_bytes(fit.after));
  if (std::isfinite(fit.link_bound) && fit.seconds_before > 0)
    say(stdout,
        "if they were only copied, the link to the host would make the step at least {:.1f} % "
        "longer\n",
        100 * fit.link_bound / fit.seconds_before);
  if (std::isfinite(fit.step_bound) && fit.seconds_before > 0)
    say(stdout, "whatever is chosen, it takes at least {:.1f} % longer\n",
        100 * fit.step_bound / fit.seconds_before);
  say(stdout, "{:<28}{:>11}  {:<13}{:>10}  {}\n", "made by", "size", "choice", "cost", "because");
  for (const MemoryFit::Tensor& t : fit.tensors)
    say(stdout, "{:<28}{:>11}  {:<13}{:>10}  {} ({} {})\n", t.made_by, format_bytes(t.bytes),
        t.choice, t.seconds > 0 ? fmt::format("{:.3f} ms", 1e3 * t.seconds) : "", t.why, t.dtype,
        t.shape);
}

Json to_json(const Row& row) {
  Json json = {{"batch", row.batch}, {"limit_bytes", row.limit}, {"fits", row.fits()}};
  if (!row.forecast) return json;
  const train::Forecast& f = *row.forecast;
  json["memory_bytes"] = f.memory;
  json["temporaries_bytes"] = f.step.arena_bytes;
  json["host_bytes"] = f.step.host_bytes;
  json["step_s"] = f.step.step;
  json["compute_s"] = f.step.compute;
  json["copies_s"] = f.step.copies;
  json["exposed_copies_s"] = f.step.exposed_copies;
  if (!f.fit) return json;
  const MemoryFit& fit = *f.fit;
  json["temporaries_before_bytes"] = fit.before;
  json["temporaries_least_bytes"] = fit.least;
  json["predicted_rounded_s"] = fit.seconds_rounded > 0 ? Json(fit.seconds_rounded) : Json(nullptr);
  json["host_is_short"] = fit.host_is_short;
  if (!row.fits()) return json;
  json["predicted_s"] = fit.seconds;
  json["predicted_before_s"] = fit.seconds_before;
  json["link_bound_s"] = finite(fit.link_bound);
  json["step_bound_s"] = finite(fit.step_bound);
  Json& tensors = json["tensors"] = Json::array();
  for (const MemoryFit::Tensor& t : fit.tensors)
    tensors.push_back({{"made_by", t.made_by},
                       {"shape", t.shape},
                       {"dtype", t.dtype},
                       {"bytes", t.bytes},
                       {"choice", t.choice},
                       {"seconds", t.seconds},
                       {"because", t.why}});
  return json;
}

int run(const Options& o) {
  check_json_path(o.json);
  const sim::DeviceProfile profile = use_profile(o.device);
  plan::check_passes(o.passes);
  const std::vector<int64_t> batches = parse_counts(o.batches, "--batch", kMostBatch);
  std::vector<int64_t> limits;
  if (o.limits.empty()) limits.push_back(static_cast<int64_t>(profile.memory));
  if (!o.limits.empty())
    for (const std::string& part : list_items(o.limits, "--limit"))
      limits.push_back(parse_bytes(part, "--limit"));
  train::Recipe recipe = recipe_or_network(o.recipe, "plan");
  if (!o.precision.empty()) recipe.precision = o.precision;
  BRIM_CHECK(recipe.task == "classify", ValueError,
             "[plan] {}: its task is {}; only steps that classify pictures are planned", o.recipe,
             recipe.task);
  BRIM_CHECK(recipe.speed.compile, ValueError,
             "[plan] {} has [speed] compile = false, and eager steps keep everything; leave it out",
             o.recipe);
  for (const int64_t limit : limits)
    if (limit > static_cast<int64_t>(profile.memory))
      raise<UsageError>("--limit {}: {} has {}", format_bytes(limit), profile.name,
                        format_bytes(static_cast<int64_t>(profile.memory)));

  set_host_limit(DeviceKind::sim, o.host_limit);
  const Planner planner(o, recipe);
  const bool tells = !is_stdout(o.json);
  std::vector<Row> rows;
  for (const int64_t limit : limits)
    for (const int64_t batch : batches) {
      rows.push_back(planner.row(batch, limit));
      if (tells && rows.size() == 1)
        say(stdout,
            "simulated: {}, {}, on {}; no device was used\n\n"
            "  batch      limit     memory    without           step   longer   offloaded  "
            "recomputed      masks       bf16"
            "    on host\n",
            o.recipe, recipe.precision, profile.name);
      if (tells) print(rows.back(), o.policy);
      std::fflush(stdout);
    }
  std::vector<Largest> largest;
  const bool shows = tells && isatty(fileno(stderr));
  for (const int64_t limit : limits)
    largest.push_back(planner.largest(rows, limit, [&](int64_t batch) {
      if (shows) say(stderr, "\r{}: does a batch of {} fit?\x1b[K", format_bytes(limit), batch);
    }));
  if (shows) say(stderr, "\r\x1b[K");
  if (tells) {
    say(stdout, "\n");
    for (const Largest& l : largest)
      say(stdout, "{}: {}\n", format_bytes(l.limit),
          l.batch > 0 ? fmt::format("batches of up to {} fit", l.batch)
                      : std::string("not even one sample fits"));
    if (o.explain)
      for (const Row& row : rows) print_choices(row);
  }
  if (o.json.empty()) return 0;
  Json json = {
      {"simulated", true},     {"recipe", o.recipe},       {"precision", recipe.precision},
      {"policy", o.policy},    {"device", profile.name},   {"device_source", profile.source},
      {"rows", Json::array()}, {"largest", Json::array()}, {"versions", build_versions()}};
  for (const Row& row : rows) json["rows"].push_back(to_json(row));
  for (const Largest& l : largest)
    json["largest"].push_back({{"limit_bytes", l.limit}, {"batch", l.batch}});
  write_json(json, o.json);
  return 0;
}

const Register plan_command(
    {"plan", "what fits into a device's memory, and what is moved or computed again for it",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<Options>();
       args.add("recipe", o->recipe,
                "built-in recipe, FILE.toml that classifies pictures, or a network's name")
           .required();
       args.add("--device", o->device, "t4, v100, l4, a100, h100, h200 or FILE.toml")
           .show_default();
       args.add("--batch", o->batches, "samples of a step, as 64,128,256").show_default();
       args.add("--limit", o->limits,
                "of its memory for all that a training takes, as 8G,12G (default: all of it)");
       args.add("--host-limit", o->host_limit,
                "of the host's memory that is pinned for the device, as 32G (default: no limit)");
       args.add("--classes", o->outputs, "of the network").range(1, 1000000).show_default();
       args.add("--size", o->picture, "of pictures, where the recipe says nothing")
           .range(1, 65536)
           .show_default();
       args.add("--precision", o->precision, "instead of the recipe's")
           .one_of({"fp32", "tf32", "fp16", "bf16"});
       args.add("--passes", o->passes,
                "that run, as -offload or -recompute: without moving or computing again; "
                "+round_activations: what has no room may be bf16 meanwhile");
       args.add("--policy", o->policy,
                "what decides what is moved: the search, the search without overlap, or vDNN's "
                "rules")
           .one_of({"shortest", "in-turn", "vdnn-conv", "vdnn-all", "vdnn-dynamic"})
           .show_default();
       args.flag("--explain", o->explain, "tell of each tensor what becomes of it, and why");
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
