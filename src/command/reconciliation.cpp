#include "command/reconciliation.h"

#include <brim/core/sim.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "command/report.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTold = 0.005;  // of the residual

/// `why` is of what differs, or of what is missing.
Json entry(const char* what, std::optional<double> one, std::optional<double> other,
           const std::string& why) {
  Json json = {{"what", what},
               {"one", one ? finite(*one) : Json(nullptr)},
               {"other", other ? finite(*other) : Json(nullptr)},
               {"residual", nullptr},
               {"reason", nullptr}};
  if (!one || !other) {
    json["reason"] = why;
    return json;
  }
  const double residual = *other == *one ? 0 : (*one - *other) / std::abs(*other);
  json["residual"] = finite(residual);
  if (!(std::abs(residual) <= kTold)) json["reason"] = why;  // infinite: there is no other
  return json;
}

Json wall_entry(const diag::Account& account, double clock) {
  const double rows = std::accumulate(account.seconds.begin(), account.seconds.end(), 0.0);
  return entry("wall seconds: the account's rows, a steady clock", rows, clock,
               clock < 0.1 ? fmt::format("the training took {:.0f} ms, of which both ends are much",
                                         clock * 1e3)
                           : "the two clocks ran apart, or the account lost time");
}

double worked_by_account(const diag::Account& account) {
  double sum = 0;
  for (const diag::Cause cause : {diag::Cause::compute, diag::Cause::communication,
                                  diag::Cause::copy_to_device, diag::Cause::copy_to_host})
    sum += account.seconds[static_cast<size_t>(cause)];
  return sum;
}

Json work_entry(const train::TrainResult::DeviceAccount& of, const std::optional<double>& worked) {
  std::string why = "pieces of work are short, and each has two ends";
  if (!worked)
    why = of.device.is_cpu() ? "the thread's spans are its only clock"
                             : "the device's records are its only clock";
  else if (of.recorded < 1)
    why = fmt::format("{:.1f} % of the time was not recorded", 100 * (1 - of.recorded));
  else if (const double stolen = of.account.fraction(diag::Cause::stolen); stolen > 0.005)
    why = fmt::format("this machine had no core for it for {:.1f} % of the time", 100 * stolen);
  return entry("seconds of work: the account, the device's own clock",
               worked_by_account(of.account), worked, why);
}

/// Of a virtual accelerator whose times are stretched, joules are of the device that is played.
double stretch_of(Device device) {
  return device.kind == DeviceKind::sim ? sim_options().slowdown : 1;
}

Json energy_entry(const diag::MonitorSummary& sensors, size_t index) {
  const auto& [device, gpu] = sensors.mean.gpus[index];
  std::optional<double> integral = sensors.power_joules[index];
  if (integral) *integral /= stretch_of(device);
  std::string why = "power is a reading of one moment";
  if (!gpu.energy)
    why = "it has no counter of energy";
  else if (!integral)
    why = "its power was not read each time";
  else if (sensors.readings < 2)
    why = "sensors were read once";
  else
    why +=
        fmt::format(", read {:.3g} s apart, and the run took {:.3g} s",
                    sensors.stretch / static_cast<double>(sensors.readings - 1), sensors.stretch);
  return entry("joules: the counter, power over time", gpu.energy, integral, why);
}

}  // namespace

Json reconciliation_json(const train::TrainResult& result,
                         const std::optional<diag::MonitorSummary>& sensors) {
  Json json = Json::object();
  for (const train::TrainResult::DeviceAccount& of : result.accounts) {
    const auto clock =
        std::ranges::find(result.clocks, of.device, &train::TrainResult::DeviceClock::device);
    if (clock == result.clocks.end()) continue;
    Json& entries = json[of.device.str()] = Json::array();
    entries.push_back(wall_entry(of.account, clock->seconds));
    entries.push_back(work_entry(of, clock->worked));
    if (!sensors) continue;
    for (size_t i = 0; i < sensors->mean.gpus.size(); ++i)
      if (sensors->mean.gpus[i].first == of.device) entries.push_back(energy_entry(*sensors, i));
  }
  return json;
}

std::vector<std::string> reconciliation_lines(const Json& reconciliation) {
  std::vector<std::string> lines;
  for (const auto& device : reconciliation.items())
    for (const Json& e : device.value()) {
      if (e["one"].is_null() || e["other"].is_null() || e["reason"].is_null()) continue;
      const std::string apart = e["residual"].is_null()
                                    ? std::string("wholly")
                                    : fmt::format("{:.1f} %", 100 * e["residual"].get<double>());
      lines.push_back(fmt::format("{}: {} differ by {} ({:.4g} and {:.4g}): {}", device.key(),
                                  e["what"].get<std::string>(), apart, e["one"].get<double>(),
                                  e["other"].get<double>(), e["reason"].get<std::string>()));
    }
  return lines;
}

}  // namespace brim::command
