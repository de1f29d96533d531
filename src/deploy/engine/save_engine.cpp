#include <brim/deploy/engine.h>

#include <algorithm>
#include <memory>
#include <new>

#include <brim_rt.h>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/create.h>

#include "core/check.h"
#include "deploy/engine/file.h"
#include "deploy/engine/program.h"
#include "deploy/onnx/onnx_graph.h"
#include "io/atomic_file.h"
#include "nn/eval_mode.h"
#include "rt/format.h"

namespace brim::deploy {
namespace {

using Graphs = std::vector<EngineNetwork>;

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

/// Runs the proof of every program; the largest difference. Throws ValueError.
double verify(const std::string& bytes, const EngineOptions& options) {
  const Aligned file(bytes);
  brim_rt_error error;
  const auto check = [&](int code) {
    BRIM_CHECK(code == BRIM_RT_OK, ValueError, "[engine] not written: {}", error.message);
  };
  brim_rt_model* opened = nullptr;
  check(brim_rt_open_memory(file.data(), bytes.size(), nullptr, &opened, &error));
  const std::unique_ptr<brim_rt_model, void (*)(brim_rt_model*)> model(opened, &brim_rt_close);
  double all = 0;
  for (const int64_t batch : options.batches) {
    const brim_rt_session_options session_options = {
        .batch = batch, .own_threads = options.threads, .threads = nullptr, .isa = nullptr};
    brim_rt_session* created = nullptr;
    check(brim_rt_session_create(model.get(), &session_options, &created, &error));
    const std::unique_ptr<brim_rt_session, void (*)(brim_rt_session*)> session(
        created, &brim_rt_session_close);
    double worst = 0;
    check(brim_rt_verify(session.get(), &worst, &error));
    all = std::max(all, worst);
  }
  return all;
}

void check_options(const EngineOptions& o) {
  BRIM_CHECK(!o.batches.empty(), ValueError, "[engine] no size of a batch; one is 1");
  for (const int64_t batch : o.batches)
    BRIM_CHECK(batch >= 1 && batch <= 65536 && std::ranges::count(o.batches, batch) == 1,
               ValueError, "[engine] a batch of {}; sizes are from 1 to 65536, each once", batch);
  BRIM_CHECK(o.proof_samples >= 1 && o.proof_samples <= 1024, ValueError,
             "[engine] {} samples as proof; there are 1 to 1024", o.proof_samples);
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
  int64_t tokens = 0;
  for (const int64_t batch : options.batches) {
    OnnxGraph graph = onnx_graph(network, forward, examples,
                                 {.batch = batch,
                                  .symmetric_int8 = false,
                                  .inputs = options.inputs,
                                  .outputs = options.outputs,
                                  .metadata = {}});
    (void)graph.prune();
    EngineNetwork simple = engine_network(graph);
    tokens = tokens_of(simple);
    simplify(simple);
    file.programs.push_back(engine_program(simple, batch, options.threads, weights));
  }
  file.weights = &weights;

  Generator random(0);
  std::vector<Tensor> inputs;
  for (const Tensor& example : examples)
    inputs.push_back(sample_of(example, options.proof_samples, tokens, random));
  std::vector<Tensor> outputs;
  {
    const NoGrad no_grad;
    const nn::EvalMode eval(network);
    outputs = forward(inputs);
  }
  for (const auto* all : {&inputs, &outputs})
    for (const Tensor& x : *all) {
      const Tensor dense = x.cpu().contiguous();
      file.proof.emplace_back(static_cast<const char*>(dense.raw()),
                              static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
    }
  const std::string bytes = bytes_of(file);
  EngineSummary summary;
  summary.difference = verify(bytes, options);
  summary.bytes = static_cast<int64_t>(bytes.size());
  summary.weight_bytes = static_cast<int64_t>(weights.bytes().size());
  for (const EngineProgram& program : file.programs)
    summary.arena_bytes = std::max(summary.arena_bytes, static_cast<int64_t>(program.arena_bytes));
  summary.steps = static_cast<int64_t>(file.programs[0].steps.size());
  for (const ProgramStep& step : file.programs[0].steps)
    ++summary.operators[std::string(name_of(step.op))];
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
