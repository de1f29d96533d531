#include <brim/deploy/engine.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <set>

#include <brim_rt.h>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "core/check.h"
#include "deploy/engine/file.h"
#include "deploy/engine/program.h"
#include "deploy/onnx/onnx_graph.h"
#include "io/atomic_file.h"
#include "nn/eval_mode.h"
#include "rt/format.h"

namespace brim::deploy {
namespace {

/// The largest index that embeddings take of integers, plus one.
int64_t tokens_of(const EngineNetwork& network) {
  int64_t tokens = std::numeric_limits<int64_t>::max();
  for (const EngineNode& node : network.nodes)
    if (node.op == "Gather" && network.is_constant(node, 0))
      tokens = std::min(tokens, network.shape(node, 0)[0]);
  return tokens == std::numeric_limits<int64_t>::max() ? 2 : tokens;
}

Tensor sample_of(const Tensor& example, int64_t samples, int64_t tokens, Generator& random) {
  Shape shape = example.shape();
  shape[0] = samples;
  return is_floating(example.dtype())
             ? randn(shape, {.dtype = example.dtype()}, &random)
             : randint(0, tokens, shape, {.dtype = example.dtype()}, &random);
}

/// A file in memory, aligned as the runtime wants it.
class Aligned {
 public:
  explicit Aligned(const std::string& bytes)
      : data_(::operator new (bytes.size(), std::align_val_t{rt::kAlignment})) {
    std::ranges::copy(bytes, static_cast<char*>(data_));
  }
  ~Aligned() { ::operator delete (data_, std::align_val_t{rt::kAlignment}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  const void* data() const { return data_; }

 private:
  void* data_;
};

using Model = std::unique_ptr<brim_rt_model, void (*)(brim_rt_model*)>;
using Session = std::unique_ptr<brim_rt_session, void (*)(brim_rt_session*)>;

/// A file as the runtime sees it. Throws ValueError where it cannot be run.
class OpenedEngine {
 public:
  OpenedEngine(const std::string& bytes, int threads)
      : file_(bytes), threads_(threads), model_(nullptr, &brim_rt_close) {
    brim_rt_model* opened = nullptr;
    brim_rt_error error;
    check(brim_rt_open_memory(file_.data(), bytes.size(), nullptr, &opened, &error), error);
    model_.reset(opened);
  }

  /// The largest difference of the outputs of samples; and what the session takes.
  double verify(int64_t batch, int64_t& bytes) const {
    double worst = 0;
    brim_rt_error error;
    const Session s = session(batch);
    check(brim_rt_verify(s.get(), &worst, &error), error);
    bytes = std::max(bytes, static_cast<int64_t>(brim_rt_memory(s.get())));
    return worst;
  }

  /// Of a run: the shortest of some.
  double seconds(int64_t batch) const {
    const Session s = session(batch);
    std::vector<std::vector<char>> room;
    std::vector<void*> ports;
    int inputs = 0;
    const auto add = [&](const brim_rt_port& port) {
      room.emplace_back(port.bytes, '\0');
      ports.push_back(room.back().data());
    };
    while (const brim_rt_port* port = brim_rt_input(s.get(), inputs)) add(*port), ++inputs;
    for (int i = 0; const brim_rt_port* port = brim_rt_output(s.get(), i); ++i) add(*port);
    using Clock = std::chrono::steady_clock;
    double best = std::numeric_limits<double>::infinity(), spent = 0;
    constexpr int kRounds = 6;
    constexpr double kEnough = 0.5;  // seconds
    brim_rt_error error;
    for (int i = 0; i < kRounds && (i < 2 || spent < kEnough); ++i) {
      const auto start = Clock::now();
      check(brim_rt_run(s.get(), ports.data(), ports.data() + inputs, &error), error);
      const double taken = std::chrono::duration<double>(Clock::now() - start).count();
      best = std::min(best, taken);
      spent += taken;
    }
    return best;
  }

 private:
  static void check(int code, const brim_rt_error& error) {
    BRIM_CHECK(code == BRIM_RT_OK, ValueError, "[engine] not written: {}", error.message);
  }
  Session session(int64_t batch) const {
    const brim_rt_session_options options = {
        .batch = batch, .own_threads = threads_, .threads = nullptr, .isa = nullptr};
    brim_rt_session* created = nullptr;
    brim_rt_error error;
    check(brim_rt_session_create(model_.get(), &options, &created, &error), error);
    return {created, &brim_rt_session_close};
  }

  Aligned file_;
  int threads_;
  Model model_;
};

/// The programs of an engine, one for each size of a batch.
class Programs {
 public:
  Programs(nn::Module& network, const EngineForward& forward, const std::vector<Tensor>& examples,
           const EngineOptions& options)
      : network_(network), forward_(forward), examples_(examples), options_(options) {}

  void add(int64_t batch, EngineFile& file, EngineWeights& weights) {
    EngineProgram program = engine_program(simplified(fastest_pass(batch)), fastest_pass(batch),
                                           options_.threads, weights);
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
      simplify(found->second);
    }
    return found->second;
  }

 private:
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

  double seconds_of(int64_t batch, int64_t pass) {
    EngineWeights weights;
    EngineFile file;
    file.programs.push_back(engine_program(simplified(pass), pass, options_.threads, weights));
    file.programs[0].batch = batch;
    file.weights = &weights;
    file.inputs = options_.inputs;
    file.outputs = options_.outputs;
    return OpenedEngine(bytes_of(file), options_.threads).seconds(batch);
  }

  nn::Module& network_;
  const EngineForward& forward_;
  const std::vector<Tensor>& examples_;
  const EngineOptions& options_;
  std::map<int64_t, EngineNetwork> networks_;
  std::map<int64_t, int64_t> passes_;
};

/// What the network computes of each sample by itself.
std::vector<Tensor> outputs_of(nn::Module& network, const EngineForward& forward,
                               const std::vector<Tensor>& inputs) {
  const NoGrad no_grad;
  const nn::EvalMode eval(network);
  std::vector<std::vector<Tensor>> rows;  // by output
  for (int64_t i = 0; i < inputs[0].shape()[0]; ++i) {
    std::vector<Tensor> sample;
    for (const Tensor& x : inputs) sample.push_back(x.slice(0, i, i + 1));
    const std::vector<Tensor> made = forward(sample);
    rows.resize(made.size());
    for (size_t k = 0; k < made.size(); ++k) {
      BRIM_CHECK(made[k].rank() > 0, NotImplemented,
                 "[engine] an output's axis 0 is the batch, and one has no axes");
      rows[k].push_back(made[k].cpu());
    }
  }
  std::vector<Tensor> outputs;
  for (const std::vector<Tensor>& row : rows) outputs.push_back(cat(row, 0));
  return outputs;
}

/// Whether two outputs agree within `tolerance` of the largest one; NaN agrees with NaN.
bool are_near(const Tensor& x, const Tensor& y, double tolerance) {
  if (x.shape() != y.shape()) return false;
  const std::vector<double> a = x.cpu().to(DType::f64).to_vector<double>(),
                            b = y.cpu().to(DType::f64).to_vector<double>();
  double apart = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(b[i]));
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::fabs(a[i] - b[i]);
    if (!std::isfinite(difference)) return false;
    apart = std::max(apart, difference);
  }
  return apart <= tolerance * largest;
}

bool has_finite(const Tensor& x) {
  return std::ranges::any_of(x.to(DType::f64).to_vector<double>(),
                             [](double v) { return std::isfinite(v); });
}

/// Samples with what the network makes of each.
struct Proof {
  std::vector<Tensor> inputs, outputs;
};

/// Throws ValueError where the outputs hold no number, or are others in a batch than alone.
Proof proof_of(nn::Module& network, const EngineForward& forward,
               const std::vector<Tensor>& examples, int64_t tokens, const EngineOptions& options) {
  Generator random(0);
  Proof proof;
  for (const Tensor& example : examples)
    proof.inputs.push_back(sample_of(example, options.proof_samples, tokens, random));
  proof.outputs = outputs_of(network, forward, proof.inputs);
  BRIM_CHECK(std::ranges::any_of(proof.outputs, has_finite), ValueError,
             "[engine] not written: all outputs are NaN or infinite; are the weights?");
  if (std::ranges::all_of(options.batches, [](int64_t batch) { return batch == 1; })) return proof;
  // Batches go through the steps in passes, so that no sample may depend on the others.
  const NoGrad no_grad;
  const nn::EvalMode eval(network);
  const std::vector<Tensor> together = forward(proof.inputs);
  for (size_t i = 0; i < proof.outputs.size(); ++i)
    BRIM_CHECK(are_near(together[i], proof.outputs[i], options.tolerance), ValueError,
               "[engine] not written: an output differs where a sample is in a batch with others; "
               "such a network can be run with batches of 1 alone");
  return proof;
}

void check_options(const EngineOptions& o) {
  BRIM_CHECK(!o.batches.empty(), ValueError, "[engine] no size of a batch; one is 1");
  for (const int64_t batch : o.batches)
    BRIM_CHECK(batch >= 1 && batch <= 65536 && std::ranges::count(o.batches, batch) == 1,
               ValueError, "[engine] a batch of {}; sizes are from 1 to 65536, each once", batch);
  BRIM_CHECK(o.proof_samples >= 1 && o.proof_samples <= 1024, ValueError,
             "[engine] {} samples as proof; there are 1 to 1024", o.proof_samples);
  BRIM_CHECK(o.proof_samples > 1 || std::ranges::max(o.batches) == 1, ValueError,
             "[engine] one sample as proof; for batches there are 2 or more");
  BRIM_CHECK(o.tolerance > 0 && o.tolerance < 1, ValueError,
             "[engine] a tolerance of {}; it is above 0 and below 1", o.tolerance);
  BRIM_CHECK(o.threads >= 0 && o.threads <= 1024, ValueError,
             "[engine] {} threads; they are 0, which is all cores, to 1024", o.threads);
}

}  // namespace

