// `brim forecast RECIPE`: what a training step would take on devices that are not here.
#include <brim/train/forecast.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "command/command.h"
#include "command/forecast_history.h"
#include "command/forecast_report.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/profiled_device.h"
#include "command/report.h"
#include "command/say.h"
#include "core/check.h"
#include "dist/profile_links.h"
#include "train/recipe_model.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// Reads, decodes and augments for half a second.
ForecastWork work_of(const train::Recipe& recipe) {
  constexpr double kSeconds = 0.5;
  const data::Loader loader =
      train::make_loader(recipe, data::Split::train, /*training=*/true, /*workers=*/0);
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  int64_t made = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    made += std::ssize(batch.samples);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds >= kSeconds) break;
  }
  const int64_t epochs = train::epochs_in_all(recipe);
  return {.samples = loader.samples() * epochs,
          .epochs = epochs,
          .seconds_per_sample = made > 0 ? seconds / static_cast<double>(made) : 0};
}

/// "1,8,1024". Throws UsageError.
std::vector<int> ranks_of(const std::string& text) {
  constexpr int kMost = 4096;
  std::vector<int> all{1};
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || count > kMost || (next != end && *next != ','))
      raise<UsageError>("--ranks '{}': give numbers from 1 to {}, as 1,8", text, kMost);
    if (count != 1) all.push_back(count);
    if (next == end) return all;
    at = next + 1;
  }
}

/// "solved", "filled:25" or "ready:64", in MiB. Throws UsageError.
std::pair<train::Bucketing, double> bucketing_of(const std::string& text) {
  constexpr double kMiB = 1 << 20;
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (text == "solved") return {train::Bucketing::solved, kMiB};
  double size = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = colon == std::string::npos ? end : text.data() + colon + 1;
  const auto [next, error] = std::from_chars(begin, end, size);
  const bool is_size = error == std::errc() && next == end && size >= 1e-3 && size <= 1e5;
  if ((kind != "filled" && kind != "ready") || !is_size)
    raise<UsageError>("--buckets '{}': give solved, or filled or ready with MiB, as filled:25",
                      text);
  return {kind == "filled" ? train::Bucketing::filled : train::Bucketing::ready, size * kMiB};
}

/// What is forecast of a row, as trainings measure it.
std::map<Forecasted, double> values_of(const ForecastRow& row, const ForecastArguments& o,
                                       const std::optional<ForecastWork>& work) {
  constexpr double kSmall = 0.01;  // of a step: an error of what is less would be one of nothing
  const train::Forecast& f = row.forecast;
  std::map<Forecasted, double> values = {{Forecasted::step, f.seconds_per_step},
                                         {Forecasted::memory, static_cast<double>(f.memory)},
                                         {Forecasted::compute, f.step.compute},
                                         {Forecasted::energy, f.energy},
                                         {Forecasted::time, f.seconds_per_step}};
  if (f.step.exposed > kSmall * f.step.step) values[Forecasted::exposed] = f.step.exposed;
  if (work && work->seconds_per_sample > 0) values[Forecasted::cores] = row.cores(*work, o.batch);
  return values;
}

