// From a network to a file: programs for each size of a batch, measured; a proof; and the engine is
// run before it is written.
#include <brim/deploy/engine.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/check.h"
#include "deploy/engine/classes.h"
#include "deploy/engine/file.h"
#include "deploy/engine/opened_engine.h"
#include "deploy/engine/pictures.h"
#include "deploy/engine/program.h"
#include "deploy/engine/proof.h"
#include "deploy/onnx/onnx_graph.h"
#include "diag/machine/parts.h"
#include "io/atomic_file.h"

namespace brim::deploy {
namespace {

void report(const EngineOptions& options, const std::string& what, double fraction) {
  if (options.progress) options.progress(what, fraction);
}

/// The programs of an engine, one for each size of a batch.
class Programs {
 public:
  Programs(nn::Module& network, const EngineForward& forward, const std::vector<Tensor>& examples,
           const EngineOptions& options)
      : network_(network), forward_(forward), examples_(examples), options_(options) {}

  void add(int64_t batch, EngineFile& file, EngineWeights& weights) {
    EngineProgram program = program_of(fastest_pass(batch), weights);
    program.batch = batch;
    file.programs.push_back(std::move(program));
  }

  /// For batches of `pass`, once.
  const EngineNetwork& simplified(int64_t pass) {
    const auto [found, is_new] = networks_.try_emplace(pass);
    if (is_new) {
      OnnxGraph graph = onnx_graph(network_, forward_, examples_,
                                   {.batch = pass,
                                    .symmetric_int8 = false,
                                    .inputs = options_.inputs,
                                    .outputs = options_.outputs,
                                    .metadata = {}});
      (void)graph.prune();
      found->second = engine_network(graph);
      if (options_.pictures) read_pictures(found->second, *options_.pictures);
      choose_classes(found->second, options_);
      simplify(found->second);
    }
    return found->second;
  }

 private:
  EngineProgram program_of(int64_t pass, EngineWeights& weights) {
    const std::string what =
        pass == 1 ? "layers measured" : fmt::format("layers measured, {} samples at once", pass);
    return engine_program(simplified(pass), pass, options_.threads, weights,
                          [&](double fraction) { report(options_, what, fraction); });
  }

  /// As many samples as go through the steps together fastest: few stay in the cache, and threads
  /// take passes of their own; many share the reading of weights.
  int64_t fastest_pass(int64_t batch) {
    const auto [found, is_new] = passes_.try_emplace(batch, batch);
    if (!is_new || batch == 1) return found->second;
    constexpr int64_t kMaxPass = 256;  // more at once share nothing more, and take memory
    double best = std::numeric_limits<double>::infinity();
    for (const int64_t pass : {int64_t{1}, int64_t{4}, batch}) {
      if (batch % pass != 0 || pass > kMaxPass) continue;
      const double seconds = seconds_of(batch, pass);
      if (seconds < best) found->second = pass;
      best = std::min(best, seconds);
    }
    return found->second;
  }

  /// A sample of a run in such passes. They go one after the other: some of them show it.
  double seconds_of(int64_t batch, int64_t pass) {
    constexpr int64_t kEnough = 64;
    batch = std::min(batch, std::max(kEnough, pass));
    EngineWeights weights;
    EngineFile file;
    file.programs.push_back(program_of(pass, weights));
    file.programs[0].batch = batch;
    file.weights = &weights;
    file.inputs = options_.inputs;
    file.outputs = output_names(options_);
    report(options_, fmt::format("passes of {} measured", pass), 0);
    return OpenedEngine(bytes_of(file), options_.threads).seconds(batch) /
           static_cast<double>(batch);
  }

