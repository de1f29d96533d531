// Kernels of a recorded forward pass, one by one, as nodes.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "compress/prunable.h"
#include "deploy/onnx/graph.h"
#include "deploy/onnx/memory.h"
#include "deploy/onnx/onnx_graph.h"
#include "deploy/onnx/recorded_network.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

using backend::Launch;
using backend::Operand;

constexpr const char* kFixIt = "fix the size of the batch (OnnxOptions::batch, --batch)";

Shape with_batch(const Tensor& example, int64_t batch) {
  Shape shape = example.shape();
  shape[0] = batch;
  return shape;
}

std::vector<Tensor> with_batch(const std::vector<Tensor>& examples, int64_t batch) {
  std::vector<Tensor> all;
  for (const Tensor& x : examples)
    all.push_back(Tensor::empty(with_batch(x, batch), x.dtype(), x.device()));
  return all;
}

/// Launches of which an output depends.
std::vector<bool> needed_launches(const plan::Program& program) {
  std::unordered_set<const Storage*> needed;
  for (const Tensor& t : program.outputs) needed.insert(t.storage().get());
  std::vector<bool> is_needed(program.launches.size(), false);
  for (size_t i = program.launches.size(); i-- > 0;) {
    const auto operands = program.launches[i]->operands();
    is_needed[i] = std::ranges::any_of(operands, [&](const Operand& o) {
      return o.writes && o.tensor->defined() && needed.contains(o.tensor->storage().get());
    });
    if (!is_needed[i]) continue;
    for (const Operand& o : operands)
      if (!o.writes && o.tensor->defined()) needed.insert(o.tensor->storage().get());
  }
  return is_needed;
}

/// Without the axes along which one element is repeated, as many times as the batch has samples.
Tensor without_repeats(const Tensor& x) {
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i)
    if (x.strides()[i] == 0 && shape[i] > 0) shape[i] = 1;
  return x.alias(shape, x.strides(), x.offset());
}

/// Constants of both recordings hold the same.
bool have_same_bytes(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.storage() == b.storage() && a.offset() == b.offset() && a.strides() == b.strides())
    return true;
  const Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

/// What ONNX cannot hold, by kernel and reason, and the modules it is in.
class Problems {
 public:
  void add(const std::string& kernel, const std::string& reason, const std::string& module,
           bool depends_on_batch) {
    const std::string what = reason.empty() ? kernel : fmt::format("{} ({})", kernel, reason);
    if (!modules_.contains(what)) order_.push_back(what);
    modules_[what].insert(module.empty() ? "the network itself" : module);
    depends_on_batch_ = depends_on_batch_ || depends_on_batch;
  }
  void raise_any(bool is_fixed) const {
    if (order_.empty()) return;
    std::string list;
    for (const std::string& what : order_)
      list += fmt::format("{}{} in {}", list.empty() ? "" : "; ", what,
                          fmt::join(modules_.at(what), ", "));
    raise<NotImplemented>("[onnx] not in ONNX's opset {}: {}; {}", kOnnxOpset, list,
                          depends_on_batch_ && !is_fixed
                              ? kFixIt
                              : "docs/ONNX.md has what can be exported: write these modules so");
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::set<std::string>> modules_;
  bool depends_on_batch_ = false;
};

class OnnxExport {
 public:
  OnnxExport(nn::Module& network, const OnnxForward& forward, const std::vector<Tensor>& examples,
             const OnnxOptions& options)
      : network_(network),
        options_(options),
        // Two sizes tell what depends on the batch.
        batches_(options.batch.value_or(2), options.batch.value_or(3)),
        first_(record_network(network, forward, with_batch(examples, batches_.first))),
        second_(options.batch
                    ? RecordedNetwork()
                    : record_network(network, forward, with_batch(examples, batches_.second))),
        memory_(graph_, batches_.first) {}

