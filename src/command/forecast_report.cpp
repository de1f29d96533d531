// See forecast_report.h.
#include "command/forecast_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "command/format.h"
#include "command/say.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// "+1.3 %": what a training of just this came to; "~2.1 %": the median of others; "-": of none.
std::string past_of(Forecasted of, const ForecastRow& row) {
  if (const auto found = row.off.find(of); found != row.off.end())
    return fmt::format("{:+.1f} %", 100 * found->second);
  const PastError& all = row.past.at(of);
  return all.trainings > 0 ? fmt::format("~{:.1f} %", 100 * all.median) : "-";
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

/// The columns that name a row.
const char* head_of(const std::vector<ForecastRow>& rows) {
  return rows[0].threads > 0 ? "threads  ranks  overlap" : "ranks  overlap";
}
std::string columns_of(const ForecastRow& row) {
  const std::string threads = row.threads > 0 ? fmt::format("{:7}  ", row.threads) : "";
  return fmt::format("{}{:5}  {:7}", threads, row.ranks,
                     row.ranks == 1 ? ""
                     : row.overlap  ? "yes"
                                    : "no");
}
/// "2 threads, 8 ranks".
std::string label_of(const ForecastRow& row) {
  const auto count = [](int n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  return (row.threads > 0 ? count(row.threads, "thread") + ", " : "") + count(row.ranks, "rank");
}

const char* why_longer(const train::Forecast& f) {
  if (f.shared > 0) return "the loader's workers need the same cores";
  return f.launch > f.copy ? "its launch by the host takes longer than it"
                           : "the copy of its batch from the host takes longer than it";
}

}  // namespace

void print_forecast(const ForecastArguments& o, const ForecastDevice& device,
                    const dist::Links& links, int hosts, const std::vector<ForecastRow>& rows) {
  const bool exchanges = rows.back().ranks > 1;
  const std::string where =
      hosts == 1 ? ""
      : links.ranks_per_host == 1 && !device.profile
          ? fmt::format(", {} machines at {:g} Gbit/s", hosts, links.host * 8e-9)
      : o.hosts
          ? fmt::format(", {} hosts at {:g} Gbit/s", hosts, links.host * 8e-9)
          : fmt::format(", {} a host, at {:g} Gbit/s", links.ranks_per_host, links.host * 8e-9);
  if (device.profile)
    say(stdout, "simulated: {}, batches of {} a rank, on {}{}; no device was used\n\n", o.recipe,
        o.batch, device.name, where);
  else
    say(stdout, "kernels measured on {}: {}, batches of {} a rank{}{}\n\n", device.name, o.recipe,
        o.batch, where, exchanges ? "; exchanges are simulated" : "");
  say(stdout,
      "{}         step    error      compute    error   all-reduce      exposed    "
      "error  of linear   images/s      memory    error\n",
      head_of(rows));
  for (const ForecastRow& row : rows) {
    const StepForecast& f = row.forecast.step;
    say(stdout,
        "{} {:>12} {:>8} {:>12} {:>8} {:>12} {:>12} {:>8} {:>8.1f} % {:>10.0f} {:>11} {:>8}\n",
        columns_of(row), milliseconds(f.step + row.forecast.stragglers),
        past_of(Forecasted::step, row), milliseconds(f.compute), past_of(Forecasted::compute, row),
        milliseconds(f.communication), milliseconds(f.exposed),
        row.ranks == 1 ? "-" : past_of(Forecasted::exposed, row),
        100 * row.one / row.forecast.seconds_per_step, row.samples_per_s(o.batch),
        format_bytes(row.forecast.memory), past_of(Forecasted::memory, row));
  }
  for (const ForecastRow& row : rows)
    if (row.forecast.stragglers > 0 && row.overlap)
      say(stdout, "{}: {} of the step are waits for the slowest rank (spread of steps {:g} %)\n",
          label_of(row), milliseconds(row.forecast.stragglers), o.step_spread);
  for (const ForecastRow& row : rows)
    if (const train::Forecast& f = row.forecast; f.seconds_per_step > f.step.step + f.stragglers)
      say(stdout, "{}: a step every {}, because {}\n", label_of(row),
          milliseconds(f.seconds_per_step), why_longer(f));
}

void print_past_errors(const std::vector<ForecastRow>& rows) {
  std::string before;
  for (const ForecastRow& row : rows) {
    const PastError& past = row.past.at(Forecasted::step);
    if (past.trainings > 0 && row.kept_as != before)
      say(stdout,
          "\nforecasts of {} were off by {:.1f} % ({} of {} {}training{}, at most {:.1f} %)\n",
          row.kept_as, 100 * past.median, past.trainings == 1 ? "that" : "the median",
          past.trainings, past.simulated ? "simulated " : "", past.trainings == 1 ? "" : "s",
          100 * past.worst);
    before = row.kept_as;
    if (const auto off = row.off.find(Forecasted::step); off != row.off.end())
      say(stdout, "{}: the training took {:.1f} % {} than this\n", label_of(row),
          100 * std::abs(off->second), off->second < 0 ? "less" : "more");
  }
}

void print_training(const ForecastArguments& o, const ForecastWork& work,
                    const std::vector<ForecastRow>& rows) {
  if (o.samples)
    say(stdout, "\nto train on {} samples in {} epochs\n\n", work.samples, work.epochs);
  else
    say(stdout,
        "\nto train on {} samples of {}, of which a core of this machine makes {:.0f} a second "
        "(measured)\n\n",
        work.samples, o.data, work.seconds_per_sample > 0 ? 1 / work.seconds_per_sample : 0);
  say(stdout, "{}         time     an epoch    error       energy    error{}{}\n", head_of(rows),
      o.samples ? "" : "     cores    error",
      o.price ? "         cost   of an epoch    error" : "");
  const auto epochs = static_cast<double>(work.epochs);
  for (const ForecastRow& row : rows) {
    const double cost = row.cost(work, o.batch, o.price.value_or(0));
    const std::string time_error = past_of(Forecasted::time, row);  // and the cost's
    const std::string energy =
        row.forecast.energy > 0 ? fmt::format("{:.4g} kJ", 1e-3 * row.energy(work, o.batch)) : "-";
    say(stdout, "{} {:>12} {:>12} {:>8} {:>12} {:>8}{}{}\n", columns_of(row),
        format_duration(row.seconds(work, o.batch)),
        format_duration(row.seconds(work, o.batch) / epochs), time_error, energy,
        past_of(Forecasted::energy, row),
        o.samples ? ""
                  : fmt::format(" {:>9.1f} {:>8}", row.cores(work, o.batch),
                                past_of(Forecasted::cores, row)),
        o.price ? fmt::format(" {:>12.4g}  {:>12.4g} {:>8}", cost, cost / epochs, time_error) : "");
  }
}

namespace {

/// Null where nothing is known of the device's power.
Json known_energy(double joules) { return joules > 0 ? Json(joules) : Json(nullptr); }

}  // namespace

void add_past(nlohmann::ordered_json& json, const PastErrors& past) {
  for (const auto& [of, errors] : past) {
    Json& entry = json[of == Forecasted::step ? "past" : fmt::format("past_{}", name_of(of))];
    if (errors.trainings > 0)
      entry = {{"simulated", errors.simulated},
               {"trainings", errors.trainings},
               {"median", errors.median},
               {"worst", errors.worst}};
  }
}

nlohmann::ordered_json to_json(const ForecastRow& row, const ForecastArguments& o,
                               const std::optional<ForecastWork>& work) {
  const StepForecast& f = row.forecast.step;
  Json json = {{"threads", row.threads > 0 ? Json(row.threads) : Json(nullptr)},
               {"ranks", row.ranks},
               {"overlap", row.overlap},
               {"step_s", f.step + row.forecast.stragglers},
               {"compute_s", f.compute},
               {"communication_s", f.communication},
               {"exposed_s", f.exposed},
               {"stragglers_s", row.forecast.stragglers},
               {"shared_s", row.forecast.shared},
               {"of_linear", row.one / row.forecast.seconds_per_step},
               {"seconds_per_step", row.forecast.seconds_per_step},
               {"copy_s", row.forecast.copy},
               {"launch_s", row.forecast.launch},
               {"joules_per_step", known_energy(row.forecast.energy)},
               {"images_per_s", row.samples_per_s(o.batch)},
               {"memory_bytes", row.forecast.memory},
               {"kernels", f.kernels},
               {"collectives", f.collectives}};
  for (const Forecasted of : kForecasted) {
    const auto off = row.off.find(of);
    json[of == Forecasted::step ? "off" : fmt::format("{}_off", name_of(of))] =
        off != row.off.end() ? Json(off->second) : Json(nullptr);
  }
  add_past(json, row.past);
  if (!work) return json;
  json["seconds"] = row.seconds(*work, o.batch);
  json["joules"] = known_energy(row.energy(*work, o.batch));
  const auto epochs = static_cast<double>(work->epochs);
  json["epoch_seconds"] = row.seconds(*work, o.batch) / epochs;
  json["input_cores"] = o.samples ? Json(nullptr) : Json(row.cores(*work, o.batch));
  json["cost"] = o.price ? Json(row.cost(*work, o.batch, *o.price)) : Json(nullptr);
  json["epoch_cost"] = o.price ? Json(row.cost(*work, o.batch, *o.price) / epochs) : Json(nullptr);
  return json;
}

}  // namespace brim::command
