// What `brim forecast` was asked for and found, for people and for programs.
#pragma once

#include <brim/dist/links.h>
#include <brim/train/forecast.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command/forecast_history.h"

namespace brim::command {

struct ForecastArguments {
  std::string recipe, profile = "h100", ranks = "1,8", precision, data, json;
  int64_t batch = 64, outputs = 1000, picture = 224;
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
  double seconds_per_sample = 0;  ///< of one worker; 0: there is no data to measure it with
};

/// A number of ranks, with or without overlap.
struct ForecastRow {
  int ranks;
  bool overlap;
  train::Forecast forecast;
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
void print_forecast(const ForecastArguments& o, const std::string& device, const dist::Links& links,
                    int hosts, const std::vector<ForecastRow>& rows, const PastErrors& past);
void print_past_error(const std::string& device, const PastError& past,
                      const std::vector<ForecastRow>& rows);
void print_training(const ForecastArguments& o, const ForecastWork& work,
                    const std::vector<ForecastRow>& rows, const PastErrors& past);

/// Null where no training was measured.
nlohmann::ordered_json to_json(const PastError& past);

/// `one`: seconds of a step of one rank. Without `work` there is nothing of a training.
nlohmann::ordered_json to_json(const ForecastRow& row, const ForecastArguments& o, double one,
                               const std::optional<ForecastWork>& work);

}  // namespace brim::command
