// A function as a network.
#pragma once

#include <brim/nn/module.h>

#include <functional>
#include <utility>

namespace brim::tests {

class Computes : public nn::Module {
 public:
  explicit Computes(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f_(x); }

 private:
  std::function<Tensor(const Tensor&)> f_;
};

}  // namespace brim::tests
