// Reads as much of an ONNX file (protobuf's wire format, onnx.proto) as tests look at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace brim::tests {

/// The fields of a message: numbers, and bytes of everything with a length.
class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      const int field = static_cast<int>(tag >> 3);
      switch (tag & 7) {
        case 0:
          numbers_[field].push_back(static_cast<int64_t>(varint(bytes)));
          break;
        case 2: {
          const uint64_t size = varint(bytes);
          if (size > bytes.size()) throw std::runtime_error("a field is longer than its message");
          texts_[field].push_back(bytes.substr(0, size));
          bytes.remove_prefix(size);
          break;
        }
        case 5: {
          float value = 0;
          if (bytes.size() < 4) throw std::runtime_error("cut off");
          std::memcpy(&value, bytes.data(), 4);
          floats_[field] = value;
          bytes.remove_prefix(4);
          break;
        }
        default:
          throw std::runtime_error("a wire type that ONNX does not use");
      }
    }
  }

  std::vector<int64_t> numbers(int field) const { return of(numbers_, field); }
  std::vector<std::string_view> texts(int field) const { return of(texts_, field); }
  int64_t number(int field) const { return numbers(field).at(0); }
  std::string text(int field) const {
    const auto all = texts(field);
    return all.empty() ? "" : std::string(all[0]);
  }
  bool has_float(int field) const { return floats_.contains(field); }
  float f32(int field) const { return floats_.at(field); }

 private:
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes.empty()) throw std::runtime_error("cut off");
      const auto byte = static_cast<uint8_t>(bytes[0]);
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint without an end");
  }
  template <class T>
  static std::vector<T> of(const std::map<int, std::vector<T>>& all, int field) {
    const auto found = all.find(field);
    return found == all.end() ? std::vector<T>() : found->second;
  }

  std::map<int, std::vector<int64_t>> numbers_;
  std::map<int, std::vector<std::string_view>> texts_;
  std::map<int, float> floats_;
};

struct OnnxFile {
  struct Node {
    std::string op, name;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, std::vector<int64_t>> ints;
    std::map<std::string, float> floats;
    std::map<std::string, std::string> texts;
  };
  struct Initializer {
    std::vector<int64_t> shape;
    int64_t type = 0;
    std::string raw;
    template <class T>
    std::vector<T> values() const {
      std::vector<T> all(raw.size() / sizeof(T));
      std::memcpy(all.data(), raw.data(), all.size() * sizeof(T));
      return all;
    }
  };
  /// An input or output: sizes as numbers, or names of dimensions.
  struct Port {
    std::string name;
    int64_t type = 0;
    std::vector<std::string> shape;
  };

  std::string producer;
  int64_t ir = 0, opset = 0;
  std::map<std::string, std::string> metadata;
  std::vector<Node> nodes;
  std::map<std::string, Initializer> initializers;
  std::vector<Port> inputs, outputs;

  explicit OnnxFile(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    const ProtobufFields model(bytes_);
    ir = model.number(1);
    producer = model.text(2);
    opset = ProtobufFields(model.texts(8).at(0)).number(2);
    for (const std::string_view entry : model.texts(14))
      metadata[ProtobufFields(entry).text(1)] = ProtobufFields(entry).text(2);
    const ProtobufFields graph(model.texts(7).at(0));
    for (const std::string_view node : graph.texts(1)) nodes.push_back(node_of(node));
    for (const std::string_view tensor : graph.texts(5)) {
      const ProtobufFields t(tensor);
      initializers[t.text(8)] = {t.numbers(1), t.number(2), t.text(9)};
    }
    for (const std::string_view port : graph.texts(11)) inputs.push_back(port_of(port));
    for (const std::string_view port : graph.texts(12)) outputs.push_back(port_of(port));
  }

  std::vector<std::string> operators() const {
    std::vector<std::string> all;
    for (const Node& node : nodes) all.push_back(node.op);
    return all;
  }
  int64_t count(const std::string& op) const { return std::ranges::count(nodes, op, &Node::op); }
  const Node& node(const std::string& op) const {
    const auto found = std::ranges::find(nodes, op, &Node::op);
    if (found == nodes.end()) throw std::runtime_error("no node " + op);
    return *found;
  }
  /// What makes a value.
  const Node& maker(const std::string& value) const {
    for (const Node& node : nodes)
      if (std::ranges::find(node.outputs, value) != node.outputs.end()) return node;
    throw std::runtime_error("nothing makes " + value);
  }

 private:
  static std::vector<std::string> strings(const std::vector<std::string_view>& views) {
    return {views.begin(), views.end()};
  }
  static Node node_of(std::string_view bytes) {
    const ProtobufFields n(bytes);
    Node node{n.text(4), n.text(3), strings(n.texts(1)), strings(n.texts(2)), {}, {}, {}};
    for (const std::string_view attribute : n.texts(5)) {
      const ProtobufFields a(attribute);
      if (a.number(20) == 2) node.ints[a.text(1)] = a.numbers(3);
      if (a.number(20) == 7) node.ints[a.text(1)] = a.numbers(8);
      if (a.number(20) == 1) node.floats[a.text(1)] = a.f32(2);
      if (a.number(20) == 3) node.texts[a.text(1)] = a.text(4);
    }
    return node;
  }
  static Port port_of(std::string_view bytes) {
    const ProtobufFields p(bytes);
    const ProtobufFields type(p.texts(2).at(0));
    const ProtobufFields tensor(type.texts(1).at(0));
    Port port{p.text(1), tensor.number(1), {}};
    for (const std::string_view dim : ProtobufFields(tensor.texts(2).at(0)).texts(1)) {
      const ProtobufFields d(dim);
      port.shape.push_back(d.numbers(1).empty() ? d.text(2) : std::to_string(d.number(1)));
    }
    return port;
  }

  std::string bytes_;
};

}  // namespace brim::tests
