#include "train/graph_events.h"

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/printable.h"

namespace brim::train {
namespace {

using deploy::ModuleSummary;
using deploy::NetworkSummary;
using deploy::SummaryNode;
using Message = io::ProtobufWriter;

/// What TensorFlow allows in a name, with "/" between scopes.
std::string as_node_name(const std::string& dotted) {
  std::string name = dotted;
  for (char& c : name)
    if (c == '.')
      c = '/';
    else if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-')
      c = '_';
  return name;
}

std::string joined(const std::vector<std::string>& ops) {
  std::string text;
  for (const std::string& op : ops) text += (text.empty() ? "" : "_") + op;
  return text.empty() ? "op" : text;
}

class GraphNodes {
 public:
  explicit GraphNodes(const NetworkSummary& network) : network_(network) {
    for (const ModuleSummary& m : network.modules) {
      modules_[m.name] = &m;
      for (size_t dot = m.name.find('.'); dot != m.name.npos; dot = m.name.find('.', dot + 1))
        scopes_.insert(m.name.substr(0, dot));
    }
  }

  Message graph() {
    Message graph;
    graph.message(1, input_node({network_.input, network_.input_dtype}));
    for (const deploy::SummaryInput& other : network_.others) graph.message(1, input_node(other));
    for (const SummaryNode& node : network_.nodes) graph.message(1, node_of(node));
    return graph.message(4, Message().number(1, kProducer));
  }

 private:
  static constexpr int64_t kProducer = 22;  // of the format without which nothing newer is asked

  static Message attribute(const char* key, const Message& value) {
    return Message().text(1, key).message(2, value);
  }
  static Message text_attribute(const char* key, const std::string& text) {
    return attribute(key, Message().text(2, printable(text)));
  }
  static Message number_attribute(const char* key, int64_t number) {
    return attribute(key, Message().number(3, number));
  }
  static Message shape_attribute(const Shape& shape) {
    Message sizes;
    for (int axis = 0; axis < shape.rank(); ++axis)
      sizes.message(2, Message().number(1, shape[axis]));
    return attribute("_output_shapes", Message().message(1, Message().message(7, sizes)));
  }

  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int n = 1; !taken_.insert(name).second; ++n) name = wanted + "_" + std::to_string(n);
    return name;
  }

  Message input_node(const deploy::SummaryInput& input) {
    inputs_.push_back(unique("input"));
    return Message()
        .text(1, inputs_.back())
        .text(2, "Placeholder")
        .message(5, shape_attribute(input.shape))
        .message(5, text_attribute("dtype", std::string(name(input.dtype))));
  }

  Message node_of(const SummaryNode& node) {
    const ModuleSummary& module = *modules_.at(node.module);
    const bool is_leaf = !node.module.empty() && !scopes_.contains(node.module);
    const std::string ops = joined(node.ops);
    names_.push_back(unique(is_leaf               ? as_node_name(node.module)
                            : node.module.empty() ? ops
                                                  : as_node_name(node.module) + "/" + ops));
    Message message;
    message.text(1, names_.back()).text(2, is_leaf ? printable(module.kind) : ops);
    for (const int from : node.inputs)
      message.text(3, from < 0 ? inputs_.at(static_cast<size_t>(-1 - from))
                               : names_.at(static_cast<size_t>(from)));
    message.message(5, shape_attribute(node.output))
        .message(5, text_attribute("kernels", ops))
        .message(5, number_attribute("flops", static_cast<int64_t>(node.flops)));
    if (!is_leaf) return message;
    if (!module.options.empty()) message.message(5, text_attribute("options", module.options));
    return message.message(5, number_attribute("parameters", module.parameters));
  }

  const NetworkSummary& network_;
  std::map<std::string, const ModuleSummary*> modules_;  // by dotted name
  std::set<std::string> scopes_;                         // modules with modules in them
  std::set<std::string> taken_;
  std::vector<std::string> inputs_, names_;  // of inputs, and by node
};

}  // namespace

io::ProtobufWriter graph_def_of(const NetworkSummary& network) {
  return GraphNodes(network).graph();
}

}  // namespace brim::train
