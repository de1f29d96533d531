// `brim forecast RECIPE`: what a training step would take on devices that are not here.
#include <brim/core/sim.h>
#include <brim/train/forecast.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/sim/profile.h"
#include "command/command.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/report.h"
#include "command/say.h"
#include "core/check.h"
#include "dist/profile_links.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string recipe, profile = "h100", ranks = "1,8", precision, json;
  int64_t batch = 64, outputs = 1000, picture = 224;
  std::optional<int64_t> hosts;
  std::optional<double> network, network_delay;
};

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

/// A number of ranks, with or without overlap.
struct Row {
  int ranks;
  bool overlap;
  train::Forecast forecast;
};

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

void print(const Options& o, const std::string& device, const dist::Links& links, int hosts,
           const std::vector<Row>& rows) {
  const double one = rows[0].forecast.step.step;
  say(stdout,
      "simulated: {}, batches of {} a rank, on {}{}; no device was used\n\n"
      "ranks  overlap         step      compute   all-reduce      exposed  of linear   images/s  "
      "    memory\n",
      o.recipe, o.batch, device,
      hosts == 1 ? ""
      : o.hosts
          ? fmt::format(", {} hosts at {:g} Gbit/s", hosts, links.host * 8e-9)
          : fmt::format(", {} a host, at {:g} Gbit/s", links.ranks_per_host, links.host * 8e-9));
  for (const Row& row : rows) {
    const StepForecast& f = row.forecast.step;
    say(stdout, "{:5}  {:7} {:>12} {:>12} {:>12} {:>12} {:>9.1f} % {:>10.0f} {:>11}\n", row.ranks,
        row.ranks == 1 ? ""
        : row.overlap  ? "yes"
                       : "no",
        milliseconds(f.step), milliseconds(f.compute), milliseconds(f.communication),
        milliseconds(f.exposed), 100 * one / f.step,
        static_cast<double>(o.batch) * row.ranks / f.step, format_bytes(row.forecast.memory));
  }
}

Json to_json(const Row& row, const Options& o, double one) {
  const StepForecast& f = row.forecast.step;
  return {{"ranks", row.ranks},
          {"overlap", row.overlap},
          {"step_s", f.step},
          {"compute_s", f.compute},
          {"communication_s", f.communication},
          {"exposed_s", f.exposed},
          {"of_linear", one / f.step},
          {"images_per_s", static_cast<double>(o.batch) * row.ranks / f.step},
          {"memory_bytes", row.forecast.memory},
          {"kernels", f.kernels},
          {"collectives", f.collectives}};
}

int run(const Options& o) {
  check_json_path(o.json);
  const std::vector<int> counts = ranks_of(o.ranks);
  const sim::DeviceProfile profile = sim::load_profile(o.profile);
  SimOptions sim = sim_options();
  sim.devices = std::max(sim.devices, 1);
  sim.profile = o.profile;
  sim.slowdown = 1;
  sim.paced = false;
  set_sim_options(sim);
  train::Recipe recipe = train::load_recipe(o.recipe);
  if (!o.precision.empty()) recipe.precision = o.precision;
  const auto forecast = [&](const train::ForecastOptions& options) {
    try {
      return train::forecast(recipe, options);
    } catch (const OutOfMemory&) {
      raise<ValueError>("[forecast] batches of {} do not fit the {} of {}; give a smaller --batch",
                        options.batch, format_bytes(profile.memory), profile.name);
    }
  };
  const auto links_of = [&](int ranks) {
    dist::Links links = dist::links_of(profile, ranks);
    if (o.network) links.host = *o.network * 1e9 / 8;
    if (o.network_delay) links.host_delay = *o.network_delay * 1e-6;
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
  std::vector<Row> rows;
  for (const int ranks : counts) {
    train::ForecastOptions options{.batch = o.batch,
                                   .ranks = ranks,
                                   .links = links_of(ranks),
                                   .device = Device::sim(0),
                                   .outputs = o.outputs,
                                   .picture = o.picture};
    rows.push_back({ranks, true, forecast(options)});
    options.overlap = false;
    if (ranks > 1) rows.push_back({ranks, false, forecast(options)});
  }
  const int most = *std::ranges::max_element(counts);
  const dist::Links links = links_of(most);
  const int hosts = links.ranks_per_host > 0 ? most / links.ranks_per_host : 1;
  if (!is_stdout(o.json)) print(o, profile.name, links, hosts, rows);
  if (o.json.empty()) return 0;
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row, o, rows[0].forecast.step.step));
  write_json({{"simulated", true},
              {"recipe", o.recipe},
              {"precision", recipe.precision},
              {"batch", o.batch},
              {"device", profile.name},
              {"device_source", profile.source},
              {"hosts", hosts},
              {"network_gbit_s", links.host * 8e-9},
              {"network_delay_us", links.host_delay * 1e6},
              {"forecasts", list},
              {"versions", build_versions()}},
             o.json);
  return 0;
}

const Register forecast_command(
    {"forecast", "what training would take on many devices that are not here",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<Options>();
       args.add("recipe", o->recipe, "built-in recipe or FILE.toml that classifies pictures")
           .required();
       args.add("--profile", o->profile, "t4, a100, h100, h200 or FILE.toml").show_default();
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
       args.add("--batch", o->batch, "samples of each device").range(1, 1000000).show_default();
       args.add("--classes", o->outputs, "of the network").range(1, 1000000).show_default();
       args.add("--size", o->picture, "of pictures, where the recipe says nothing")
           .range(1, 65536)
           .show_default();
       args.add("--precision", o->precision, "instead of the recipe's")
           .one_of({"fp32", "tf32", "fp16", "bf16"});
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
