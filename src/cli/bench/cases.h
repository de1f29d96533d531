// What `brim bench` can time. bench/compare/ has the same work in PyTorch under the same names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <brim/nn/module.h>
#include <brim/plan/compile.h>

namespace brim::cli {

/// How a case is to be run.
struct BenchSetup {
  bool compiled = false;
  CompileOptions compile;
  std::string weights;  ///< file of the network's first state; "": brim's own initialisation
  std::string batches;  ///< safetensors file of x (K, N, ...) f32 and y (K, N) i64; "": random ones
};

/// A case with its data, ready to run.
struct BenchRun {
  std::function<void()> step;
  std::function<CompileStats()> stats;  ///< empty where the step runs eagerly
  nn::Module* network = nullptr;        ///< what is trained; lives as long as `step`
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
};

/// Training steps of whole networks, then single ops.
std::vector<BenchCase> training_cases();
std::vector<BenchCase> op_cases();

/// `step` called with `inputs` again and again, as it is or compiled.
template <class Step, class... Inputs>
BenchRun repeat(const BenchSetup& setup, Step step, Inputs... inputs) {
  if (!setup.compiled) return {.step = [step, inputs...]() mutable { step(inputs...); }};
  auto compiled = std::make_shared<CompiledStep<Step>>(compile(std::move(step), setup.compile));
  return {.step = [compiled, inputs...] { (*compiled)(inputs...); },
          .stats = [compiled] { return compiled->stats(); }};
}

}  // namespace brim::cli
