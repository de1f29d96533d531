// `brim bench NAME`: times a training step or a single op on this machine. `brim bench compare`
// runs it beside PyTorch doing the same work, `brim bench sweep` every op, `brim bench deploy`
// engines beside other runtimes.
#include <brim/core/tf32.h>
#include <brim/core/threads.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/command/cases.h"
#include "bench/command/compare.h"
#include "bench/command/crossover/crossover.h"
#include "bench/command/deploy.h"
#include "bench/command/fma_peak.h"
#include "bench/command/gpu_chapter.h"
#include "bench/command/layout.h"
#include "bench/command/passes.h"
#include "bench/command/steps.h"
#include "bench/command/sweep/sweep.h"
#include "bench/command/time_case.h"
#include "command/command.h"
#include "command/report.h"
#include "command/suggest.h"
#include "core/check.h"
#include "core/runtime.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

Json show_fma_peak(int rounds, bool print);

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
    {"passes", "training steps with each pass of the plan left out; not in `all`",
     run_passes_bench},
    {"fma-peak", "what the vector units do at most; not in `all`", show_fma_peak},
};

struct BenchOptions {
  std::vector<std::string> names;
  std::string json, mode = "eager", passes, weights, batches, save;
  std::string device = "cpu", precision = "fp32";
  int steps_per_graph = 1;
  bool explain = false;
  int threads = 0;  // 0: as many as there are
  int rounds = 3;
  double seconds = 1;
  int64_t steps = 0;  // 0: as many as the measurement takes
};

std::vector<BenchCase> all_cases() {
  std::vector<BenchCase> cases = training_cases();
  std::vector<BenchCase> ops = op_cases();
  cases.insert(cases.end(), ops.begin(), ops.end());
  return cases;
}

void list(const std::vector<BenchCase>& cases) {
  for (const BenchCase& bench : cases) fmt::print("{:<28}{}\n", bench.name, bench.about);
  for (const Table& table : kTables) fmt::print("{:<28}{}\n", table.name, table.about);
}

/// The cases of the given names, in their order.
std::vector<BenchCase> chosen(const BenchOptions& options) {
  const std::vector<BenchCase> cases = all_cases();
  std::vector<std::string> known = {"all", "list", "compare", "crossover", "sweep", "deploy"};
  for (const Table& table : kTables) known.emplace_back(table.name);
  for (const BenchCase& bench : cases) known.push_back(bench.name);
  const bool compiled = options.mode == "compiled";
  std::vector<BenchCase> result;
  for (const std::string& name : options.names) {
    const size_t before = result.size();
    for (const BenchCase& bench : cases)
      if (bench.name == name || (name == "all" && !bench.large && (bench.compiles || !compiled)))
        result.push_back(bench);
    if (result.size() > before) {
      if (compiled && !result.back().compiles)
        throw UsageError(
            fmt::format("{} measures what only eager steps have; run it with --mode eager", name));
      continue;
    }
    if (std::find(known.begin(), known.end(), name) != known.end())
      throw UsageError(fmt::format("`brim bench {}` stands alone", name));
    throw UsageError(fmt::format("unknown benchmark '{}'{}; `brim bench list` names them", name,
                                 hint(name, known)));
  }
  return result;
}

void write_results(const Json& results, const BenchOptions& options) {
  if (options.json.empty()) return;
  write_json(results.size() == 1 ? results[0] : Json{{"results", results}}, options.json);
}

int time_cases(const std::vector<BenchCase>& cases, const BenchSetup& setup,
               const BenchOptions& options) {
  const bool quiet = is_stdout(options.json);
  const bool products =
      std::any_of(cases.begin(), cases.end(), [](const BenchCase& c) { return c.flops > 0; });
  // Only of the CPU is the peak known by measurement.
  std::optional<FmaPeak> peak;
  if (products && setup.device.is_cpu()) peak = fma_peak();
  if (!quiet) print_timing_head();
  Json results = Json::array();
  for (const BenchCase& bench : cases) {
    results.push_back(time_case(bench, setup, options.rounds, options.seconds, peak));
    if (!quiet) print_timing(results.back());
  }
  if (peak && !quiet)
    fmt::print("peak: {:.0f} GFLOP/s of fused multiply-adds ({}, {} threads)\n", peak->all_threads,
               peak->isa, num_threads());
  write_results(results, options);
  return 0;
}

