// See summary.h. What a launch reads of another one is followed by storage, as plans do.
#include <brim/deploy/summary.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>

#include "backend/launch.h"
#include "core/check.h"
#include "deploy/module_tracker.h"
#include "plan/recorder.h"

namespace brim::deploy {
namespace {

using backend::Launch;
using backend::Operand;

/// A forward and a backward pass.
struct RecordedPasses {
  plan::Program program;
  size_t forward = 0;   ///< launches of the forward pass
  size_t backward = 0;  ///< the first one of the backward pass
  Shape output;
  std::vector<std::string> modules;      ///< by launch of the forward pass
  std::map<std::string, Shape> outputs;  ///< of modules
  std::map<std::string, int64_t> calls;
};

RecordedPasses record_passes(nn::Module& network, std::span<const Tensor> examples,
                             const SummaryForward& forward) {
  RecordedPasses passes;
  ModuleTracker tracker(network, [&](const std::string& module, const Tensor& y) {
    passes.outputs[module] = y.shape();
  });
  const auto step = [&](std::span<const Tensor> inputs) {
    std::vector<Tensor> results = forward(inputs);
    BRIM_CHECK(!results.empty() && results[0].defined(), ValueError,
               "[summary] the forward pass returned no tensor");
    passes.output = results[0].shape();
    passes.forward = plan::recorded_launches();
    passes.backward = passes.forward;
    Tensor loss;
    for (const Tensor& y : results)
      if (y.defined() && y.requires_grad()) loss = loss.defined() ? loss + sum(y) : sum(y);
    if (loss.defined()) {
      passes.backward = plan::recorded_launches();
      loss.backward();
    }
    return results;
  };
  try {
    plan::Recording recording = plan::record(step, examples, /*keep_gradients=*/false);
    passes.program = std::move(recording.program);
  } catch (const CompileError& e) {
    raise<CompileError>("[summary] the network cannot be recorded: {}", e.what());
  }
  passes.modules = tracker.modules(passes.forward);
  passes.calls = tracker.calls();
  return passes;
}

/// Storages that the forward pass makes and the backward pass reads.
std::unordered_set<const Storage*> kept_storages(const RecordedPasses& passes) {
  std::unordered_set<const Storage*> kept;
  for (size_t i = passes.backward; i < passes.program.launches.size(); ++i)
    for (const Operand& o : passes.program.launches[i]->operands())
      if (!o.writes && o.tensor->defined()) kept.insert(o.tensor->storage().get());
  return kept;
}

int64_t bytes_of_all(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, t] : tensors)
    bytes += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
  return bytes;
}

void add_once(std::vector<std::string>& all, const std::string& name) {
  if (std::ranges::find(all, name) == all.end()) all.push_back(name);
}

/// Whether `name` is `outer` or in it.
bool is_within(const std::string& name, const std::string& outer) {
  return outer.empty() || name == outer ||
         (name.starts_with(outer) && name.size() > outer.size() && name[outer.size()] == '.');
}

class Summarizer {
 public:
  Summarizer(nn::Module& network, std::span<const Tensor> examples, const SummaryForward& forward)
      : passes_(record_passes(network, examples, forward)), kept_(kept_storages(passes_)) {
    for (const Tensor& input : passes_.program.inputs)
      inputs_.emplace(input.storage().get(), -1 - static_cast<int>(inputs_.size()));
    add_modules(network, "", 0);
    for (size_t i = 0; i < passes_.forward; ++i) add_launch(*passes_.program.launches[i], i);
    find_outputs();
    add_totals();
    result_.input = examples[0].shape();
    result_.input_dtype = examples[0].dtype();
    for (const Tensor& x : examples.subspan(1)) result_.others.push_back({x.shape(), x.dtype()});
    for (const Tensor& x : examples)
      result_.input_bytes += x.numel() * static_cast<int64_t>(size_of(x.dtype()));
    result_.output = passes_.output;
    for (size_t i = passes_.backward; i < passes_.program.launches.size(); ++i)
      result_.backward_flops += passes_.program.launches[i]->op_call().operations;
    for (const auto& [name, t] : network.named_parameters()) {
      result_.parameters += t.numel();
      if (t.requires_grad()) result_.trained += t.numel();
    }
    result_.parameter_bytes = bytes_of_all(network.named_parameters());
    result_.buffer_bytes = bytes_of_all(network.named_buffers());
  }
  NetworkSummary take() { return std::move(result_); }

