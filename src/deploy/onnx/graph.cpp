#include "deploy/onnx/graph.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include <brim/ops/create.h>
#include <brim/version.h>

#include "core/check.h"
#include "io/atomic_file.h"
#include "io/protobuf.h"

namespace brim::deploy {
namespace {

using io::ProtobufWriter;

// TensorProto
ProtobufWriter tensor_header(const std::string& name, const Tensor& tensor) {
  ProtobufWriter p;
  for (const int64_t size : tensor.shape()) p.number(1, size);
  p.number(2, onnx_type(tensor.dtype()));
  if (!name.empty()) p.text(8, name);
  return p;
}

std::string_view bytes_of(const Tensor& tensor) {
  const size_t bytes = static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype());
  return {bytes > 0 ? static_cast<const char*>(tensor.raw()) : "", bytes};
}

constexpr int kRawData = 9;

// AttributeProto
ProtobufWriter written(const Attribute& attribute) {
  ProtobufWriter p;
  p.text(1, attribute.name);
  enum Type : uint8_t { is_float = 1, is_int = 2, is_string = 3, is_tensor = 4, is_ints = 7 };
  int64_t type = 0;
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
    p.number(3, *i), type = is_int;
  } else if (const auto* f = std::get_if<float>(&attribute.value)) {
    p.f32(2, *f), type = is_float;
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    p.text(4, *s), type = is_string;
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    for (const int64_t item : *list) p.number(8, item);
    type = is_ints;
  } else {
    const Tensor& t = std::get<Tensor>(attribute.value);
    p.message(5, tensor_header("", t).text(kRawData, bytes_of(t))), type = is_tensor;
  }
  return p.number(20, type);
}

ProtobufWriter written(const Node& node) {
  ProtobufWriter p;
  for (const std::string& input : node.inputs) p.text(1, input);
  for (const std::string& output : node.outputs) p.text(2, output);
  p.text(3, node.name).text(4, node.op);
  for (const Attribute& attribute : node.attributes) p.message(5, written(attribute));
  return p;
}

/// "10"; as a function of the batch "batch", "49*batch", "49*batch+1"
std::string size_text(const Extent& size) {
  if (size.is_fixed()) return std::to_string(size.fixed);
  if (size == Extent(0, 1)) return "batch";
  if (size.fixed == 0) return fmt::format("{}*batch", size.per_sample);
  return fmt::format("{}*batch+{}", size.per_sample, size.fixed);
}

// ValueInfoProto
ProtobufWriter written_port(const std::string& name, const Extents& shape, DType dtype) {
  ProtobufWriter dims;
  for (const Extent& size : shape) {
    ProtobufWriter dim;
    if (size.is_fixed())
      dim.number(1, size.fixed);
    else
      dim.text(2, size_text(size));
    dims.message(1, dim);
  }
  ProtobufWriter tensor, type, info;
  tensor.number(1, onnx_type(dtype)).message(2, dims);
  type.message(1, tensor);
  return info.text(1, name).message(2, type);
}

}  // namespace

int64_t onnx_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1;
    case DType::u8:
      return 2;
    case DType::i8:
      return 3;
    case DType::i32:
      return 6;
    case DType::i64:
      return 7;
    case DType::bool_:
      return 9;
    case DType::f16:
      return 10;
    case DType::f64:
      return 11;
    case DType::bf16:
      return 16;
    default:
      raise<NotImplemented>("[onnx] tensors of {} are not exported; cast them with .to(f32)",
                            name(dtype));
  }
}

std::string OnnxGraph::unique(std::string name) {
  const int count = taken_[name]++;
  return count == 0 ? name : unique(fmt::format("{}_{}", name, count));
}

Value OnnxGraph::input(const std::string& name, Extents shape, DType dtype) {
  inputs_.push_back({name, shape, dtype});
  return {name, std::move(shape), dtype};
}

void OnnxGraph::output(const std::string& name, const Value& value) {
  outputs_.push_back({name, value.shape, value.dtype});
  const auto [known, is_new] = output_names_.try_emplace(value.name, name);
  if (is_new)
    for (Node& node : nodes_) {
      const auto made = std::ranges::find(node.outputs, value.name);
      if (made == node.outputs.end()) continue;
      *made = name;
      for (Node& other : nodes_) std::ranges::replace(other.inputs, value.name, name);
      return;
    }
  // An input, an initializer, or an output before.
  nodes_.push_back({.op = "Identity",
                    .name = unique("Identity"),
                    .inputs = {is_new ? value.name : known->second},
                    .outputs = {name},
                    .attributes = {},
                    .made = {{value.shape, value.dtype}}});
}

