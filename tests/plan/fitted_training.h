// A training whose compiled step has to fit into a limit of its device's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <brim/brim.h>

namespace brim::tests {

struct FittedTraining {
  std::vector<std::vector<float>> values;  ///< losses, and the weights after these steps
  CompileStats stats;
  std::optional<MemoryFit> fit;
  std::string explain;
};

/// A few steps of convolutions with ReLU, dropout and a linear layer. `room`: bytes of temporaries,
/// beside what is there before; 0: no limit. Gradients are summed over so many parts of a batch.
inline FittedTraining train_within(Device device, int64_t room, const char* passes,
                                   int64_t parts = 1,
                                   MemoryPolicy policy = MemoryPolicy::shortest) {
  constexpr int kSteps = 3;
  manual_seed(4);
  nn::Sequential net;
  for (int i = 0; i < 10; ++i)
    net.push<nn::Conv2d>({.in = i == 0 ? 3 : 8, .out = 8, .kernel = 3, .padding = 1})
        .push<nn::ReLU>();
  net.push<nn::Dropout>({.p = 0.2});
  net.push<nn::Flatten>();
  net.push<nn::Linear>({.in = 8 * 24 * 24, .out = 10});
  net.to(device);
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.01, .momentum = 0.9});
  const Tensor x = rand({16, 3, 24, 24}).to(device);
  const Tensor y = full({16}, 3, {.dtype = i64, .device = device});
  const auto step = [&](const Tensor& input, const Tensor& target) {
    optimizer.zero_grad();
    Tensor sum;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t size = input.size(0) / parts, first = part * size;
      const Tensor loss = cross_entropy(net(input.slice(0, first, first + size)),
                                        target.slice(0, first, first + size)) *
                          (1.0 / static_cast<double>(parts));
      loss.backward();
      sum = sum.defined() ? sum + loss.detach() : loss.detach();
    }
    optimizer.step();
    return sum;
  };
  {
    auto free = compile(step, {.passes = passes});
    (void)free.forecast(x, y);  // the optimizer's state is there
  }
  Allocator& memory = Allocator::of(device);
  memory.release_cached();
  if (room > 0) memory.set_limit(memory.stats().live + memory.stats().cached + room);
  struct Lifted {
    Allocator& memory;
    ~Lifted() { memory.set_limit(0); }
  } const lifted{memory};
  auto limited = compile(step, {.passes = passes, .memory_policy = policy});
  FittedTraining result;
  for (int i = 0; i < kSteps; ++i)
    result.values.push_back(limited(x, y).to(Device::cpu()).to_vector<float>());
  for (const Tensor& p : net.parameters())
    result.values.push_back(p.to(Device::cpu()).to_vector<float>());
  result.stats = limited.stats();
  result.fit = limited.memory_fit();
  result.explain = limited.explain();
  return result;
}

}  // namespace brim::tests