 private:
  void add_modules(nn::Module& module, const std::string& name, int depth) {
    ModuleSummary made{.name = name, .kind = module.kind(), .depth = depth};
    const auto children = module.named_children();
    if (children.empty()) {
      const std::string text = module.str();  // "Kind(options)"
      made.options = text.substr(made.kind.size() + 1, text.size() - made.kind.size() - 2);
    }
    made.parameters = module.num_parameters();
    if (const auto found = passes_.calls.find(name); found != passes_.calls.end())
      made.calls = found->second;
    if (const auto found = passes_.outputs.find(name); found != passes_.outputs.end())
      made.output = found->second;
    by_name_[name] = result_.modules.size();
    result_.modules.push_back(std::move(made));
    for (const auto& [child, of] : children)
      add_modules(*of, name.empty() ? child : name + "." + child, depth + 1);
  }

  void add_launch(const Launch& launch, size_t i) {
    const std::string& module = passes_.modules[i];
    if (result_.nodes.empty() || result_.nodes.back().module != module)
      result_.nodes.push_back({.module = module, .ops = {}, .output = {}, .inputs = {}});
    const int at = static_cast<int>(result_.nodes.size()) - 1;
    SummaryNode& node = result_.nodes.back();
    const double flops = launch.op_call().operations;
    int64_t bytes = 0;
    const Tensor* largest = nullptr;
    for (const Operand& o : launch.operands()) {
      if (!o.tensor->defined()) continue;
      const Storage* const storage = o.tensor->storage().get();
      if (!o.writes || launch.traits(o).reads) add_edge(node, at, storage);
      if (!o.writes) continue;
      // What is written beside the result, as running means, is smaller.
      if (!largest || o.tensor->numel() > largest->numel()) largest = o.tensor;
      if (passes_.program.role(*storage) == plan::Role::external) continue;
      const bool is_new = writers_.emplace(storage, at).second;
      writers_[storage] = at;
      if (is_new && kept_.contains(storage)) bytes += static_cast<int64_t>(storage->bytes());
    }
    if (largest) node.output = largest->shape();
    add_once(node.ops, launch.name());
    node.flops += flops;
    node.activation_bytes += bytes;
    ModuleSummary& of = result_.modules[by_name_.at(module)];
    add_once(of.own_ops, launch.name());
    of.own_flops += flops;
    of.own_activation_bytes += bytes;
  }

  void add_edge(SummaryNode& node, int at, const Storage* storage) {
    const auto writer = writers_.find(storage);
    const auto input = inputs_.find(storage);
    if (writer == writers_.end() && input == inputs_.end()) return;
    const int from = writer != writers_.end() ? writer->second : input->second;
    if (from == at || std::ranges::find(node.inputs, from) != node.inputs.end()) return;
    node.inputs.insert(std::ranges::lower_bound(node.inputs, from), from);
  }

  /// Kernels may see a result in another shape than the module gives.
  void find_outputs() {
    for (SummaryNode& node : result_.nodes) {
      const auto known = passes_.outputs.find(node.module);
      const size_t at = by_name_.at(node.module);
      const bool has_children = at + 1 < result_.modules.size() &&
                                result_.modules[at + 1].depth > result_.modules[at].depth;
      if (known != passes_.outputs.end() && !has_children) node.output = known->second;
    }
  }

  void add_totals() {
    for (ModuleSummary& module : result_.modules) {
      for (const ModuleSummary& other : result_.modules) {
        if (!is_within(other.name, module.name)) continue;
        module.flops += other.own_flops;
        module.activation_bytes += other.own_activation_bytes;
      }
      if (module.output || module.calls == 0) continue;
      for (const SummaryNode& node : result_.nodes)  // a forward of its own
        if (is_within(node.module, module.name)) module.output = node.output;
    }
    result_.modules[0].output = passes_.output;
    result_.flops = result_.modules[0].flops;
    result_.activation_bytes = result_.modules[0].activation_bytes;
  }

  const RecordedPasses passes_;
  const std::unordered_set<const Storage*> kept_;
  std::map<std::string, size_t> by_name_;
  std::unordered_map<const Storage*, int> writers_;  // nodes
  std::unordered_map<const Storage*, int> inputs_;   // as SummaryNode numbers them
  NetworkSummary result_;
};

}  // namespace

NetworkSummary summarize(nn::Module& network, const Tensor& x) {
  return summarize(network, std::span(&x, 1), [&network](std::span<const Tensor> inputs) {
    return std::vector<Tensor>{network(inputs[0])};
  });
}

NetworkSummary summarize(nn::Module& network, std::span<const Tensor> examples,
                         const SummaryForward& forward) {
  BRIM_CHECK(!examples.empty(), ValueError, "[summary] no input; give an example of each");
  for (const Tensor& x : examples)
    BRIM_CHECK(x.defined() && x.rank() > 0, ShapeError,
               "[summary] an input has no axes; its axis 0 is the batch");
  return Summarizer(network, examples, forward).take();
}

}  // namespace brim::deploy
