// Every network of the zoo as ONNX, in floats and in 8-bit integers. ONNX Runtime computes them in
// tests/deploy/check_onnx.py.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/deploy/onnx.h>
#include <brim/io/safetensors.h>
#include <brim/nn/models.h>
#include <brim/nn/nn.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "deploy/kept_onnx.h"
#include "deploy/zoo_inputs.h"

namespace brim::tests {
namespace {

/// What goes into layers in integers, as integers, by the name of the layer.
class Int8Inputs {
 public:
  Int8Inputs(nn::Module& network, const std::vector<compress::QuantizedLayer>& layers) {
    for (const compress::QuantizedLayer& layer : layers) {
      if (!layer.why.empty()) continue;
      hooks_.push_back(module_of(network, layer.name)
                           .register_forward_hook([this, name = layer.name, input = layer.input](
                                                      nn::Module&, const Tensor& x, const Tensor&) {
                             if (to_) {
                               (*to_)[prefix_ + "f32:" + name] = x.contiguous();
                               (*to_)[prefix_ + "u8:" + name] = quantize(x, input).contiguous();
                             }
                             return Tensor();
                           }));
    }
  }
  /// From now on; null: no more.
  void keep_in(io::TensorMap* to, const std::string& prefix) {
    to_ = to;
    prefix_ = prefix;
  }

 private:
  static nn::Module& module_of(nn::Module& network, const std::string& name) {
    const size_t dot = name.find('.');
    for (const auto& [child, module] : network.named_children())
      if (child == name.substr(0, dot))
        return dot == std::string::npos ? *module : module_of(*module, name.substr(dot + 1));
    throw std::runtime_error("no layer " + name);
  }

  std::vector<nn::Module::HookHandle> hooks_;
  io::TensorMap* to_ = nullptr;
  std::string prefix_;
};

class OnnxZoo : public testing::TestWithParam<std::string> {
 protected:
  void save(nn::Module& network, const ZooInput& input, const std::string& name,
            const std::vector<compress::QuantizedLayer>& layers = {}, bool symmetric = false) {
    const NoGrad scope;
    const std::string path = files_ / name + ".onnx";
    const deploy::OnnxSummary made =
        deploy::save_onnx(path, network, random_input(input, 1), {.symmetric_int8 = symmetric});
    EXPECT_GT(made.nodes, 0);
    EXPECT_EQ(std::filesystem::file_size(path), static_cast<size_t>(made.bytes));
    EXPECT_EQ(made.operators.contains("QuantizeLinear"), !layers.empty());
    Int8Inputs integers(network, symmetric ? std::vector<compress::QuantizedLayer>() : layers);
    files_.keep(
        name, [&](const Tensor& x) { return std::vector<Tensor>{network(x)}; },
        [&](int64_t batch) { return random_input(input, batch); }, {"output"},
        [&](io::TensorMap& tensors, const std::string& prefix) {
          integers.keep_in(&tensors, prefix);
        });
  }

  const KeptOnnx files_;
};

TEST_P(OnnxZoo, IsExported) {
  const std::string& name = GetParam();
  if (is_large_network(name) && !files_.is_kept())
    GTEST_SKIP() << "hundreds of megabytes; see BRIM_ONNX_ZOO";
  manual_seed(7);
  const ZooInput input = zoo_input(name, files_.is_kept());
  const auto network = nn::make_model(name, {.classes = input.classes, .input = input.shape});
  warm_up(*network, input);
  save(*network, input, name);
  const NoGrad scope;
  const std::vector<compress::QuantizedLayer> layers = compress::quantize(
      *network, [&] { (void)(*network)(random_input(input, 4)); }, {.only_faster = false});
  save(*network, input, name + "-int8", layers);
  if (name == "tutorial-cnn") save(*network, input, name + "-symmetric", layers, true);
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxZoo, testing::ValuesIn(nn::model_names()), [](const auto& i) {
  std::string name = i.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace brim::tests