  /// Everything is in the graph; what no output needs as well.
  OnnxGraph made() && {
    check_same_steps();
    for (const auto* names : {&options_.outputs, &options_.inputs})
      for (const std::string& name : *names) graph_.reserve(name);
    for (size_t i = 0; i < options_.inputs.size(); ++i) {
      const Window w = window_of(program().inputs[i], other().inputs[i], batches_);
      memory_.write(w, graph_.input(options_.inputs[i], w.shape, w.dtype));
    }
    add_parameters();
    find_int8_weights();
    const std::vector<bool> is_needed = needed_launches(program());
    for (size_t i = 0; i < is_needed.size(); ++i)
      if (is_needed[i]) translate(i);
    // All are read before any gets its name: one may be a view of another.
    std::vector<std::optional<Value>> outputs;
    for (size_t i = 0; i < options_.outputs.size(); ++i) outputs.push_back(output(i));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i]) graph_.output(options_.outputs[i], *outputs[i]);
    problems_.raise_any(options_.batch.has_value());
    return std::move(graph_);
  }

 private:
  const plan::Program& program() const { return first_.program; }
  const plan::Program& other() const { return options_.batch ? first_.program : second_.program; }

  /// The same kernels over the same storages in both recordings.
  void check_same_steps() const {
    const plan::Program &a = program(), &b = other();
    std::unordered_map<const Storage*, const Storage*> twins;
    const auto is_same = [&](const Tensor& x, const Tensor& y) {
      if (!x.defined() || !y.defined()) return x.defined() == y.defined();
      return twins.try_emplace(x.storage().get(), y.storage().get()).first->second ==
             y.storage().get();
    };
    bool is_one = a.launches.size() == b.launches.size() && a.outputs.size() == b.outputs.size();
    for (size_t i = 0; is_one && i < a.launches.size(); ++i) {
      const auto x = a.launches[i]->operands(), y = b.launches[i]->operands();
      is_one = std::string_view(a.launches[i]->name()) == b.launches[i]->name() &&
               a.launches[i]->dtype() == b.launches[i]->dtype() &&
               std::ranges::equal(x, y, [&](const Operand& p, const Operand& q) {
                 return is_same(*p.tensor, *q.tensor);
               });
    }
    BRIM_CHECK(is_one, NotImplemented,
               "[onnx] the network computes in other steps with batches of other sizes; {}",
               kFixIt);
    BRIM_CHECK(a.outputs.size() == options_.outputs.size(), ValueError,
               "[onnx] {} names for {} outputs; OnnxOptions::outputs has one for each",
               options_.outputs.size(), a.outputs.size());
  }

  void add_parameters() {
    std::unordered_set<const Storage*> used;  // buffers that eval mode does not read stay away
    for (const auto& launch : program().launches)
      for (const Operand& o : launch->operands())
        if (o.tensor->defined()) used.insert(o.tensor->storage().get());
    for (const Tensor& t : program().outputs) used.insert(t.storage().get());
    for (const NamedTensors& all : {network_.named_parameters(), network_.named_buffers()})
      for (const auto& [name, x] : all)
        if (used.contains(x.storage().get())) {
          parameters_.insert(x.storage().get());
          memory_.add_constant(window_of(x, x, batches_), graph_.initializer(name, x));
        }
  }

  void find_int8_weights() {
    for (const compress::Prunable& layer : compress::prunable_layers(network_)) {
      const Int8Weight* weight =
          layer.linear ? layer.linear->int8_weight() : layer.conv->int8_weight();
      if (!weight) continue;
      const std::string name = layer.name.empty() ? "weight" : layer.name + ".weight";
      int8_weights_.emplace(weight->packed.storage().get(), Translated::Int8Layer{name, weight});
    }
  }

  void translate(size_t i) {
    const Launch &first = *program().launches[i], &second = *other().launches[i];
    const std::string& module = first_.modules[i];
    graph_.set_scope(module);
    const auto forget = [&] {
      for (const Operand& o : first.operands())
        if (o.writes && o.tensor->defined()) memory_.lose(o.tensor->storage().get());
    };
    const Translation translation = find_translation(first.name());
    if (!translation) {
      problems_.add(first.name(), "", module, false);
      return forget();
    }
    try {
      add_constants(first, second);
      Translated translated(shared_, first, second);
      translation(translated);
    } catch (const LostValue&) {  // a problem that is known
      forget();
    } catch (const DependsOnBatch& e) {
      problems_.add(first.name(), e.what(), module, true);
      forget();
    } catch (const NotImplemented& e) {
      problems_.add(first.name(), e.what(), module, false);
      forget();
    }
  }

  /// Operands that were there before the pass.
  void add_constants(const Launch& first, const Launch& second) {
    for (size_t k = 0; k < first.operands().size(); ++k) {
      const Operand& o = first.operands()[k];
      const bool is_packed = std::string_view(first.name()).starts_with("int8_") &&
                             packed_operands_.contains(first.traits(o).name);
      if (!o.writes && o.tensor->defined() && !is_packed)
        add_constant(*o.tensor, *second.operands()[k].tensor);
    }
    for (const Operand& o : first.operands())
      if (o.writes && o.tensor->defined()) written_.insert(o.tensor->storage().get());
  }

  /// Unless it is a parameter, or made in the pass.
  void add_constant(const Tensor& first, const Tensor& second) {
    const Storage* const storage = first.storage().get();
    if (program().role(*storage) != plan::Role::external || parameters_.contains(storage) ||
        written_.contains(storage))
      return;
    const Tensor x = without_repeats(first), y = without_repeats(second);
    BRIM_CHECK(have_same_bytes(x, y), deploy::DependsOnBatch, "a constant depends on the batch");
    const auto key = std::tuple(storage, x.offset(), x.shape().str(), x.strides().str());
    if (constants_.insert(key).second)
      memory_.add_constant(window_of(x, x, batches_), graph_.initializer("constant", x));
  }

  /// Nothing where it is a problem.
  std::optional<Value> output(size_t i) {
    graph_.set_scope("");
    try {
      add_constant(program().outputs[i], other().outputs[i]);
      const Window w = window_of(program().outputs[i], other().outputs[i], batches_);
      return memory_.read(w);
    } catch (const LostValue&) {
    } catch (const DependsOnBatch& e) {
      problems_.add("the output " + options_.outputs[i], e.what(), "", true);
    } catch (const NotImplemented& e) {
      problems_.add("the output " + options_.outputs[i], e.what(), "", false);
    }
    return {};
  }

  nn::Module& network_;
  const OnnxOptions& options_;
  const std::pair<int64_t, int64_t> batches_;
  const RecordedNetwork first_, second_;
  OnnxGraph graph_;
  OnnxMemory memory_;
  Problems problems_;
  /// Operands of layers in integers that int8_layer() stands for.
  const std::set<std::string> packed_operands_ = {"packed", "sums", "scales", "correction"};
  std::unordered_set<const Storage*> parameters_, written_;
  std::set<std::tuple<const Storage*, int64_t, std::string, std::string>> constants_;
  std::map<const Storage*, Translated::Int8Layer> int8_weights_;
  Translated::Shared shared_ = {.graph = graph_,
                                .memory = memory_,
                                .batches = batches_,
                                .symmetric_int8 = options_.symmetric_int8,
                                .find_int8 =
                                    [this](const Storage* packed) {
                                      const auto found = int8_weights_.find(packed);
                                      return found == int8_weights_.end() ? Translated::Int8Layer()
                                                                          : found->second;
                                    },
                                .products = {}};
};