  nn::Module& network_;
  const EngineForward& forward_;
  const std::vector<Tensor>& examples_;
  const EngineOptions& options_;
  std::map<int64_t, EngineNetwork> networks_;
  std::map<int64_t, int64_t> passes_;
};

void check_options(const EngineOptions& o) {
  BRIM_CHECK(!o.batches.empty(), ValueError, "[engine] no size of a batch; one is 1");
  for (const int64_t batch : o.batches)
    BRIM_CHECK(batch >= 1 && batch <= 65536 && std::ranges::count(o.batches, batch) == 1,
               ValueError, "[engine] a batch of {}; sizes are from 1 to 65536, each once", batch);
  BRIM_CHECK(o.proof_samples >= 1 && o.proof_samples <= 1024, ValueError,
             "[engine] {} samples as proof; there are 1 to 1024", o.proof_samples);
  BRIM_CHECK(o.proof_samples > 1 || std::ranges::max(o.batches) == 1, ValueError,
             "[engine] one sample as proof; for batches there are 2 or more");
  BRIM_CHECK(o.tolerance >= 0 && o.tolerance < 1, ValueError,
             "[engine] a tolerance of {}; it is from 0, which is the usual one, to below 1",
             o.tolerance);
  BRIM_CHECK(o.threads >= 0 && o.threads <= 1024, ValueError,
             "[engine] {} threads; they are 0, which is all cores, to 1024", o.threads);
}

/// Refuses what cannot fit before minutes are spent on it: the samples, and what one operator reads
/// and writes of one of them.
void check_memory(const EngineNetwork& network, const EngineOptions& options) {
  const auto bytes_of_values = [&](const std::vector<int>& values) {
    int64_t bytes = 0;
    for (const int id : values) {
      if (id < 0) continue;
      const EngineValue& value = network.values[static_cast<size_t>(id)];
      bytes += value.shape.numel() * static_cast<int64_t>(size_of(value.dtype));
    }
    return bytes;
  };
  int64_t largest = 0;
  for (const EngineNode& node : network.nodes)
    if (node.op != "Reshape")  // a view
      largest = std::max(largest, bytes_of_values(node.inputs) + bytes_of_values(node.outputs));
  const int64_t samples = std::max(options.proof_samples, std::ranges::max(options.batches));
  const int64_t least =
      samples * (bytes_of_values(network.inputs) + bytes_of_values(network.outputs)) + largest;
  const int64_t free = diag::usable_memory();
  if (least > free)
    throw OutOfMemory(fmt::format("[engine] the network takes {} bytes or more, and {} are free; "
                                  "give it smaller inputs or batches",
                                  least, free),
                      least, free, 0);
}

double usual_tolerance(const EngineNetwork& network) {
  constexpr double kFloats = 1e-4, kIntegers = 0.02;
  const bool has_integers = std::ranges::any_of(
      network.nodes, [](const EngineNode& node) { return node.quantized_input.has_value(); });
  return has_integers ? kIntegers : kFloats;
}

}  // namespace

EngineSummary save_engine(const std::string& path, nn::Module& network,
                          const EngineForward& forward, const std::vector<Tensor>& examples,
                          const EngineOptions& wanted) {
  check_options(wanted);
  for (const Tensor& x : examples)
    BRIM_CHECK(!x.defined() || x.dtype() == DType::f32 || x.dtype() == DType::i64 ||
                   x.dtype() == DType::u8,
               NotImplemented, "[engine] an input of {}; they are f32, i64 or u8", name(x.dtype()));
  if (wanted.pictures) {
    BRIM_CHECK(!examples.empty(), ValueError, "[engine] pictures: the network has no input");
    check_pictures(*wanted.pictures, examples[0]);
  }
  const DeviceScope host(Device::cpu());  // of constants and samples
  EngineOptions options = wanted;
  Programs programs(network, forward, examples, options);
  const bool is_usual = options.tolerance == 0;
  if (is_usual) options.tolerance = usual_tolerance(programs.simplified(1));
  check_memory(programs.simplified(1), options);
  EngineFile file{.programs = {},
                  .weights = nullptr,
                  .inputs = options.inputs,
                  .outputs = output_names(options),
                  .labels = options.labels,
                  .metadata = options.metadata,
                  .proof_samples = options.proof_samples,
                  .tolerance = options.tolerance,
                  .proof = {}};
  EngineWeights weights;
  const Proof proof = proof_of(network, forward, examples, programs.simplified(1), options);
  if (is_usual) file.tolerance = output_tolerance(proof.scores, options, options.tolerance);
  const int64_t scores = class_count(proof.scores);
  BRIM_CHECK(options.labels.empty() || std::ssize(options.labels) == scores, ValueError,
             "[engine] {} labels for {} outputs; there is one for each", options.labels.size(),
             scores);
  for (const int64_t batch : options.batches) programs.add(batch, file, weights);
  file.weights = &weights;
  for (const auto* all : {&proof.inputs, &proof.outputs})
    for (const Tensor& x : *all) {
      const Tensor dense = x.cpu().contiguous();
      file.proof.emplace_back(static_cast<const char*>(dense.raw()),
                              static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
    }
  const std::string bytes = bytes_of(file);
  EngineSummary summary;
  {
    const OpenedEngine engine(bytes, options.threads);
    double done = 0;
    for (const int64_t batch : options.batches) {
      report(options, "batches verified", done++ / static_cast<double>(options.batches.size()));
      const OpenedEngine::Verified found = engine.verify(batch);
      summary.difference = std::max(summary.difference, found.difference);
      summary.session_bytes = std::max(summary.session_bytes, found.bytes);
    }
  }
  summary.bytes = static_cast<int64_t>(bytes.size());
  summary.weight_bytes = static_cast<int64_t>(weights.bytes().size());
  summary.steps = static_cast<int64_t>(file.programs[0].steps.size());
  for (const ProgramStep& step : file.programs[0].steps)
    ++summary.operators[std::string(name_of(step.op))];
  std::set<std::string> kernels;
  for (const EngineProgram& program : file.programs)
    for (const ProgramStep& step : program.steps) kernels.emplace(name_of(step.op));
  summary.kernels.assign(kernels.begin(), kernels.end());
  io::AtomicFile to(path);
  to.write(bytes);
  to.commit();
  return summary;
}

EngineSummary save_engine(const std::string& path, nn::Module& network, const Tensor& example,
                          const EngineOptions& options) {
  return save_engine(
      path, network,
      [&](std::span<const Tensor> inputs) { return std::vector<Tensor>{network(inputs[0])}; },
      {example}, options);
}

}  // namespace brim::deploy
