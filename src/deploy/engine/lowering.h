// A network's operators as steps of an engine. Images are nhwc inside, whatever the network has:
// what wants them row-major gets a copy.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "deploy/engine/program.h"
#include "rt/attributes.h"

namespace brim::deploy {

class Lowering {
 public:
  Lowering(const EngineNetwork& network, int64_t pass, int threads, EngineWeights& weights);

  EngineProgram program(const Progress& progress) &&;

  // For the files of operators/. Values are numbers of the program.

  const EngineNetwork& network;
  const int threads;

  /// Of all constants of the network.
  size_t constant_bytes() const { return constant_bytes_; }

  const ProgramValue& value(uint32_t id) const { return program_.values[id]; }
  /// A value of the network, row-major.
  uint32_t plain(int id);
  /// An image (n, c, h, w) of the network as (n, h, w, c).
  uint32_t nhwc(int id);
  /// Whether an image lies as nhwc already, so that what takes both takes it so.
  bool is_nhwc(int id) const { return lowered_[static_cast<size_t>(id)].nhwc >= 0; }

  uint32_t constant(const Tensor& x, std::vector<int64_t> dims);
  /// A new one in the arena.
  uint32_t made(std::vector<int64_t> dims, rt::DType dtype = rt::DType::f32);
  /// The same elements in other sizes.
  uint32_t view(uint32_t id, std::vector<int64_t> dims);
  /// Elements of a value in the arena from `first` on, which begins a vector.
  uint32_t part(uint32_t id, int64_t first, std::vector<int64_t> dims);
  template <class Attributes>
  void step(rt::OpCode op, std::vector<uint32_t> inputs, uint32_t output, const Attributes& a) {
    std::vector<int64_t> words(sizeof(Attributes) / sizeof(int64_t));
    std::memcpy(words.data(), &a, sizeof(Attributes));
    step(op, std::move(inputs), output);
    program_.steps.back().words = std::move(words);
  }
  template <class Attributes>
  void step(rt::OpCode op, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
            const Attributes& a) {
    step(op, std::move(inputs), outputs[0], a);
    program_.steps.back().outputs = std::move(outputs);
  }
  void step(rt::OpCode op, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
    program_.steps.push_back({op, module_, std::move(inputs), std::move(outputs), {}});
  }
  void step(rt::OpCode op, std::vector<uint32_t> inputs, uint32_t output) {
    program_.steps.push_back({op, module_, std::move(inputs), {output}, {}});
  }
  /// Behind the attributes of the step before.
  void add_words(const std::vector<int64_t>& words) {
    std::vector<int64_t>& all = program_.steps.back().words;
    all.insert(all.end(), words.begin(), words.end());
  }
  /// y = x permuted: y's axis i is x's axis order[i].
  uint32_t transposed(uint32_t x, const std::vector<int>& order);

  void set_plain(int id, uint32_t lowered) {
    lowered_[static_cast<size_t>(id)].plain = static_cast<int>(lowered);
  }
  void set_nhwc(int id, uint32_t lowered) {
    lowered_[static_cast<size_t>(id)].nhwc = static_cast<int>(lowered);
  }
  /// The network's value that a rank-2 or other value is a reshaped image of, or -1.
  int image_of(int id) const { return lowered_[static_cast<size_t>(id)].image; }
  void set_image(int id, int image) { lowered_[static_cast<size_t>(id)].image = image; }

 private:
  struct Lowered {
    int plain = -1, nhwc = -1;
    int image = -1;
  };
  uint32_t add_value(ProgramValue v);
  void add_outputs();
  void plan_memory();

  EngineWeights& weights_;
  EngineProgram program_;
  std::vector<Lowered> lowered_;
  std::string module_;
  int storages_ = 0;
  size_t constant_bytes_ = 0;
};

/// Throws NotImplemented where engines have nothing for what the node does, without a place.
using LowerOperator = void (*)(Lowering& to, const EngineNode& node);

/// For a variable of static lifetime.
bool register_operator(const char* op, LowerOperator lower);

std::vector<int64_t> dims_of(const Shape& shape);

}  // namespace brim::deploy
