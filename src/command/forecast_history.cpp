#include "command/forecast_history.h"

#include <brim/core/sim.h>
#include <brim/core/threads.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/cpu/runtime/isa.h"
#include "backend/sim/builtin_profiles.h"
#include "backend/sim/device.h"
#include "command/monitor_report.h"
#include "command/training_options.h"
#include "core/cache_file.h"
#include "core/runtime.h"

namespace brim::command {
namespace {

constexpr const char* kForecast = "forecast ";
constexpr const char* kMeasured = "measured ";
constexpr const char* kSimulated = "simulated ";
/// What stands behind these for other things than a step's seconds, and what such a value is
/// multiplied by, as the file takes numbers below 3600 for sound.
struct Kept {
  const char* name;
  const char* prefix;
  double scale;
};
const Kept& kept(Forecasted of) {
  static constexpr std::array<Kept, kForecasted.size()> kAll = {
      {{"step", "", 1},
       {"memory", "memory of ", 1.0 / (1 << 30)},
       {"compute", "compute of ", 1},
       {"exposed", "exposed communication of ", 1},
       {"energy", "energy of ", 1e-6},
       {"time", "time of ", 1},
       {"cores", "cores of ", 1e-3}}};
  return kAll[static_cast<size_t>(of)];
}

/// Whose key this is, without "forecast ".
Forecasted kind_of(std::string_view key) {
  for (const Forecasted of : kForecasted)
    if (of != Forecasted::step && key.starts_with(kept(of).prefix)) return of;
  return Forecasted::step;
}

double stored(double value, Forecasted of) { return value * kept(of).scale; }
std::string key_of(const std::string& what, Forecasted of) { return kept(of).prefix + what; }

std::string path() { return cache_path("forecasts.json"); }

/// Nothing where there is no file, or a damaged one, which is then written anew.
Measured<double> history() {
  Measured<double> all;
  std::string ignored;
  (void)read_measured(path(), all, ignored);
  return all;
}

void keep(const std::string& device, const std::string& key, double seconds) {
  if (path().empty()) return;
  Measured<double> one{{device, {{key, seconds}}}};
  (void)write_measured(path(), one, device);
}

std::optional<double> find(const Measured<double>& all, const std::string& device,
                           const std::string& key) {
  const auto of_device = all.find(device);
  if (of_device == all.end()) return {};
  const auto found = of_device->second.find(key);
  return found == of_device->second.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

const char* name_of(Forecasted of) { return kept(of).name; }

std::string with_data(const std::string& what, const std::string& data) {
  return what + ", from " + data;
}

std::string forecast_of(const train::Recipe& recipe, int64_t outputs, int64_t batch_each,
                        int ranks) {
  return fmt::format("{} of {} pixels and {} classes by {}, batch {} on each of {}, {}",
                     recipe.model, recipe.input.size, outputs, recipe.optimizer.name, batch_each,
                     ranks, recipe.precision);
}

std::string profile_name_of(std::string_view gpu) {
  if (gpu.find("PCI") != std::string_view::npos) return {};  // these profiles are of others
  for (const sim::BuiltinProfile& profile : sim::kBuiltinProfiles) {
    std::string word(profile.name);
    std::ranges::transform(word, word.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    for (size_t at = gpu.find(word); at != std::string_view::npos; at = gpu.find(word, at + 1)) {
      const auto ends = [&](size_t i) {
        return i >= gpu.size() || std::isalnum(static_cast<unsigned char>(gpu[i])) == 0;
      };
      if ((at == 0 || ends(at - 1)) && ends(at + word.size()))
        return sim::load_profile(std::string(profile.name)).name;
    }
  }
  return {};
}

std::string measured_name_of(Device device) {
  const std::string description = runtime(device.kind).description(device.index);
  const std::string model = description.substr(0, description.find(','));
  if (!device.is_cpu()) return model + " (measured)";
  const int threads = num_threads();
  return fmt::format("{} ({}), {} thread{}", model, cpu::arithmetic(), threads,
                     threads == 1 ? "" : "s");
}

void keep_forecast(const std::string& device, const std::string& what, double value,
                   Forecasted of) {
  keep(device, kForecast + key_of(what, of), stored(value, of));
}

void keep_measured(const std::string& device, const std::string& what, double value, bool simulated,
                   Forecasted of) {
  const std::string key = key_of(what, of);
  if (find(history(), device, kForecast + key))
    keep(device, (simulated ? kSimulated : kMeasured) + key, stored(value, of));
}

namespace {

/// Joules of a step on all devices of all ranks; nothing where one of them is not read.
std::optional<double> energy_per_step(const TrainRequest& request, const train::TrainResult& result,
                                      const std::optional<diag::MonitorSummary>& sensors) {
  if (!sensors) return {};
  const auto watts = mean_watts(*sensors);
  double all = 0;
  for (const Device device : request.chosen.devices) {
    const auto found =
        std::ranges::find(watts, device.str(), &std::pair<std::string, double>::first);
    if (found == watts.end()) return {};
    all += found->second;
  }
  return all * request.launched.size * result.seconds / static_cast<double>(result.steps);
}

/// Calls keep(what, value) for all that was measured; `slowdown`: of virtual devices. Ranks are
/// taken to be alike.
template <class F>
void visit_measured(const TrainRequest& request, const train::Trainer& trainer,
                    const train::TrainResult& result, int64_t peak_bytes, int ranks,
                    const std::optional<diag::MonitorSummary>& sensors, double slowdown,
                    const F& keep) {
  keep(Forecasted::step, result.us_per_step * 1e-6 / slowdown);
  keep(Forecasted::memory, static_cast<double>(peak_bytes));
  if (request.recipe.validation.fraction > 0) return;
  const auto steps = static_cast<double>(result.steps);
  keep(Forecasted::time, result.seconds / slowdown / steps);
  if (const auto energy = energy_per_step(request, result, sensors))
    keep(Forecasted::energy, *energy);
  if (!result.accounts.empty()) {
    const diag::Account& account = result.accounts[0].account;
    const auto seconds = [&](diag::Cause cause) {
      return account.seconds[static_cast<size_t>(cause)] / slowdown / steps;
    };
    keep(Forecasted::compute, seconds(diag::Cause::compute));
    if (ranks > 1) keep(Forecasted::exposed, seconds(diag::Cause::communication));
  }
  const data::WorkerAccount workers = data::sum(trainer.loader().worker_accounts());
  const double busy = workers.read + workers.decode + workers.augment;
  if (busy > 0) keep(Forecasted::cores, busy * ranks * slowdown / result.seconds);
}

}  // namespace

void keep_training(const TrainRequest& request, const train::Trainer& trainer,
                   const train::TrainResult& result, int64_t peak_bytes,
                   const std::optional<diag::MonitorSummary>& sensors) {
  constexpr int64_t kLeastSteps = 100;
  const train::TrainOptions o = train_options(request);
  const bool is_alike = result.compile.fell_back.empty() && o.passes.empty() &&
                        !result.augmented_on_device && !o.data_on_device;
  if (request.launched.rank > 0 || !is_alike || result.steps < kLeastSteps ||
      !trainer.loader().has_pictures())
    return;
  const auto ranks = request.launched.size * static_cast<int>(request.chosen.devices.size());
  const Device device = request.chosen.devices[0];
  if (request.recipe.batch % ranks != 0 || request.recipe.virtual_ranks > 1) return;
  const auto outputs = static_cast<int64_t>(trainer.loader().source().classes().size());
  const std::string what =
      forecast_of(request.recipe, outputs, request.recipe.batch / ranks, ranks);
  const auto keep_all = [&](const std::string& profile, double slowdown, bool simulated) {
    visit_measured(request, trainer, result, peak_bytes, ranks, sensors, slowdown,
                   [&](Forecasted of, double value) {
                     const bool is_of_data = of == Forecasted::cores;
                     keep_measured(profile,
                                   is_of_data ? with_data(what, request.recipe.data) : what, value,
                                   simulated, of);
                   });
  };
  if (device.kind == DeviceKind::sim) {
    const auto profile = sim::Devices::all().profile();
    const SimOptions sim = sim_options();
    if (profile && sim.paced) keep_all(profile->name, sim.slowdown, /*simulated=*/true);
    return;
  }
  keep_all(measured_name_of(device), 1, /*simulated=*/false);
  if (device.is_cpu()) return;
  const std::string name = profile_name_of(runtime(device.kind).description(device.index));
  if (!name.empty()) keep_all(name, 1, /*simulated=*/false);
}

PastError past_error(const std::string& device, const std::string& what, Forecasted of) {
  PastError error;
  const Measured<double> all = history();
  const auto of_device = all.find(device);
  if (of_device == all.end()) return error;
  const auto is_of = [&](std::string_view text) { return kind_of(text) == of; };
  error.simulated = std::ranges::none_of(of_device->second, [&](const auto& entry) {
    const std::string_view key = entry.first;
    return key.starts_with(kMeasured) && is_of(key.substr(std::string_view(kMeasured).size()));
  });
  std::vector<double> errors;
  for (const auto& [key, forecast] : of_device->second) {
    if (!key.starts_with(kForecast) || forecast <= 0) continue;
    const std::string name = key.substr(std::string_view(kForecast).size());
    if (!is_of(name)) continue;
    const auto measured = find(all, device, (error.simulated ? kSimulated : kMeasured) + name);
    if (!measured) continue;
    const double off = *measured / forecast - 1;
    errors.push_back(std::abs(off));
    if (name == key_of(what, of)) error.of_this_one = off;
  }
  if (errors.empty()) return error;
  std::ranges::sort(errors);
  error.trainings = std::ssize(errors);
  error.median = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  error.worst = errors.back();
  return error;
}

}  // namespace brim::command
