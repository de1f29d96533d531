// See crossover.h.
#include "bench/command/crossover/crossover.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "command/arguments.h"
#include "command/command.h"
#include "command/format.h"
#include "command/profiled_device.h"
#include "command/report.h"
#include "command/say.h"
#include "io/atomic_file.h"

namespace brim::command {
namespace {

constexpr int64_t kLargestWidth = 4096, kLargestBatch = 65536;

std::vector<int64_t> rising(std::vector<int64_t> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

Arguments define_crossover(Arguments args, CrossoverArguments& c) {
  Arguments crossover = args.subcommand(
      "crossover", "from which width and batch on a GPU is faster than this CPU, and why");
  crossover.add("--widths", c.widths, "channels of the first convolution, comma-separated")
      .show_default();
  crossover.add("--batches", c.batches, "comma-separated").show_default();
  crossover
      .add("--profiles", c.profiles,
           "devices that are not here, simulated: t4, v100, l4, a100, h100, h200 or FILE.toml, "
           "comma-separated; or none")
      .show_default();
  crossover.add("--mode", c.mode, "how steps run: eager or compiled")
      .one_of({"eager", "compiled"})
      .show_default();
  crossover.add("--seconds", c.seconds, "length of a measurement")
      .range(0.001, 3600.0)
      .show_default();
  crossover.add("--json", c.json, "write the result to FILE (- for standard output)").file();
  crossover.add("--svg", c.svg, "draw it").file();
  return crossover;
}

int run_crossover(const CrossoverArguments& a) {
  check_json_path(a.json);
  check_output_path("svg", a.svg);
  check_outputs({{"--json", a.json}, {"--svg", a.svg}}, {});
  const std::vector<int64_t> widths = rising(parse_counts(a.widths, "--widths", kLargestWidth));
  const std::vector<int64_t> batches = rising(parse_counts(a.batches, "--batches", kLargestBatch));
  std::vector<std::string> profiles;
  if (a.profiles != "none") profiles = list_items(a.profiles, "--profiles");
  for (const std::string& profile : profiles) (void)sim::load_profile(profile);
  const std::vector<Device> gpus = Device::all(DeviceKind::cuda);
  if (profiles.empty() && gpus.empty())
    throw UsageError("--profiles none, and there is no GPU: nothing to compare the CPU with");

  const bool shows = !is_stdout(a.json);
  const CrossoverBench bench(a.mode, a.seconds);
  if (shows)
    say(stdout,
        "training steps ({}) of the tutorial's network, its first convolution wider and wider; "
        "milliseconds\n\n",
        a.mode);
  std::vector<CrossoverStep> on_cpu;
  for (const int64_t width : widths)
    for (const int64_t batch : batches) {
      on_cpu.push_back({.width = width, .batch = batch});
      on_cpu.back().cpu = bench.on_cpu(width, batch);
    }
  std::vector<CrossoverDevice> devices;
  const auto add = [&](const std::string& name, bool is_simulated, const auto& measured) {
    devices.push_back({.name = name, .is_simulated = is_simulated, .steps = {}});
    for (const CrossoverStep& cpu : on_cpu) {
      devices.back().steps.push_back(measured(cpu.width, cpu.batch));
      devices.back().steps.back().cpu = cpu.cpu;
    }
    if (shows)
      for (const auto& lines :
           {crossover_table(devices.back()), crossover_summary(devices.back())}) {
        for (const std::string& line : lines) say(stdout, "{}\n", line);
        say(stdout, "\n");
      }
    std::fflush(stdout);
  };
  for (const Device gpu : gpus)
    add(gpu.str(), false,
        [&](int64_t width, int64_t batch) { return bench.on_gpu(gpu, width, batch); });
  for (const std::string& profile : profiles)
    add(use_profile(profile).name, true,
        [&](int64_t width, int64_t batch) { return bench.simulated(width, batch); });
  if (shows && !profiles.empty())
    say(stdout,
        "simulated: what the plan takes at the data sheet's peaks; real kernels reach 40 to 80 % "
        "of them\n");
  if (!a.svg.empty()) io::write_file_atomically(a.svg, crossover_svg(devices, a.mode));
  if (!a.json.empty()) write_json(crossover_json(devices, a), a.json);
  return 0;
}

}  // namespace brim::command