int run(const ForecastArguments& o) {
  check_json_path(o.json);
  const std::vector<int> counts = ranks_of(o.ranks);
  const auto buckets = bucketing_of(o.buckets);
  const sim::DeviceProfile profile = use_profile(o.profile);
  train::Recipe recipe = train::load_recipe(o.recipe);
  if (!o.precision.empty()) recipe.precision = o.precision;
  std::optional<ForecastWork> work;
  if (!o.data.empty()) {
    recipe.data = o.data;
    if (o.samples)
      throw UsageError("--samples and --data: give one of them, for the data has its own");
    work = work_of(recipe);
  } else if (o.samples) {
    const int64_t epochs = train::epochs_in_all(recipe);
    work = ForecastWork{.samples = *o.samples * epochs, .epochs = epochs};
  } else if (o.price) {
    throw UsageError(
        "--price is for a whole training: give its data, --data, or --samples of an epoch");
  }
  const auto forecast = [&](const train::ForecastOptions& options) {
    std::optional<train::Forecast> found;
    try {
      found = train::forecast(recipe, options);
    } catch (const OutOfMemory&) {
    }
    if (!found || (found->fit && !found->fit->fits))
      raise<ValueError>("[forecast] batches of {} do not fit the {} of {}; give a smaller --batch",
                        options.batch, format_bytes(profile.memory), profile.name);
    return *found;
  };
  const auto links_of = [&](int ranks) {
    dist::Links links = dist::links_of(profile, ranks);
    if (o.network) links.host = *o.network * 1e9 / 8;
    if (o.network_delay) links.host_delay = *o.network_delay * 1e-6;
    links.ring = o.ring;
    if (o.hosts && ranks > 1) {
      if (ranks % *o.hosts != 0)
        raise<UsageError>("--ranks {} on --hosts {}: give each host as many ranks", ranks,
                          *o.hosts);
      links.ranks_per_host = ranks / static_cast<int>(*o.hosts);
    }
    if (links.ranks_per_host > 0 && ranks % links.ranks_per_host != 0)
      raise<UsageError>("--ranks {}, and {} has {} devices on a host: give a multiple, or --hosts",
                        ranks, o.profile, links.ranks_per_host);
    return links;
  };
  std::vector<ForecastRow> rows;
  for (const int ranks : counts) {
    train::ForecastOptions options{.batch = o.batch,
                                   .ranks = ranks,
                                   .links = links_of(ranks),
                                   .device = Device::sim(0),
                                   .outputs = o.outputs,
                                   .picture = o.picture,
                                   .step_spread = o.step_spread / 100};
    std::tie(options.bucketing, options.bucket_bytes) = buckets;
    rows.push_back({.ranks = ranks, .overlap = true, .forecast = forecast(options)});
    options.overlap = false;
    if (ranks > 1)
      rows.push_back({.ranks = ranks, .overlap = false, .forecast = forecast(options)});
  }
  const int most = *std::ranges::max_element(counts);
  const dist::Links links = links_of(most);
  const int hosts = links.ranks_per_host > 0 ? most / links.ranks_per_host : 1;
  // Only what brim train may do on such devices is kept: with their own links, and overlapping; the
  // spread of steps is what somebody supposes.
  const bool is_trainable = !o.network && !o.network_delay && !o.hosts && !o.ring &&
                            o.buckets == "solved" && o.step_spread == 0 &&
                            recipe.virtual_ranks <= 1;
  for (ForecastRow& row : rows) {
    if (!row.overlap || !is_trainable) continue;
    const std::string what = forecast_of(recipe, o.outputs, o.batch, row.ranks);
    for (const auto& [of, value] : values_of(row, o, work)) {
      const std::string key = of == Forecasted::cores ? with_data(what, recipe.data) : what;
      keep_forecast(profile.name, key, value, of);
      if (const auto off = past_error(profile.name, key, of).of_this_one) row.off[of] = *off;
    }
  }
  PastErrors past;
  for (const Forecasted of : kForecasted) past[of] = past_error(profile.name, "", of);
  if (!is_stdout(o.json)) {
    print_forecast(o, profile.name, links, hosts, rows, past);
    print_past_error(profile.name, past.at(Forecasted::step), rows);
    if (work) print_training(o, *work, rows, past);
  }
  if (o.json.empty()) return 0;
  Json list = Json::array();
  for (const ForecastRow& row : rows)
    list.push_back(to_json(row, o, rows[0].forecast.seconds_per_step, work));
  Json json = {
      {"simulated", true},
      {"recipe", o.recipe},
      {"precision", recipe.precision},
      {"batch", o.batch},
      {"device", profile.name},
      {"device_source", profile.source},
      {"hosts", hosts},
      {"network_gbit_s", links.host * 8e-9},
      {"network_delay_us", links.host_delay * 1e6},
      {"step_spread", o.step_spread / 100},
      {"ring", o.ring},
      {"buckets", o.buckets},
      {"samples", work ? Json(work->samples) : Json(nullptr)},
      {"seconds_per_sample", work && !o.samples ? Json(work->seconds_per_sample) : Json(nullptr)},
      {"forecasts", list},
      {"versions", build_versions()}};
  for (const auto& [of, errors] : past)
    json[of == Forecasted::step ? "past" : fmt::format("past_{}", name_of(of))] = to_json(errors);
  write_json(json, o.json);
  return 0;
}

const Register forecast_command(
    {"forecast", "what training would take on many devices that are not here",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ForecastArguments>();
       args.add("recipe", o->recipe, "built-in recipe or FILE.toml that classifies pictures")
           .required();
       args.add("--profile", o->profile, "t4, v100, l4, a100, h100, h200 or FILE.toml")
           .show_default();
       args.add("--ranks", o->ranks, "how many devices, as 1,8,64").show_default();
       args.add("--hosts", o->hosts,
                "that they are in, as many in each (default: as the profile says, else one)")
           .range(int64_t{1}, int64_t{4096});
       args.add("--network", o->network,
                "Gbit/s of each host, one direction (default: the profile's, else 100)")
           .range(1e-3, 1e5);
       args.add("--network-delay", o->network_delay,
                "microseconds between hosts (default: the profile's, else 20)")
           .range(0.0, 1e6);
       args.add("--step-spread", o->step_spread,
                "standard deviation of a device's time to compute a step, in % of its mean: ranks "
                "wait for the slowest one")
           .range(0.0, 100.0)
           .show_default();
       args.flag("--ring", o->ring,
                 "all-reduces go around one ring of all ranks, as NCCL's do, and not by brim's "
                 "exchanges");
       args.add("--buckets", o->buckets,
                "of gradients that are reduced together: solved by brim, filled:MIB as PyTorch's "
                "DDP does (25), or ready:MIB as Horovod does (64)")
           .show_default();
       args.add("--batch", o->batch, "samples of each device").range(1, 1000000).show_default();
       args.add("--classes", o->outputs, "of the network").range(1, 1000000).show_default();
       args.add("--size", o->picture, "of pictures, where the recipe says nothing")
           .range(1, 65536)
           .show_default();
       args.add("--data", o->data,
                "that the recipe trains on: tells how long all its epochs take, their energy, and "
                "how many cores bring the input, by a loader that is measured here");
       args.add("--samples", o->samples,
                "of an epoch, where the data is not at hand: tells the same but for the cores")
           .range(int64_t{1}, int64_t{1} << 40);
       args.add("--price", o->price,
                "of a device for an hour, in any currency; with --data or --samples")
           .range(0.0, 1e6);
       args.add("--precision", o->precision, "instead of the recipe's")
           .one_of({"fp32", "tf32", "fp16", "bf16"});
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