EngineSummary save_engine(const std::string& path, nn::Module& network,
                          const EngineForward& forward, const std::vector<Tensor>& examples,
                          const EngineOptions& options) {
  check_options(options);
  for (const Tensor& x : examples)
    BRIM_CHECK(!x.defined() || x.dtype() == DType::f32 || x.dtype() == DType::i64 ||
                   x.dtype() == DType::u8,
               NotImplemented, "[engine] an input of {}; they are f32, i64 or u8", name(x.dtype()));
  const DeviceScope host(Device::cpu());  // of constants and samples
  EngineFile file{.programs = {},
                  .weights = nullptr,
                  .inputs = options.inputs,
                  .outputs = options.outputs,
                  .labels = options.labels,
                  .metadata = options.metadata,
                  .proof_samples = options.proof_samples,
                  .tolerance = options.tolerance,
                  .proof = {}};
  EngineWeights weights;
  Programs programs(network, forward, examples, options);
  const Proof proof =
      proof_of(network, forward, examples, tokens_of(programs.simplified(1)), options);
  const std::vector<Tensor>& outputs = proof.outputs;
  const int64_t scores = outputs[0].rank() > 0 ? outputs[0].shape().back() : 0;
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
    for (const int64_t batch : options.batches)
      summary.difference =
          std::max(summary.difference, engine.verify(batch, summary.session_bytes));
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
