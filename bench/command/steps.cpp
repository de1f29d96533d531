// See steps.h.
#include "bench/command/steps.h"

#include <brim/core/allocator.h>
#include <brim/core/stream.h>
#include <brim/core/threads.h>
#include <brim/io/safetensors.h>
#include <brim/version.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command/command.h"
#include "command/report.h"
#include "command/start.h"

namespace brim::command {
namespace {

/// The largest resident set of this process so far, in bytes; 0 where the system does not tell.
int64_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    int64_t kib = 0;
    std::istringstream(line.substr(6)) >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace

nlohmann::ordered_json run_steps(const BenchCase& bench, const BenchSetup& setup, int64_t steps,
                                 const std::string& save) {
  if (!save.empty() && !bench.trains)
    throw UsageError(
        fmt::format("--save writes the weights of a network; {} has none", bench.name));
  const BenchRun run = bench.make(setup);
  run.step();
  synchronize(setup.device);
  const double first = milliseconds_since_start();
  for (int64_t i = 1; i < steps; ++i) run.step();
  synchronize(setup.device);
  if (!save.empty()) io::save_safetensors(save, run.network->state_dict());

  nlohmann::ordered_json json;
  json["case"] = bench.name;
  json["mode"] = setup.compiled ? "compiled" : "eager";
  json["steps"] = steps;
  json["first_step_ms"] = first;
  json["peak_rss"] = peak_resident();
  json["peak_memory"] = Allocator::of(setup.device).stats().peak_live;
  const plan::Traffic traffic = traffic_of(run);
  json["launches"] = traffic.launches;
  json["operand_bytes"] = traffic.bytes;
  if (run.stats) json["compile"] = to_json(run.stats());
  json["threads"] = num_threads();
  json["device"] = setup.device.str();
  json["precision"] = setup.precision;
  json["version"] = BRIM_VERSION;
  return json;
}

}  // namespace brim::command
