#include "deploy/engine/proof.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "core/check.h"
#include "deploy/engine/classes.h"
#include "deploy/engine/pictures.h"
#include "nn/eval_mode.h"

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

/// Reports how many of the modules have computed one of the samples. Those that compute several
/// times count as one.
class SamplesDone {
 public:
  SamplesDone(nn::Module& network, int64_t samples, const EngineOptions& options)
      : samples_(static_cast<double>(samples)), options_(options) {
    if (!options.progress) return;
    network.apply([this](nn::Module& module) {
      hooks_.push_back(
          module.register_forward_hook([this](nn::Module&, const Tensor&, const Tensor&) {
            ++calls_;
            report();
            return Tensor();
          }));
    });
  }
  void begins(int64_t sample) {
    sample_ = static_cast<double>(sample);
    calls_ = 0;
    report();
  }

 private:
  void report() const {
    if (!options_.progress) return;
    const double of_sample = static_cast<double>(calls_) / static_cast<double>(hooks_.size());
    options_.progress("samples computed", (sample_ + std::min(of_sample, 1.0)) / samples_);
  }

  const double samples_;
  const EngineOptions& options_;
  double sample_ = 0;
  size_t calls_ = 0;
  std::vector<nn::Module::HookHandle> hooks_;
};

/// What the network computes of each sample by itself.
std::vector<Tensor> outputs_of(nn::Module& network, const EngineForward& forward,
                               const std::vector<Tensor>& inputs, const EngineOptions& options) {
  const NoGrad no_grad;
  const nn::EvalMode eval(network);
  std::vector<std::vector<Tensor>> rows;  // by output
  SamplesDone done(network, inputs[0].shape()[0], options);
  for (int64_t i = 0; i < inputs[0].shape()[0]; ++i) {
    done.begins(i);
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

/// Indices that are compared.
int64_t sure_classes(const Tensor& indices) {
  const std::vector<int32_t> all = indices.to_vector<int32_t>();
  return std::ranges::count_if(all, [](int32_t i) { return i >= 0; });
}

/// Of samples, as many as the file holds: those with the most indices that are compared.
std::vector<int64_t> surest_of(const Tensor& scores, const EngineOptions& options) {
  std::vector<std::pair<int64_t, int64_t>> order;  // minus how many, sample
  for (int64_t i = 0; i < scores.size(0); ++i)
    order.emplace_back(
        -sure_classes(chosen_classes(scores.slice(0, i, i + 1), options, options.tolerance).back()),
        i);
  std::ranges::sort(order);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < options.proof_samples; ++i)
    kept.push_back(order[static_cast<size_t>(i)].second);
  return kept;
}

Tensor rows_of(const Tensor& x, const std::vector<int64_t>& rows) {
  std::vector<Tensor> all;
  for (const int64_t row : rows) all.push_back(x.slice(0, row, row + 1));
  return cat(all, 0);
}

/// Batches go through the steps in passes, so that no sample may depend on the others.
void check_batches(nn::Module& network, const EngineForward& forward,
                   const std::vector<Tensor>& read, const std::vector<Tensor>& outputs,
                   const EngineOptions& options) {
  if (std::ranges::all_of(options.batches, [](int64_t batch) { return batch == 1; })) return;
  const NoGrad no_grad;
  const nn::EvalMode eval(network);
  const std::vector<Tensor> together = forward(read);
  for (size_t i = 0; i < outputs.size(); ++i)
    BRIM_CHECK(are_near(together[i], outputs[i], options.tolerance), ValueError,
               "[engine] not written: an output differs where a sample is in a batch with others; "
               "such a network can be run with batches of 1 alone");
}

}  // namespace

Proof proof_of(nn::Module& network, const EngineForward& forward,
               const std::vector<Tensor>& examples, const EngineNetwork& simple,
               const EngineOptions& options) {
  if (options.progress) options.progress("samples drawn", 0);
  const int64_t tokens = tokens_of(simple);
  Generator random(0);
  Proof proof;
  const bool has_indices =
      options.output == EngineOutput::top || options.output == EngineOutput::classes;
  constexpr int64_t kDrawn = 4;  // for each sample that is kept
  const int64_t samples = options.proof_samples * (has_indices ? kDrawn : 1);
  for (const Tensor& example : examples)
    proof.inputs.push_back(sample_of(example, samples, tokens, random));
  std::vector<Tensor> read = proof.inputs;  // by the network
  if (options.pictures) {
    proof.inputs[0] = sample_pictures(*options.pictures, examples[0].size(1), samples, random);
    if (options.progress) options.progress("pictures prepared", 0);
    read[0] = prepared(*options.pictures, proof.inputs[0]);
  }
  proof.outputs = outputs_of(network, forward, read, options);
  BRIM_CHECK(std::ranges::any_of(proof.outputs, has_finite), ValueError,
             "[engine] not written: all outputs are NaN or infinite; are the weights?");
  check_output(options, proof.outputs[0]);
  if (has_indices) {
    const std::vector<int64_t> kept = surest_of(proof.outputs[0], options);
    for (auto* all : {&proof.inputs, &read, &proof.outputs})
      for (Tensor& x : *all) x = rows_of(x, kept);
  }
  proof.scores = proof.outputs[0];
  check_batches(network, forward, read, proof.outputs, options);
  const std::vector<Tensor> chosen = chosen_classes(proof.scores, options, options.tolerance);
  proof.outputs.erase(proof.outputs.begin());
  proof.outputs.insert(proof.outputs.begin(), chosen.begin(), chosen.end());
  BRIM_CHECK(options.output != EngineOutput::classes || sure_classes(chosen[0]) > 0, ValueError,
             "[engine] not written: the likeliest classes of all samples are within the tolerance "
             "of others, and prove nothing; is the network trained?");
  return proof;
}

}  // namespace brim::deploy