Value OnnxGraph::add(std::string_view op, const std::vector<Value>& inputs, Output output,
                     std::vector<Attribute> attributes) {
  return add_many(op, inputs, {std::move(output)}, std::move(attributes))[0];
}

std::vector<Value> OnnxGraph::add_many(std::string_view op, const std::vector<Value>& inputs,
                                       const std::vector<Output>& outputs,
                                       std::vector<Attribute> attributes) {
  Node node{.op = std::string(op),
            .name = {},
            .inputs = {},
            .outputs = {},
            .attributes = std::move(attributes),
            .made = outputs};
  node.name = unique(scope_.empty() ? node.op : scope_ + "/" + node.op);
  for (const Value& input : inputs) node.inputs.push_back(input.name);
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  std::vector<Value> made;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = unique(fmt::format("{}:{}", node.name, i));
    made.push_back({name, outputs[i].shape, outputs[i].dtype});
    node.outputs.push_back(name);
  }
  nodes_.push_back(std::move(node));
  return made;
}

Value OnnxGraph::initializer(const std::string& name, const Tensor& tensor) {
  (void)onnx_type(tensor.dtype());
  const Tensor host = tensor.detach().cpu().contiguous();
  initializers_.push_back({unique(name), host});
  return {initializers_.back().name, Extents(host.shape().begin(), host.shape().end()),
          host.dtype()};
}

Value OnnxGraph::integers(const std::vector<int64_t>& values) {
  const auto [known, is_new] = integers_.try_emplace(values);
  if (is_new)
    known->second = initializer(
        "integers", Tensor::from<int64_t>(values, {static_cast<int64_t>(values.size())}));
  return known->second;
}

Value OnnxGraph::scalar(double value, DType dtype) {
  const auto [known, is_new] =
      scalars_.try_emplace(std::pair(std::bit_cast<uint64_t>(value), dtype));
  if (is_new) known->second = initializer("number", full({}, value, {.dtype = dtype}));
  return known->second;
}

Value OnnxGraph::batch() {
  if (batch_.name.empty()) {
    const std::string scope = std::exchange(scope_, "");
    const auto has_it = [](const Port& p) {
      return std::ranges::find(p.shape, Extent(0, 1)) != p.shape.end();
    };
    const auto of = std::ranges::find_if(inputs_, has_it);
    BRIM_CHECK(of != inputs_.end(), NotImplemented, "[onnx] no input has the batch as an axis");
    const int64_t axis = std::ranges::find(of->shape, Extent(0, 1)) - of->shape.begin();
    batch_ = add("Shape", {{of->name, of->shape, of->dtype}}, {{1}, DType::i64},
                 {{"start", axis}, {"end", axis + 1}});
    scope_ = scope;
  }
  return batch_;
}

Value OnnxGraph::shape_of(const Extents& shape) {
  std::vector<Value> parts;
  std::vector<int64_t> fixed;
  const auto end_fixed = [&] {
    if (!fixed.empty()) parts.push_back(integers(std::exchange(fixed, {})));
  };
  for (const Extent& size : shape) {
    if (size.is_fixed()) {
      fixed.push_back(size.fixed);
      continue;
    }
    end_fixed();
    Value part = batch();
    const Output one{{1}, DType::i64};
    if (size.per_sample != 1) part = add("Mul", {part, integers({size.per_sample})}, one);
    if (size.fixed != 0) part = add("Add", {part, integers({size.fixed})}, one);
    parts.push_back(part);
  }
  end_fixed();
  if (parts.empty()) return integers({});
  if (parts.size() == 1) return parts[0];
  return add("Concat", parts, {{static_cast<int64_t>(shape.size())}, DType::i64},
             {{"axis", int64_t{0}}});
}

Value OnnxGraph::reshape(const Value& x, const Extents& shape) {
  if (x.shape == shape) return x;
  // 0 keeps a size, and -1 is what remains.
  std::vector<int64_t> sizes;
  int unknown = 0;
  bool is_plain = true;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_fixed()) {
      sizes.push_back(shape[i].fixed);
      is_plain = is_plain && shape[i].fixed != 0;
    } else if (i < x.shape.size() && x.shape[i] == shape[i]) {
      sizes.push_back(0);
    } else {
      sizes.push_back(-1);
      ++unknown;
    }
  }
  const Value to = is_plain && unknown <= 1 ? integers(sizes) : shape_of(shape);
  std::vector<Attribute> attributes;
  if (!is_plain) attributes.push_back({"allowzero", int64_t{1}});
  return add("Reshape", {x, to}, {shape, x.dtype}, std::move(attributes));
}

Value OnnxGraph::transpose(const Value& x, const std::vector<int>& order) {
  if (std::ranges::is_sorted(order)) return x;
  Extents shape;
  for (const int axis : order) shape.push_back(x.shape[static_cast<size_t>(axis)]);
  return add("Transpose", {x}, {shape, x.dtype},
             {{"perm", std::vector<int64_t>(order.begin(), order.end())}});
}

