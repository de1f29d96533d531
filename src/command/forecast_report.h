// What `brim forecast` was asked for and found, for people and for programs.
#pragma once

#include <brim/data/loader.h>
#include <brim/dist/links.h>
#include <brim/train/forecast.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/sim/profile.h"
#include "command/forecast_history.h"

namespace brim::command {

struct ForecastArguments {
  std::string recipe, device = "h100", ranks, threads, precision, data, json;  ///< empty: as usual
  int64_t batch = 64, outputs = 0, picture = 0;
  std::optional<int64_t> hosts;
  std::optional<int64_t> samples;
  std::optional<double> network, network_delay, price;
  double step_spread = 0;  ///< in %
  bool ring = false;
  std::string buckets = "solved";
};

/// What a whole training uses, and what its loader takes of a core here.
struct ForecastWork {
  int64_t samples = 0;  ///< of all epochs
  int64_t epochs = 1;
  int64_t classes = 0;            ///< of the data; 0: not known
  double seconds_per_sample = 0;  ///< of one worker; 0: there is no data to measure it with
  data::Batch first;              ///< of the data; its tensors are undefined without any
};

/// What steps are forecast for.
struct ForecastDevice {
  Device device;                              ///< a virtual one for a profile
  std::string name, source = "measured";      ///< where its kernels' times come from
  std::optional<sim::DeviceProfile> profile;  ///< of a device that need not be here
};

/// A number of ranks, with or without overlap.
struct ForecastRow {
  int threads = 0;  ///< of each rank on the CPU; 0 elsewhere
  int ranks;
  bool overlap;
  train::Forecast forecast;
  double one = 0;                    ///< seconds of a step of one rank
  std::string kept_as;               ///< device that the forecast is kept of
  PastErrors past;                   ///< of forecasts of that device
  std::map<Forecasted, double> off;  ///< what a training took over what was forecast, less one

  double samples_per_s(int64_t batch) const {
    return static_cast<double>(batch) * ranks / forecast.seconds_per_step;
  }
  /// Seconds, joules and money of a whole training; CPU cores that bring its input.
  double seconds(const ForecastWork& work, int64_t batch) const {
    return static_cast<double>(work.samples) / samples_per_s(batch);
  }
  double energy(const ForecastWork& work, int64_t batch) const {
    return forecast.energy * seconds(work, batch) / forecast.seconds_per_step;
  }
  double cost(const ForecastWork& work, int64_t batch, double price) const {
    return price * ranks * seconds(work, batch) / 3600;
  }
  double cores(const ForecastWork& work, int64_t batch) const {
    return samples_per_s(batch) * work.seconds_per_sample;
  }
};

/// Tables of steps (beside the numbers how far this forecast, or else the median one of the device,
/// was off), of how far forecasts before were off, and of whole trainings.
void print_forecast(const ForecastArguments& o, const ForecastDevice& device,
                    const dist::Links& links, int hosts, const std::vector<ForecastRow>& rows);
void print_past_errors(const std::vector<ForecastRow>& rows);
void print_training(const ForecastArguments& o, const ForecastWork& work,
                    const std::vector<ForecastRow>& rows);

/// "past", "past_memory" and so on; null where no training was measured.
void add_past(nlohmann::ordered_json& json, const PastErrors& past);

/// Without `work` there is nothing of a training.
nlohmann::ordered_json to_json(const ForecastRow& row, const ForecastArguments& o,
                               const std::optional<ForecastWork>& work);

}  // namespace brim::command
