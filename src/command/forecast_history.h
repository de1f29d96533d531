// What was forecast, and what the trainings took that came of it: kept between runs in the cache.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <brim/diag/monitor.h>
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>

#include "command/train_request.h"

namespace brim::command {

/// "tutorial-cnn of 32 pixels and 10 classes by sgd, batch 4 on each of 2, fp32".
std::string forecast_of(const train::Recipe& recipe, int64_t outputs, int64_t batch_each,
                        int ranks);

/// The built-in profile of a GPU, by what its driver calls it; "" for others.
std::string profile_name_of(std::string_view gpu);

/// The device that is here as its measured forecasts know it: "AMD EPYC (avx512), 2 threads" with
/// num_threads(), "NVIDIA H200 (measured)".
std::string measured_name_of(Device device);

/// What is forecast of a training.
enum class Forecasted : uint8_t {
  step,     ///< seconds: the median
  memory,   ///< bytes of a device
  compute,  ///< seconds of a step in which a device computes
  exposed,  ///< seconds of a step in which it waits for communication alone
  energy,   ///< joules of a step, of all devices
  time,     ///< seconds of the whole training over its steps; so is its cost
  cores,    ///< busy with the input, of all ranks
};
inline constexpr std::array kForecasted = {
    Forecasted::step,   Forecasted::memory, Forecasted::compute, Forecasted::exposed,
    Forecasted::energy, Forecasted::time,   Forecasted::cores};
/// "memory".
const char* name_of(Forecasted of);
/// What the cores of an input are known by: those that make a sample depend on the data.
std::string with_data(const std::string& what, const std::string& data);

/// Keeps what is forecast for the device of a profile. `device`: the profile's name.
void keep_forecast(const std::string& device, const std::string& what, double value,
                   Forecasted of = Forecasted::step);
/// Keeps what it was, if it was forecast. `simulated`: on a virtual device.
void keep_measured(const std::string& device, const std::string& what, double value, bool simulated,
                   Forecasted of = Forecasted::step);

/// What a training took that has ended, if it was as trainings are forecast: compiled with all
/// passes, fed from the host, and longer than a moment; but for the step and the memory only where
/// it did not validate. `sensors`: of energy, where there are any.
void keep_training(const TrainRequest& request, const train::Trainer& trainer,
                   const train::TrainResult& result, int64_t peak_bytes,
                   const std::optional<diag::MonitorSummary>& sensors);

/// How far forecasts of a device were from what was measured there; where nothing was, from what
/// virtual ones took.
struct PastError {
  bool simulated = false;
  int64_t trainings = 0;
  double median = 0, worst = 0;       ///< shares of the forecast
  std::optional<double> of_this_one;  ///< measured over forecast, less one
};
PastError past_error(const std::string& device, const std::string& what,
                     Forecasted of = Forecasted::step);
/// The same of all that is forecast.
using PastErrors = std::map<Forecasted, PastError>;

}  // namespace brim::command