int step_cases(const std::vector<BenchCase>& cases, const BenchSetup& setup,
               const BenchOptions& options) {
  const bool quiet = is_stdout(options.json);
  if (!quiet)
    fmt::print("{:<28}{:>8}{:>16}{:>16}{:>16}\n", "case", "steps", "first step ms", "peak RSS MiB",
               "tensors MiB");
  Json results = Json::array();
  for (const BenchCase& bench : cases) {
    results.push_back(run_steps(bench, setup, options.steps, options.save));
    const Json& r = results.back();
    constexpr double kMiB = 1 << 20;
    if (!quiet)
      fmt::print("{:<28}{:>8}{:>16.1f}{:>16.1f}{:>16.1f}\n", bench.name, options.steps,
                 r["first_step_ms"].get<double>(), r["peak_rss"].get<double>() / kMiB,
                 r["peak_memory"].get<double>() / kMiB);
  }
  write_results(results, options);
  return 0;
}

Json show_fma_peak(int /*rounds*/, bool print) {
  const FmaPeak peak = fma_peak();
  if (print)
    fmt::print("{:.1f} GFLOP/s by one thread, {:.1f} by {} threads ({})\n", peak.one_thread,
               peak.all_threads, num_threads(), peak.isa);
  return {{"case", "fma-peak"},
          {"gflops_one_thread", peak.one_thread},
          {"gflops", peak.all_threads},
          {"threads", num_threads()},
          {"isa", peak.isa},
          {"version", BRIM_VERSION}};
}

int run(const BenchOptions& options) {
  if (options.names.empty()) throw UsageError("name a benchmark, `all`, or `list` for their names");
  const std::string only = options.names.size() == 1 ? options.names[0] : "";
  if (only == "list") {
    list(all_cases());
    return 0;
  }
  const auto* table = std::find_if(std::begin(kTables), std::end(kTables),
                                   [&](const Table& t) { return only == t.name; });
  const bool is_table = table != std::end(kTables);
  const std::vector<BenchCase> cases = is_table ? std::vector<BenchCase>{} : chosen(options);
  if (!options.save.empty() && (cases.size() != 1 || options.steps == 0))
    throw UsageError("--save needs one benchmark and --steps");
  if (!options.weights.empty() || !options.batches.empty())
    for (const BenchCase& bench : cases)
      if (!bench.trains)
        throw UsageError(fmt::format("{} trains no network: it takes no --weights and no --batches",
                                     bench.name));
  if (options.steps_per_graph > 1) {
    if (options.mode != "compiled" || options.steps > 0)
      throw UsageError("--steps-per-graph needs --mode compiled, and measures: leave out --steps");
    for (const BenchCase& bench : cases)
      if (!bench.trains)
        throw UsageError(
            fmt::format("{} trains no network: it takes no --steps-per-graph", bench.name));
  }
  if (options.explain && (options.mode != "compiled" || options.steps > 0))
    throw UsageError("--explain needs --mode compiled, and measures: leave out --steps");
  plan::check_passes(options.passes);
  if (options.threads > 0) set_num_threads(options.threads);
  check_json_path(options.json);
  check_output_path("save", options.save);
  check_outputs({{"--json", options.json}, {"--save", options.save}},
                {{"the weights", options.weights}, {"the batches", options.batches}});
  if (is_table && options.device != "cpu")
    throw UsageError(fmt::format("{} measures the CPU; it takes no --device", only));
  if (is_table) {
    const Json result = table->run(options.rounds, !is_stdout(options.json));
    if (!options.json.empty()) write_json(result, options.json);
    return 0;
  }
  BenchSetup setup;
  setup.compiled = options.mode == "compiled";
  setup.compile.passes = options.passes;
  setup.weights = options.weights;
  setup.batches = options.batches;
  setup.device = Device(options.device);
  setup.precision = options.precision;
  setup.steps_per_graph = options.steps_per_graph;
  setup.explain = options.explain;
  check_available(setup.device);
  if (setup.precision == "tf32" && setup.device.kind != DeviceKind::cuda)
    throw UsageError(fmt::format(
        "tf32 only changes the matrix units of cuda devices; on {} use --precision fp32",
        setup.device.str()));
  const Tf32 scope(setup.precision == "tf32");
  if (const std::string missing = Tf32::missing(setup.device); Tf32::allowed() && !missing.empty())
    raise<DeviceError>(
        "[bench] precision tf32 on {} needs NVIDIA's libraries, but {}; or use "
        "--precision fp32",
        setup.device.str(), missing);
  return options.steps > 0 ? step_cases(cases, setup, options) : time_cases(cases, setup, options);
}

