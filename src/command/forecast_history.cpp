#include "command/forecast_history.h"

#include <brim/core/sim.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

#include "backend/sim/builtin_profiles.h"
#include "backend/sim/device.h"
#include "command/training_options.h"
#include "core/cache_file.h"
#include "core/runtime.h"

namespace brim::command {
namespace {

constexpr const char* kForecast = "forecast ";
constexpr const char* kMeasured = "measured ";
constexpr const char* kSimulated = "simulated ";
constexpr const char* kMemory = "memory of ";  // behind these; nothing: a step's seconds

/// In GiB, as the file takes numbers below 3600 for sound.
double stored(double value, Forecasted of) {
  return of == Forecasted::memory ? value / (1 << 30) : value;
}

std::string key_of(const std::string& what, Forecasted of) {
  return (of == Forecasted::memory ? kMemory : "") + what;
}

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

void keep_training(const TrainRequest& request, const train::Trainer& trainer,
                   const train::TrainResult& result, int64_t peak_bytes) {
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
  const double seconds = result.us_per_step * 1e-6;
  const auto keep_both = [&](const std::string& profile, double step, bool simulated) {
    keep_measured(profile, what, step, simulated);
    keep_measured(profile, what, static_cast<double>(peak_bytes), simulated, Forecasted::memory);
  };
  if (device.kind == DeviceKind::sim) {
    const auto profile = sim::Devices::all().profile();
    const SimOptions sim = sim_options();
    if (profile && sim.paced) keep_both(profile->name, seconds / sim.slowdown, /*simulated=*/true);
  } else if (!device.is_cpu()) {
    const std::string name = profile_name_of(runtime(device.kind).description(device.index));
    if (!name.empty()) keep_both(name, seconds, /*simulated=*/false);
  }
}

PastError past_error(const std::string& device, const std::string& what, Forecasted of) {
  PastError error;
  const Measured<double> all = history();
  const auto of_device = all.find(device);
  if (of_device == all.end()) return error;
  const auto is_of = [&](std::string_view text) {
    return text.starts_with(kMemory) == (of == Forecasted::memory);
  };
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
