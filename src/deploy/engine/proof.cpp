#include "deploy/engine/proof.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "core/check.h"
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

}  // namespace

Proof proof_of(nn::Module& network, const EngineForward& forward,
               const std::vector<Tensor>& examples, const EngineNetwork& simple,
               const EngineOptions& options) {
  const int64_t tokens = tokens_of(simple);
  Generator random(0);
  Proof proof;
  for (const Tensor& example : examples)
    proof.inputs.push_back(sample_of(example, options.proof_samples, tokens, random));
  std::vector<Tensor> read = proof.inputs;  // by the network
  if (options.pictures) {
    proof.inputs[0] =
        sample_pictures(*options.pictures, examples[0].size(1), options.proof_samples, random);
    read[0] = prepared(*options.pictures, proof.inputs[0]);
  }
  proof.outputs = outputs_of(network, forward, read);
  BRIM_CHECK(std::ranges::any_of(proof.outputs, has_finite), ValueError,
             "[engine] not written: all outputs are NaN or infinite; are the weights?");
  if (std::ranges::all_of(options.batches, [](int64_t batch) { return batch == 1; })) return proof;
  // Batches go through the steps in passes, so that no sample may depend on the others.
  const NoGrad no_grad;
  const nn::EvalMode eval(network);
  const std::vector<Tensor> together = forward(read);
  for (size_t i = 0; i < proof.outputs.size(); ++i)
    BRIM_CHECK(are_near(together[i], proof.outputs[i], options.tolerance), ValueError,
               "[engine] not written: an output differs where a sample is in a batch with others; "
               "such a network can be run with batches of 1 alone");
  return proof;
}

}  // namespace brim::deploy
