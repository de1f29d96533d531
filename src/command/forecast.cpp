// `brim forecast RECIPE`: what a training step would take, on devices that are not here as well.
#include <brim/core/threads.h>
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
#include "core/runtime.h"
#include "dist/profile_links.h"
#include "train/recipe_model.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// Seconds of a sample whose batches are read, decoded and augmented by one thread, for half a
/// second or an epoch. `first` gets the first batch.
double seconds_per_sample(const data::Loader& loader, data::Batch& first) {
  constexpr double kSeconds = 0.5;
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  int64_t made = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    if (made == 0) first = batch;
    made += std::ssize(batch.samples);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds >= kSeconds) break;
  }
  return made > 0 ? seconds / static_cast<double>(made) : 0;
}

/// Of the data that the recipe names, with batches of `batch`.
ForecastWork measured_work_of(train::Recipe recipe, int64_t batch) {
  recipe.batch = batch;
  const data::Loader loader =
      train::make_loader(recipe, data::Split::train, /*training=*/true, /*workers=*/0);
  const int64_t epochs = train::epochs_in_all(recipe);
  if (!loader.is_iterable() && loader.samples() < batch)
    raise<UsageError>("--batch {}: {} has {} samples for training; give a batch that it fills",
                      batch, recipe.data, loader.samples());
  ForecastWork work{.samples = loader.samples() * epochs,
                    .epochs = epochs,
                    .classes = std::ssize(loader.source().classes())};
  // What is read or drawn once may be in memory in all epochs after that.
  const double first_epoch = seconds_per_sample(loader, work.first);
  const double later = epochs > 1 ? seconds_per_sample(loader, work.first) : first_epoch;
  work.seconds_per_sample =
      (first_epoch + static_cast<double>(epochs - 1) * later) / static_cast<double>(epochs);
  return work;
}

/// "1,8,1024". Throws UsageError.
std::vector<int> counts_of(const char* option, const std::string& text) {
  constexpr int kMax = 4096;
  std::vector<int> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || count > kMax || (next != end && *next != ','))
      raise<UsageError>("{} '{}': give numbers from 1 to {}, as 1,8", option, text, kMax);
    all.push_back(count);
    if (next == end) return all;
    at = next + 1;
  }
}

/// The number of ranks that come first are one, which the others are compared with.
std::vector<int> ranks_of(const ForecastArguments& o, const ForecastDevice& device) {
  const char* const usual = device.profile ? "1,8" : "1";
  std::vector<int> counts = counts_of("--ranks", o.ranks.empty() ? usual : o.ranks);
  std::erase(counts, 1);
  counts.insert(counts.begin(), 1);
  return counts;
}

/// Threads of a rank on the CPU, as given or as usual; 0 for other devices.
std::vector<int> threads_of(const ForecastArguments& o, const ForecastDevice& device) {
  if (device.device.is_cpu())
    return o.threads.empty() ? std::vector{num_threads()} : counts_of("--threads", o.threads);
  if (!o.threads.empty())
    raise<UsageError>(
        "--threads applies to the CPU alone, not to {}: leave it out, or give --device cpu",
        device.name);
  return {0};
}

/// "h100" or a file: a device that need not be here; "cpu", "cuda:0": one that is. Throws what
/// load_profile() does, and DeviceError.
ForecastDevice device_of(const std::string& text) {
  const std::string_view kind = std::string_view(text).substr(0, text.find(':'));
  if (kind == "sim")
    raise<UsageError>(
        "--device {}: a virtual accelerator is what its profile says; give that, as "
        "--device h100",
        text);
  if (kind != "cpu" && kind != "cuda") {
    const sim::DeviceProfile profile = use_profile(text);
    return {.device = Device::sim(0),
            .name = profile.name,
            .source = profile.source,
            .profile = profile};
  }
  const Device device(text);
  const std::string description = runtime(device.kind).description(device.index);
  return {.device = device, .name = description.substr(0, description.find(','))};
}

