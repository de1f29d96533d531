// `brim bench NAME`: times a training step or a single op on this machine. bench/compare_torch.py
// runs it beside PyTorch doing the same work.
#include <brim/core/threads.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/bench/cases.h"
#include "cli/bench/gpu_chapter.h"
#include "cli/bench/layout.h"
#include "cli/bench/measure.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/suggest.h"

namespace brim::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Benchmarks with tables of their own; not in `all`.
struct Table {
  const char* name;
  const char* about;
  Json (*run)(int rounds, bool print);
};
constexpr Table kTables[] = {
    {"gpu-chapter", "the exercises of d2l.ai's chapter on GPUs; not in `all`", run_gpu_chapter},
    {"layout", "training steps in each memory format and in the chosen ones; not in `all`",
     run_layout_bench},
};

struct Options {
  std::string name;
  std::string json;
  int threads = 0;  // 0: as many as there are
  int rounds = 3;
  double seconds = 1;
};

std::vector<BenchCase> all_cases() {
  std::vector<BenchCase> cases = training_cases();
  std::vector<BenchCase> ops = op_cases();
  cases.insert(cases.end(), ops.begin(), ops.end());
  return cases;
}

/// The round whose median is in the middle, with the range of the medians.
Json measure_case(const BenchCase& bench, const Options& options) {
  const auto step = bench.make();
  std::vector<Timing> rounds;
  int64_t steps = 0;
  for (int i = 0; i < options.rounds; ++i) {
    rounds.push_back(measure(step, options.seconds));
    steps += rounds.back().steps;
  }
  std::sort(rounds.begin(), rounds.end(),
            [](const Timing& a, const Timing& b) { return a.median < b.median; });
  const Timing& middle = rounds[rounds.size() / 2];
  return {{"case", bench.name},
          {"us_per_step", middle.median},
          {"us_p10", middle.p10},
          {"us_p90", middle.p90},
          {"cpu_us_per_step", middle.cpu},
          {"us_least_round", rounds.front().median},
          {"us_largest_round", rounds.back().median},
          {"steps", steps},
          {"rounds", options.rounds},
          {"threads", num_threads()},
          {"device", "cpu"},
          {"version", BRIM_VERSION}};
}

void list(const std::vector<BenchCase>& cases) {
  for (const BenchCase& bench : cases) fmt::print("{:<22}{}\n", bench.name, bench.about);
  for (const Table& table : kTables) fmt::print("{:<22}{}\n", table.name, table.about);
}

std::vector<BenchCase> chosen(const std::string& name) {
  std::vector<BenchCase> cases = all_cases();
  if (name == "all") return cases;
  std::vector<std::string> names = {"all", "list"};
  for (const Table& table : kTables) names.emplace_back(table.name);
  for (const BenchCase& bench : cases) {
    if (bench.name == name) return {bench};
    names.push_back(bench.name);
  }
  throw UsageError(fmt::format("unknown benchmark '{}'{}; `brim bench list` names them", name,
                               hint(name, names)));
}

int run(const Options& options) {
  if (options.name == "list") {
    list(all_cases());
    return 0;
  }
  const auto* table = std::find_if(std::begin(kTables), std::end(kTables),
                                   [&](const Table& t) { return options.name == t.name; });
  const bool is_table = table != std::end(kTables);
  const std::vector<BenchCase> cases = is_table ? std::vector<BenchCase>{} : chosen(options.name);
  if (options.threads > 0) set_num_threads(options.threads);
  check_json_path(options.json);
  const bool quiet = is_stdout(options.json);
  if (is_table) {
    const Json result = table->run(options.rounds, !quiet);
    if (!options.json.empty()) write_json(result, options.json);
    return 0;
  }
  if (!quiet)
    fmt::print("{:<22}{:>12}{:>12}{:>12}{:>12}\n", "case", "us/step", "p10", "p90", "CPU us");
  Json results = Json::array();
  for (const BenchCase& bench : cases) {
    results.push_back(measure_case(bench, options));
    const Json& r = results.back();
    if (!quiet)
      fmt::print("{:<22}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}\n", bench.name,
                 r["us_per_step"].get<double>(), r["us_p10"].get<double>(),
                 r["us_p90"].get<double>(), r["cpu_us_per_step"].get<double>());
    std::fflush(stdout);
  }
  if (options.json.empty()) return 0;
  write_json(results.size() == 1 ? results[0] : Json{{"results", results}}, options.json);
  return 0;
}

std::function<int()> define(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("name", options->name, "a benchmark, `all`, or `list` for their names")
      ->required();
  app.add_option("--json", options->json, "write one JSON object to FILE (- for standard output)")
      ->type_name("FILE");
  app.add_option("--threads", options->threads, "CPU threads per op (default: all)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rounds", options->rounds, "measurements; the middle one is reported")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "length of a measurement")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  return [options] { return run(*options); };
}

const Register bench({"bench", "time a training step or a single op", define});

}  // namespace
}  // namespace brim::cli
