// See time_case.h.
#include "bench/command/time_case.h"

#include <brim/core/stream.h>
#include <brim/core/threads.h>
#include <brim/diag/account.h>
#include <brim/diag/detail.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/command/measure.h"
#include "command/report.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// What a device did during so many calls of the step, queued without a pause. The step is made
/// anew: CUPTI may not see what is in graphs that were instantiated before it began to record.
Json account_of(const BenchCase& bench, const BenchSetup& setup, int64_t calls) {
  constexpr int kWarmUp = 8;  // calls: compiled steps have their graphs then
  const diag::NodeDetail nodes;
  const diag::Accountant all({setup.device});
  const BenchRun run = bench.make(setup);
  for (int i = 0; i < kWarmUp; ++i) run.step();
  synchronize(setup.device);
  const diag::Accountant accountant({setup.device});
  for (int64_t i = 0; i < calls; ++i) run.step();
  synchronize(setup.device);
  return to_json(accountant.read(setup.device));
}

}  // namespace

Json time_case(const BenchCase& bench, const BenchSetup& setup, int round_count, double seconds,
               const std::optional<FmaPeak>& peak) {
  BenchRun run = bench.make(setup);
  std::vector<Timing> rounds;
  std::vector<double> copies, of_copy;  // bytes a second, and the step's as a part of them
  int64_t steps = 0;
  double joules = 0;
  bool has_energy = true;  // in each round
  for (int i = 0; i < round_count; ++i) {
    rounds.push_back(measure(run.step, {.seconds = seconds}, setup.device));
    for (double* us :
         {&rounds.back().median, &rounds.back().p10, &rounds.back().p90, &rounds.back().cpu})
      *us /= run.steps;
    steps += rounds.back().steps * run.steps;
    has_energy = has_energy && rounds.back().joules;
    joules += rounds.back().joules.value_or(0);
    if (!run.copy) continue;
    const double copy =
        run.copy_bytes / measure(run.copy, {.seconds = seconds}, setup.device).median;
    copies.push_back(copy);
    of_copy.push_back(run.bytes / rounds.back().median / copy);
  }
  std::sort(rounds.begin(), rounds.end(),
            [](const Timing& a, const Timing& b) { return a.median < b.median; });
  const Timing& middle = rounds[rounds.size() / 2];
  Json json = {{"case", bench.name},
               {"mode", setup.compiled ? "compiled" : "eager"},
               {"us_per_step", middle.median},
               {"us_p10", middle.p10},
               {"us_p90", middle.p90},
               {"cpu_us_per_step", middle.cpu},
               {"us_least_round", rounds.front().median},
               {"us_largest_round", rounds.back().median},
               {"steps", steps},
               {"rounds", round_count}};
  json["joules_per_step"] =
      has_energy ? finite(joules / static_cast<double>(steps)) : Json(nullptr);
  if (bench.flops > 0) {
    json["flops"] = bench.flops;
    json["gflops"] = bench.flops / middle.median * 1e-3;
  }
  if (bench.flops > 0 && peak) {
    json["peak_gflops"] = peak->all_threads;
    json["share_of_peak"] = bench.flops / middle.median * 1e-3 / peak->all_threads;
  }
  if (run.copy) {
    json["gb_per_s"] = run.bytes / middle.median * 1e-3;
    json["copy_gb_per_s"] = median(copies) * 1e-3;
    json["share_of_copy"] = median(of_copy);
  }
  const plan::Traffic traffic = traffic_of(run);
  json["launches"] = traffic.launches;
  json["operand_bytes"] = traffic.bytes;
  json["steps_per_graph"] = run.steps;
  if (run.stats) json["compile"] = to_json(run.stats());
  if (setup.explain) json["plan"] = run.explain();
  if (!setup.device.is_cpu()) {
    const int64_t calls = std::max<int64_t>(1, steps / round_count / run.steps);
    run = {};  // two of a large network may not fit
    json["account"] = account_of(bench, setup, calls);
  }
  json["threads"] = num_threads();
  json["device"] = setup.device.str();
  json["precision"] = setup.precision;
  json["version"] = BRIM_VERSION;
  return json;
}

void print_timing_head() {
  fmt::print("{:<28}{:>12}{:>12}{:>12}{:>12}{:>10}{:>12}{:>10}{:>10}\n", "case", "us/step", "p10",
             "p90", "CPU us", "launches", "MB", "GFLOP/s", "of peak");
}

void print_timing(const Json& r) {
  const auto number = [&](const char* key) { return r[key].get<double>(); };
  fmt::print("{:<28}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}{:>10}{:>12.3f}",
             r["case"].get<std::string>(), number("us_per_step"), number("us_p10"),
             number("us_p90"), number("cpu_us_per_step"), r["launches"].get<int64_t>(),
             number("operand_bytes") * 1e-6);
  if (r.contains("gflops")) fmt::print("{:>10.1f}", number("gflops"));
  if (r.contains("share_of_peak")) fmt::print("{:>8.1f} %", 100 * number("share_of_peak"));
  if (r.contains("gb_per_s"))
    fmt::print("  {:.1f} GB/s, {:.1f} % of a copy's {:.1f}", number("gb_per_s"),
               100 * number("share_of_copy"), number("copy_gb_per_s"));
  if (!r["joules_per_step"].is_null()) fmt::print("  {:.3g} J/step", number("joules_per_step"));
  fmt::print("\n");
  if (r.contains("plan")) fmt::print("{}", r["plan"].get<std::string>());
  std::fflush(stdout);
}

}  // namespace brim::command
