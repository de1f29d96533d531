#include <brim/nn/activation.h>

#include <fmt/format.h>

#include <brim/ops/softmax.h>

namespace brim::nn {

Tensor Identity::forward(const Tensor& x) { return x; }
Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor ReLU6::forward(const Tensor& x) { return clamp(x, 0, 6); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x, options.form); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, options.slope); }
Tensor ELU::forward(const Tensor& x) { return elu(x, options.alpha); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, options.axis); }

std::string GELU::options_str() const { return options.form == GeluForm::tanh ? "tanh" : ""; }
std::string LeakyReLU::options_str() const { return fmt::format("slope={}", options.slope); }
std::string ELU::options_str() const { return fmt::format("alpha={}", options.alpha); }
std::string Softmax::options_str() const { return fmt::format("axis={}", options.axis); }

}  // namespace brim::nn