/// What connects ranks on such devices: what the profile says, or machines of a rank each.
dist::Links links_of(const ForecastDevice& device, int ranks) {
  if (device.profile) return dist::links_of(*device.profile, ranks);
  constexpr double kMainMemory = 20e9;  // bytes/s, through which a CPU's gradients go
  dist::Links links{.ranks_per_host = 1};
  if (device.device.is_cpu()) links.memory = kMainMemory;
  return links;
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
  // Workers take cores now and then: most steps have them all.
  std::map<Forecasted, double> values = {{Forecasted::step, f.seconds_per_step - f.shared},
                                         {Forecasted::memory, static_cast<double>(f.memory)},
                                         {Forecasted::compute, f.step.compute},
                                         {Forecasted::energy, f.energy},
                                         {Forecasted::time, f.seconds_per_step}};
  if (f.step.exposed > kSmall * f.step.step) values[Forecasted::exposed] = f.step.exposed;
  if (work && work->seconds_per_sample > 0) values[Forecasted::cores] = row.cores(*work, o.batch);
  return values;
}

/// Of the training, if there is enough to say of it. Takes the data's name.
std::optional<ForecastWork> work_of(const ForecastArguments& o, train::Recipe& recipe) {
  if (!o.data.empty()) {
    recipe.data = o.data;
    if (o.samples)
      throw UsageError("--samples and --data: give one of them, for the data has its own");
    return measured_work_of(recipe, o.batch);
  }
  if (o.samples) {
    const int64_t epochs = train::epochs_in_all(recipe);
    return ForecastWork{.samples = *o.samples * epochs, .epochs = epochs};
  }
  if (o.price)
    throw UsageError(
        "--price is for a whole training: give its data, --data, or --samples of an epoch");
  return {};
}

/// Throws UsageError for ranks that do not fill their hosts.
dist::Links links_of(const ForecastArguments& o, const ForecastDevice& device, int ranks) {
  dist::Links links = links_of(device, ranks);
  if (o.network) links.host = *o.network * 1e9 / 8;
  if (o.network_delay) links.host_delay = *o.network_delay * 1e-6;
  links.ring = o.ring;
  if (o.hosts && ranks > 1) {
    if (!device.profile && ranks != *o.hosts)
      raise<UsageError>(
          "--ranks {} on --hosts {}: each rank has a machine like this one to itself; "
          "leave --hosts out",
          ranks, *o.hosts);
    if (ranks % *o.hosts != 0)
      raise<UsageError>("--ranks {} on --hosts {}: give each host as many ranks", ranks, *o.hosts);
    links.ranks_per_host = ranks / static_cast<int>(*o.hosts);
  }
  if (links.ranks_per_host > 0 && ranks % links.ranks_per_host != 0)
    raise<UsageError>("--ranks {}, and {} has {} devices on a host: give a multiple, or --hosts",
                      ranks, o.device, links.ranks_per_host);
  return links;
}

/// Throws ValueError where it does not fit into the device.
train::Forecast forecast(const train::Recipe& recipe, const train::ForecastOptions& options,
                         const ForecastDevice& device) {
  std::optional<train::Forecast> found;
  try {
    found = train::forecast(recipe, options);
  } catch (const OutOfMemory&) {
  }
  if (found && (!found->fit || found->fit->fits)) return *found;
  const auto memory =
      device.profile
          ? device.profile->memory
          : static_cast<int64_t>(runtime(device.device.kind).memory(device.device.index).total);
  raise<ValueError>("[forecast] batches of {} do not fit the {} of {}; give a smaller --batch",
                    options.batch, format_bytes(memory), device.name);
}

/// Keeps what is forecast, and looks up how far forecasts like it were off.
void look_up(ForecastRow& row, const ForecastArguments& o, const ForecastDevice& device,
             const train::Recipe& recipe, const std::optional<ForecastWork>& work) {
  // Only what brim train may do on such devices is kept: with their own links, and overlapping; the
  // spread of steps is what somebody supposes.
  const bool is_trainable = !o.network && !o.network_delay && !o.hosts && !o.ring &&
                            o.buckets == "solved" && o.step_spread == 0 &&
                            recipe.virtual_ranks <= 1 && recipe.prune.pattern.empty() &&
                            recipe.distill.teacher.empty();
  // What links a machine like this one would have is supposed, too.
  const bool has_own_links = device.profile || row.ranks == 1;
  if (row.overlap && is_trainable && has_own_links) {
    const std::string what = forecast_of(recipe, o.outputs, o.batch, row.ranks);
    for (const auto& [of, value] : values_of(row, o, work)) {
      const std::string key = of == Forecasted::cores ? with_data(what, recipe.data) : what;
      keep_forecast(row.kept_as, key, value, of);
      if (const auto off = past_error(row.kept_as, key, of).of_this_one) row.off[of] = *off;
    }
  }
  for (const Forecasted of : kForecasted) row.past[of] = past_error(row.kept_as, "", of);
}