/// Defines `brim bench compare` under `app`.
Arguments define_compare(Arguments args, CompareArguments& c) {
  Arguments compare = args.subcommand("compare", "brim beside PyTorch doing the same work");
  compare.add("cases", c.cases, "benchmarks (default: all that both sides have)");
  compare.add("--python", c.python,
              "a Python that has PyTorch (default: $BRIM_PYTHON, then python3)");
  compare.add("--part", c.parts, "time, equality, memory or startup (default: all)")
      .one_each()
      .one_of({"time", "equality", "memory", "startup"});
  compare.add("--rounds", c.rounds, "alternating rounds").range(1, 10000);
  compare.add("--seconds", c.seconds, "length of a measurement").range(0.001, 3600.0);
  compare.add("--threads", c.threads, "CPU threads of each side (default: all)").range(1, 4096);
  compare.add("--json", c.json, "write the report to FILE (- for standard output)").file();
  compare.add("--svg", c.svg, "draw the report as bars").file();
  return compare;
}

/// Defines `brim bench sweep` under `app`.
Arguments define_sweep(Arguments args, SweepArguments& s) {
  Arguments sweep = args.subcommand("sweep", "every op beside PyTorch, on the CPU");
  sweep.add("ops", s.ops, "ops (default: all), or `list` for their names, layouts and dtypes");
  sweep.add("--python", s.python,
            "a Python that has PyTorch (default: $BRIM_PYTHON, then python3)");
  sweep.add("--sizes", s.sizes, "elements of a case, comma-separated (default: 1e4,1e6)");
  sweep.add("--dtypes", s.dtypes,
            "comma-separated (default: the usual one of each op, others in its usual layout)");
  sweep.add("--layouts", s.layouts, "comma-separated (default: all)");
  sweep.add("--threads", s.threads, "CPU threads of each side, comma-separated (default: 1)");
  sweep.add("--rounds", s.rounds, "alternating rounds of a case (default: 3)").range(1, 1000);
  sweep.add("--seconds", s.seconds, "length of a measurement (default: 0.03)")
      .range(0.0001, 3600.0);
  sweep.add("--below", s.below, "print the cases under this ratio (default: 1)").range(0.001, 1e9);
  sweep.add("--json", s.json, "write the report to FILE (- for standard output)").file();
  sweep.flag("--serve", s.serve, "answer requests on standard input, as the script makes them");
  return sweep;
}

std::function<int()> define(Arguments args) {
  auto options = std::make_shared<BenchOptions>();
  args.add("names", options->names, "benchmarks, `all`, or `list` for their names");
  args.add("--mode", options->mode, "how steps run: eager or compiled")
      .one_of({"eager", "compiled"})
      .show_default();
  args.add("--device", options->device, "where: cpu, cuda:N or sim:N").show_default();
  args.add("--precision", options->precision,
           "of products: fp32, tf32 (on cuda), fp16 or bf16, as `brim train` makes them; the "
           "operands of single ops have its dtype")
      .one_of({"fp32", "tf32", "fp16", "bf16"})
      .show_default();
  args.add("--steps-per-graph", options->steps_per_graph,
           "compiled training steps queued at once, on batches that they find on the device")
      .range(1, 10000)
      .show_default();
  args.add("--passes", options->passes,
           "passes of the plan: -NAME,.. leaves some out, NAME,.. runs these alone, exact those "
           "that keep every bit");
  args.flag("--explain", options->explain, "print the plan of a compiled step below its line");
  args.add("--json", options->json, "write one JSON object to FILE (- for standard output)").file();
  args.add("--threads", options->threads, "CPU threads per op (default: all)").range(1, 4096);
  args.add("--rounds", options->rounds, "measurements; the middle one is reported")
      .range(1, 10000)
      .show_default();
  args.add("--seconds", options->seconds, "length of a measurement")
      .range(0.001, 3600.0)
      .show_default();
  args.add("--steps", options->steps, "run so many steps instead of measuring")
      .range(int64_t{1}, int64_t{1} << 40);
  args.add("--weights", options->weights, "the network's first weights").file();
  args.add("--batches", options->batches,
           "safetensors with x (K, N, ...) and y (K, N): what it trains on, in turns")
      .file();
  args.add("--save", options->save, "after --steps: write the network's state").file();
  auto c = std::make_shared<CompareArguments>();
  const Arguments compare = define_compare(args, *c);
  auto s = std::make_shared<SweepArguments>();
  const Arguments sweep = define_sweep(args, *s);
  auto d = std::make_shared<DeployArguments>();
  const Arguments deploy = define_deploy(args, *d);
  auto x = std::make_shared<CrossoverArguments>();
  const Arguments crossover = define_crossover(args, *x);
  return [options, c, compare, s, sweep, d, deploy, x, crossover] {
    if (crossover.chosen()) return run_crossover(*x);
    if (compare.chosen()) run_compare(*c);
    if (sweep.chosen()) return run_sweep(*s);
    if (deploy.chosen()) return run_deploy(*d);
    return run(*options);
  };
}

const Register bench_command({"bench", "time a training step or a single op", define});

}  // namespace
}  // namespace brim::command
