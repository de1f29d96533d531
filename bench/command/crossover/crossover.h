// `brim bench crossover`: from which width of a network and which batch on a GPU trains it faster
// than this machine's CPU, and what decides.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <brim/core/device.h>

#include "command/arguments.h"

namespace brim::command {

struct CrossoverArguments {
  std::string widths = "6,24,96", batches = "1,4,32,256", profiles = "t4,h100";
  std::string mode = "compiled";  ///< eager or compiled
  std::string json, svg;
  double seconds = 0.2;  ///< of a measurement
};

/// A step of a network that is `width` channels wide on a device, with its batch from the host.
/// Seconds.
struct CrossoverStep {
  int64_t width = 0, batch = 0;
  double step = 0;
  double copy = 0;     ///< of the batch to the device
  double launch = 0;   ///< of the host, to queue the step
  double compute = 0;  ///< of the device, where nothing else holds it up
  double cpu = 0;      ///< the step on the CPU

  double gain() const { return cpu / step; }
  /// What it would have to be shorter: "copies", "launches" or "compute".
  const char* decides() const;
};

struct CrossoverDevice {
  std::string name;  ///< "cuda:0", "NVIDIA T4"
  bool is_simulated = false;
  std::vector<CrossoverStep> steps;
};

/// The CPU's steps are measured, in seconds; those of GPUs, too.
class CrossoverBench {
 public:
  CrossoverBench(std::string mode, double seconds) : mode_(std::move(mode)), seconds_(seconds) {}
  double on_cpu(int64_t width, int64_t batch) const;
  CrossoverStep on_gpu(Device gpu, int64_t width, int64_t batch) const;
  /// On the virtual device that sim:0 is now.
  CrossoverStep simulated(int64_t width, int64_t batch) const;

 private:
  std::string mode_;
  double seconds_;
};

/// Lines.
std::vector<std::string> crossover_table(const CrossoverDevice& device);
/// "at batch 4: width from 96 on" for each batch, and the same the other way round.
std::vector<std::string> crossover_summary(const CrossoverDevice& device);
nlohmann::ordered_json crossover_json(const std::vector<CrossoverDevice>& devices,
                                      const CrossoverArguments& arguments);
/// Grids of width and batch, one a device; colours are gains.
std::string crossover_svg(const std::vector<CrossoverDevice>& devices, const std::string& mode);

/// Defines the subcommand.
Arguments define_crossover(Arguments args, CrossoverArguments& crossover);

/// Throws UsageError; DeviceError, ValueError and FileError for devices and profiles.
int run_crossover(const CrossoverArguments& arguments);

}  // namespace brim::command