int run(ForecastArguments o) {
  check_json_path(o.json);
  const auto buckets = bucketing_of(o.buckets);
  const ForecastDevice device = device_of(o.device);
  const std::vector<int> counts = ranks_of(o, device);
  train::Recipe recipe = train::load_recipe(o.recipe);
  if (!o.precision.empty()) recipe.precision = o.precision;
  const std::optional<ForecastWork> work = work_of(o, recipe);
  constexpr int64_t kUsualClasses = 1000, kUsualSize = 224;  // ImageNet's
  const bool has_pictures = work && work->first.x.defined() && work->first.x.rank() == 4;
  if (o.outputs == 0) o.outputs = work && work->classes > 0 ? work->classes : kUsualClasses;
  if (o.picture == 0) o.picture = has_pictures ? work->first.x.shape()[2] : kUsualSize;
  std::vector<ForecastRow> rows;
  for (const int threads : threads_of(o, device)) {
    if (threads > 0) set_num_threads(threads);
    double one = 0;
    for (const int ranks : counts) {
      train::ForecastOptions options{
          .batch = o.batch,
          .ranks = ranks,
          .links = links_of(o, device, ranks),
          .device = device.device,
          .kernels = device.profile ? KernelTimes::modelled : KernelTimes::measured,
          .seconds_per_sample = work ? work->seconds_per_sample : 0,
          .x = work ? work->first.x : Tensor(),
          .y = work ? work->first.y : Tensor(),
          .outputs = o.outputs,
          .picture = o.picture,
          .step_spread = o.step_spread / 100};
      std::tie(options.bucketing, options.bucket_bytes) = buckets;
      for (const bool overlap : {true, false}) {
        if (!overlap && ranks == 1) continue;
        options.overlap = overlap;
        ForecastRow row{.threads = threads,
                        .ranks = ranks,
                        .overlap = overlap,
                        .forecast = forecast(recipe, options, device),
                        .kept_as = device.profile ? device.name : measured_name_of(device.device)};
        if (ranks == 1) one = row.forecast.seconds_per_step;
        row.one = one;
        look_up(row, o, device, recipe, work);
        rows.push_back(std::move(row));
      }
    }
  }
  const int most = *std::ranges::max_element(counts);
  const dist::Links links = links_of(o, device, most);
  const int hosts = links.ranks_per_host > 0 ? most / links.ranks_per_host : 1;
  if (!is_stdout(o.json)) {
    print_forecast(o, device, links, hosts, rows);
    print_past_errors(rows);
    if (work) print_training(o, *work, rows);
  }
  if (o.json.empty()) return 0;
  Json list = Json::array();
  for (const ForecastRow& row : rows) list.push_back(to_json(row, o, work));
  Json json = {
      {"simulated", device.profile || most > 1},
      {"recipe", o.recipe},
      {"precision", recipe.precision},
      {"batch", o.batch},
      {"device", device.name},
      {"device_source", device.source},
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
  add_past(json, rows[0].past);
  write_json(json, o.json);
  return 0;
}

const Register forecast_command(
    {"forecast", "what training would take, on devices that are here or not, and on many of them",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ForecastArguments>();
       args.add("recipe", o->recipe, "built-in recipe or FILE.toml that classifies pictures")
           .required();
       args.add("--device", o->device,
                "t4, v100, l4, a100, h100, h200 or FILE.toml; or one that is here, cpu or cuda:N, "
                "whose kernels are measured")
           .show_default();
       args.add("--threads", o->threads,
                "of each rank, as 1,2, where the device is the CPU (default: all)");
       args.add("--ranks", o->ranks,
                "how many devices, as 1,8,64 (default: 1,8; of a device that is here, 1)");
       args.add("--hosts", o->hosts,
                "that they are in, as many in each (default: as the profile says, else one; of "
                "machines as this one, a rank each)")
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
       args.add("--classes", o->outputs, "of the network (default: as the data has, else 1000)")
           .range(1, 1000000);
       args.add("--size", o->picture,
                "of pictures, where the recipe says nothing (default: as the data has, else 224)")
           .range(1, 65536);
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
