// See passes.h.
#include "bench/command/passes.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/command/cases.h"
#include "plan/pass.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kBlockUs = 5000;  // of steps, at least one

double microseconds(const std::function<void()>& step, int64_t times) {
  const auto begin = Clock::now();
  for (int64_t i = 0; i < times; ++i) step();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
         static_cast<double>(times);
}

/// A step with some of the passes.
struct Variant {
  std::string left_out;  // "" for none
  BenchRun run;
  int64_t block = 1;
  std::vector<double> us;
  plan::Traffic traffic;

  double median() {
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
  }
};

std::vector<std::string> switched() {
  std::vector<std::string> names;
  for (const plan::Pass& pass : plan::all_passes())
    if (!pass.only_if_named) names.emplace_back(pass.name);
  names.emplace_back(plan::kMemoryPass);
  return names;
}

Json measure_case(const BenchCase& bench, int rounds, bool print) {
  std::vector<Variant> variants;
  const auto add = [&](const std::string& left_out) {
    BenchSetup setup{.compiled = true};
    if (!left_out.empty()) setup.compile.passes = "-" + left_out;
    Variant v{left_out, bench.make(setup), 1, {}, {}};
    v.run.step();  // makes the plan
    v.traffic = traffic_of(v.run);
    v.block = std::max<int64_t>(1, static_cast<int64_t>(kBlockUs / microseconds(v.run.step, 3)));
    variants.push_back(std::move(v));
  };
  add("");
  for (const std::string& name : switched()) add(name);
  for (int round = 0; round < rounds; ++round)
    for (Variant& v : variants) v.us.push_back(microseconds(v.run.step, v.block));
  const double all = variants[0].median();
  Json json{{"case", bench.name},
            {"us_per_step", all},
            {"launches", variants[0].traffic.launches},
            {"operand_bytes", variants[0].traffic.bytes}};
  for (Variant& v : variants)
    if (!v.left_out.empty())
      json["without"][v.left_out] = {{"us_per_step", v.median()},
                                     {"times", v.median() / all},
                                     {"launches", v.traffic.launches},
                                     {"operand_bytes", v.traffic.bytes}};
  if (print) {
    fmt::print("{:<28}{:>12}{:>8}{:>10}{:>12}\n", bench.name, "us", "times", "launches", "MB");
    for (Variant& v : variants)
      fmt::print("  {:<26}{:>12.1f}{:>8.2f}{:>10}{:>12.3f}\n",
                 v.left_out.empty() ? "all passes" : "-" + v.left_out, v.median(), v.median() / all,
                 v.traffic.launches, static_cast<double>(v.traffic.bytes) * 1e-6);
    std::fflush(stdout);
  }
  return json;
}

}  // namespace

Json run_passes_bench(int rounds, bool print) {
  Json results = Json::array();
  for (const BenchCase& bench : training_cases())
    if (!bench.large) results.push_back(measure_case(bench, rounds, print));
  return {{"results", results}};
}

}  // namespace brim::command