Value OnnxGraph::cast(const Value& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return add("Cast", {x}, {x.shape, dtype}, {{"to", onnx_type(dtype)}});
}

Value OnnxGraph::slice(const Value& x, size_t axis, Extent start, Extent stop, int64_t step) {
  Extents shape = x.shape;
  shape[axis] = stop - start;
  std::vector<Value> inputs = {x, shape_of({start}), shape_of({stop}),
                               integers({static_cast<int64_t>(axis)})};
  if (step != 1) {
    shape[axis] = (shape[axis].fixed + step - 1) / step;
    inputs.push_back(integers({step}));
  }
  return add("Slice", inputs, {shape, x.dtype});
}

Value OnnxGraph::reversed(const Value& x, size_t axis) {
  constexpr int64_t kBeforeAll = std::numeric_limits<int64_t>::min() + 1;
  return add("Slice",
             {x, integers({-1}), integers({kBeforeAll}), integers({static_cast<int64_t>(axis)}),
              integers({-1})},
             {x.shape, x.dtype});
}

Value OnnxGraph::expand(const Value& x, const Extents& shape) {
  if (x.shape == shape) return x;
  Extents to = shape;  // 1 keeps a size
  const size_t shift = shape.size() - x.shape.size();
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] == shape[shift + i]) to[shift + i] = 1;
  return add("Expand", {x, shape_of(to)}, {shape, x.dtype});
}

OnnxSummary OnnxGraph::prune() {
  std::set<std::string> needed;
  for (const Port& port : outputs_) needed.insert(port.name);
  std::vector<Node> kept;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const auto& o) { return needed.contains(o); }))
      continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  nodes_ = std::move(kept);
  std::erase_if(initializers_, [&](const Initializer& i) { return !needed.contains(i.name); });
  OnnxSummary summary;
  summary.nodes = static_cast<int64_t>(nodes_.size());
  summary.initializers = static_cast<int64_t>(initializers_.size());
  summary.opset = kOnnxOpset;
  for (const Node& node : nodes_) ++summary.operators[node.op];
  for (const Port& port : outputs_) {
    summary.outputs.push_back({.name = port.name, .dtype = port.dtype, .sizes = {}});
    for (const Extent& size : port.shape) summary.outputs.back().sizes.push_back(size_text(size));
  }
  return summary;
}

int64_t OnnxGraph::write(const std::string& path, const std::string& name,
                         const std::map<std::string, std::string>& metadata) const {
  ProtobufWriter model;
  model.number(1, kOnnxIr).text(2, "brim").text(3, BRIM_VERSION);
  ProtobufWriter opset;
  opset.text(1, "").number(2, kOnnxOpset);
  model.message(8, opset);
  for (const auto& [key, value] : metadata) {
    ProtobufWriter entry;
    model.message(14, entry.text(1, key).text(2, value));
  }
  ProtobufWriter graph;
  for (const Node& node : nodes_) graph.message(1, written(node));
  graph.text(2, name);
  for (const Port& port : inputs_)
    graph.message(11, written_port(port.name, port.shape, port.dtype));
  for (const Port& port : outputs_)
    graph.message(12, written_port(port.name, port.shape, port.dtype));

  // Weights go into the file as they are: all else is small.
  std::vector<std::string> headers;
  size_t graph_bytes = graph.bytes().size();
  for (const Initializer& i : initializers_) {
    const std::string_view raw = bytes_of(i.tensor);
    ProtobufWriter tensor = tensor_header(i.name, i.tensor);
    tensor.begin(kRawData, raw.size());
    ProtobufWriter field;
    field.begin(5, tensor.bytes().size() + raw.size());
    headers.push_back(field.bytes() + tensor.bytes());
    graph_bytes += headers.back().size() + raw.size();
  }
  model.begin(7, graph_bytes);
  const size_t bytes = model.bytes().size() + graph_bytes;
  BRIM_CHECK(
      bytes <= static_cast<size_t>(std::numeric_limits<int32_t>::max()), ValueError,
      "[onnx] {}: the model takes {} bytes, and a protobuf holds 2 GB; cast the network with "
      ".to(f16), or export parts of it",
      path, bytes);
  io::AtomicFile file(path);
  file.write(model.bytes());
  file.write(graph.bytes());
  for (size_t i = 0; i < initializers_.size(); ++i) {
    file.write(headers[i]);
    file.write(bytes_of(initializers_[i].tensor));
  }
  file.commit();
  return static_cast<int64_t>(bytes);
}

}  // namespace brim::deploy
