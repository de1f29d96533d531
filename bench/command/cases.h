// What `brim bench` can time. bench/compare/ has the same work in PyTorch under the same names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/nn/module.h>
#include <brim/plan/compile.h>

#include "plan/traffic.h"

namespace brim::command {

/// How a case is to be run.
struct BenchSetup {
  bool compiled = false;
  CompileOptions compile;
  std::string weights;  ///< file of the network's first state; "": brim's own initialisation
  std::string batches;  ///< safetensors file of x (K, N, ...) f32 and y (K, N) i64; "": random ones
  Device device = {};   ///< where the data lies and the steps run
  /// fp32, tf32, fp16 or bf16: networks train in it as in `brim train --precision`, the operands of
  /// single ops have its dtype.
  std::string precision = "fp32";
  int steps_per_graph = 1;  ///< training steps that one call of a compiled step queues
  bool explain = false;     ///< tell the plan as well

  DType dtype() const {
    return precision == "bf16" ? DType::bf16 : precision == "fp16" ? DType::f16 : DType::f32;
  }
};

/// A case with its data, ready to run.
struct BenchRun {
  std::function<void()> step;
  std::function<CompileStats()> stats;  ///< empty where the step runs eagerly
  /// Where it does, what it launches and moves; takes the next batch.
  std::function<plan::Traffic()> traffic = {};
  std::function<std::string()> explain = {};  ///< the newest plan in words; empty as well
  int steps = 1;                              ///< in one call of `step`
  nn::Module* network = nullptr;              ///< what is trained; lives as long as `step`
  /// A plain copy of one operand where memory decides the time: the pace to compare with.
  std::function<void()> copy = {};
  double bytes = 0, copy_bytes = 0;  ///< read and written by `step` and by `copy`
};

struct BenchCase {
  std::string name;
  std::string about;
  /// Useful floating-point operations of a step, a multiplication and an addition being two; 0
  /// where the work is not products.
  double flops = 0;
  /// Makes the data and the step. Throws FileError for files that do not fit.
  std::function<BenchRun(const BenchSetup&)> make;
  bool trains = false;   ///< a network: takes weights and batches
  bool compiles = true;  ///< false: it measures what only eager steps have
  bool large = false;    ///< made for GPUs, too long for a CPU: not in `all`
};

/// Training steps of whole networks, then single ops.
std::vector<BenchCase> training_cases();
std::vector<BenchCase> op_cases();

/// What `step` launches and moves, eagerly. Throws CompileError if it reads values on the host.
inline plan::Traffic eager_traffic(const std::function<void()>& step) {
  const auto recorded = [&](std::span<const Tensor>) {
    step();
    return std::vector<Tensor>();
  };
  return plan::eager_traffic(recorded, {});
}

/// What one step of `run` launches and moves, after one call at least.
inline plan::Traffic traffic_of(const BenchRun& run) {
  if (run.traffic) return run.traffic();
  const CompileStats stats = run.stats();
  return {stats.launches, stats.operand_bytes};
}

/// `step` called with `inputs` again and again, as it is or compiled.
template <class Step, class... Inputs>
BenchRun repeat(const BenchSetup& setup, Step step, Inputs... inputs) {
  if (!setup.compiled) {
    const auto eager = [step, inputs...]() mutable { step(inputs...); };
    return {.step = eager, .traffic = [eager] { return eager_traffic(eager); }};
  }
  auto compiled = std::make_shared<CompiledStep<Step>>(compile(std::move(step), setup.compile));
  return {.step = [compiled, inputs...] { (*compiled)(inputs...); },
          .stats = [compiled] { return compiled->stats(); },
          .explain = [compiled] { return compiled->explain(); }};
}

}  // namespace brim::command