void check_names(const OnnxOptions& options, size_t inputs) {
  BRIM_CHECK(options.inputs.size() == inputs, ValueError,
             "[onnx] {} names for {} inputs; OnnxOptions::inputs has one for each",
             options.inputs.size(), inputs);
  std::set<std::string> names;
  for (const auto* all : {&options.inputs, &options.outputs})
    for (const std::string& name : *all)
      BRIM_CHECK(!name.empty() && names.insert(name).second, ValueError,
                 "[onnx] the inputs and outputs need names of their own, and '{}' is empty or "
                 "there twice",
                 name);
}

}  // namespace

OnnxGraph onnx_graph(nn::Module& network, const OnnxForward& forward,
                     const std::vector<Tensor>& examples, const OnnxOptions& options) {
  BRIM_CHECK(!examples.empty(), ValueError, "[onnx] no example of an input");
  for (const Tensor& x : examples)
    BRIM_CHECK(x.defined() && x.rank() > 0, ShapeError,
               "[onnx] an input's axis 0 is the batch, and an example has no axes");
  BRIM_CHECK(!options.batch || *options.batch > 0, ValueError,
             "[onnx] a batch of {}; it is 1 or more", options.batch.value_or(0));
  check_names(options, examples.size());
  const DeviceScope host(Device::cpu());  // of constants
  return OnnxExport(network, forward, examples, options).made();
}

OnnxSummary save_onnx(const std::string& path, nn::Module& network, const OnnxForward& forward,
                      const std::vector<Tensor>& examples, const OnnxOptions& options) {
  OnnxGraph graph = onnx_graph(network, forward, examples, options);
  OnnxSummary summary = graph.prune();
  summary.bytes = graph.write(path, network.kind(), options.metadata);
  return summary;
}

OnnxSummary save_onnx(const std::string& path, nn::Module& network, const Tensor& example,
                      const OnnxOptions& options) {
  return save_onnx(
      path, network,
      [&](std::span<const Tensor> inputs) { return std::vector<Tensor>{network(inputs[0])}; },
      {example}, options);
}

}  // namespace brim::deploy
