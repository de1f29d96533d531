// What a recipe's training step would take on devices and links that need not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <brim/core/device.h>
#include <brim/dist/links.h>
#include <brim/plan/compile.h>
#include <brim/plan/memory_fit.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// Which gradients ranks reduce together, in the order in which they are ready.
enum class Bucketing : uint8_t {
  solved,  ///< those with which all are reduced soonest, by their times and the link: brim's
  filled,  ///< each until it holds so many bytes, as PyTorch's DistributedDataParallel
  ready,   ///< all that are ready when the ones before are reduced, up to so many bytes, as
           ///< Horovod's tensor fusion
};

/// Options of forecast().
struct ForecastOptions {
  int64_t batch = 32;             ///< samples of each rank
  int ranks = 1;                  ///< devices that share each batch, one for each rank
  dist::Links links{};            ///< between them
  Device device = Device::cpu();  ///< whose model counts; a virtual one keeps its profile's
  /// Where the times of kernels come from. Measured on the CPU they are those of num_threads(),
  /// which should be as many as the training is to have.
  KernelTimes kernels = KernelTimes::modelled;
  /// What one core takes to make a sample of the input. A training on the CPU shares its cores with
  /// that; elsewhere it does not count.
  double seconds_per_sample = 0;
  /// Pictures that kernels are measured with; where they are none, or not the batch's, drawn ones.
  Tensor x = {};
  Tensor y = {};           ///< their labels
  int64_t outputs = 1000;  ///< of the network: classes
  int64_t picture = 224;   ///< width and height, where Recipe::input.size says nothing
  bool overlap = true;     ///< gradients are reduced while others are computed
  Bucketing bucketing = Bucketing::solved;  ///< which gradients are reduced together
  double bucket_bytes = 25 << 20;           ///< of buckets that are not solved
  /// Standard deviation of a device's time to compute a step, over its mean; see
  /// expected_slowest(). Ranks wait once a step: not at each layer, as SyncBatchNorm has them.
  double step_spread = 0;
  int64_t memory_limit = 0;  ///< bytes of the device for all of it; 0: what it has
  std::string passes = {};   ///< as CompileOptions::passes
  MemoryPolicy memory_policy = MemoryPolicy::shortest;  ///< as CompileOptions::memory_policy
};

/// What a training step would take.
struct Forecast {
  StepForecast step;  ///< its times
  /// Bytes of the device: parameters, optimizer, temporaries, the batch, and the one after it.
  int64_t memory = 0;
  std::optional<MemoryFit> fit;  ///< how these were fitted into its memory; empty: they fit
  double stragglers = 0;         ///< seconds in which a rank waits for the slowest one to compute
  double copy = 0;    ///< seconds in which a batch of floats comes from the host, a step ahead
  double launch = 0;  ///< seconds of the host's time to launch the step
  double shared = 0;  ///< seconds by which a step on the CPU grows as workers take its cores
  double seconds_per_step = 0;  ///< of a training that its input keeps up with: the longest of the
                                ///< step with its stragglers and what workers take, the copy and
                                ///< the launch
  double energy = 0;            ///< joules of a step, of all ranks
};

/// The expected time of the slowest of `ranks` devices, over the mean one. Each takes a shifted
/// exponential time, as is usual in the analysis of synchronous SGD: a least time that all need,
/// and on top one that is exponentially distributed, so that its mean and its standard deviation
/// are the `spread`. The slowest of n takes H(n) of these, with H the harmonic number. (Lee et al.,
/// "Speeding up distributed machine learning using codes", 2018; Dutta et al., "Slow and stale
/// gradients can win the race", 2018; stragglers as such: Chen et al., "Revisiting distributed
/// synchronous SGD", 2016.) Throws ValueError for no ranks, and for a spread outside of 0 to 1.
double expected_slowest(int ranks, double spread);

/// Of a step of a recipe that classifies pictures of three channels: forward, backward, the sum
/// over all ranks, the update, and the sum of losses. It is recorded and compiled for the device,
/// and run only where its kernels are measured; the network is made there. Links to the host,
/// launches and power are those of a virtual device's profile, and 0 without one. Throws ValueError
/// for other tasks and what recipes and links do not allow, OutOfMemory where weights, optimizer
/// and batch alone do not fit.
Forecast forecast(const Recipe& recipe, const ForecastOptions& options);

}  // namespace brim::train
