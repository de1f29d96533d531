// LSTM and GRU against PyTorch's: outputs, last states, gradients. The file is described in
// recurrent.py.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <brim/nn/recurrent.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>

#include "golden/golden_file.h"

namespace golden {
namespace {

using brim::Tensor;
using Json = nlohmann::json;

void expect_near(const Tensor& got, const Tensor& golden, const std::string& what,
                 double tolerance) {
  ASSERT_EQ(got.shape(), golden.shape()) << what;
  const auto a = got.to(brim::f64).to_vector<double>(), b = golden.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << " " << i;
}

/// The results by name, y first.
using Results = std::vector<std::pair<std::string, Tensor>>;
Results run(brim::nn::LSTM& net, const std::vector<Tensor>& in) {
  const auto r = net(in[0], {in[1], in[2]});
  return {{"y", r.y}, {"h", r.state.h}, {"c", r.state.c}};
}
Results run(brim::nn::GRU& net, const std::vector<Tensor>& in) {
  const auto r = net(in[0], in[1]);
  return {{"y", r.y}, {"h", r.h}};
}

template <class M>
void check_recurrent(const std::string& name, const std::vector<std::string>& inputs,
                     brim::DType dtype) {
  const File golden("recurrent");
  const double tolerance = dtype == brim::f64 ? 1e-10 : 1e-4;
  const Json o = Json::parse(golden.metadata.at(name));
  M net({.in = 4,
         .hidden = 6,
         .layers = o.value("num_layers", 1),
         .bias = o.value("bias", true),
         .batch_first = o.value("batch_first", false),
         .bidirectional = o.value("bidirectional", false),
         .dtype = dtype});
  brim::StateDict state = net.state_dict();
  for (auto& [parameter, value] : state) value = golden.at(name + "/weight/" + parameter);
  net.load_state_dict(state);
  std::vector<Tensor> in;
  for (const std::string& key : inputs)
    in.push_back(golden.at(name + "/in/" + key).to(dtype).clone().set_requires_grad());
  Tensor loss = brim::Tensor::empty({}, dtype, {}).zero_();
  for (const auto& [key, value] : run(net, in)) {
    expect_near(value.detach(), golden.at(name + "/out/" + key), key, tolerance);
    loss = loss + brim::sum(value * golden.at(name + "/cotangent/" + key).to(dtype));
  }
  loss.backward();
  for (size_t i = 0; i < in.size(); ++i)
    expect_near(in[i].grad(), golden.at(name + "/grad/" + inputs[i]), "gradient of " + inputs[i],
                tolerance);
  for (const auto& [key, p] : net.named_parameters())
    expect_near(p.grad(), golden.at(name + "/grad/" + key), "gradient of " + key, tolerance);
}

class GoldenRecurrent : public testing::TestWithParam<brim::DType> {};

TEST_P(GoldenRecurrent, LSTM) {
  for (const char* name : {"lstm", "lstm_deep", "lstm_plain"})
    check_recurrent<brim::nn::LSTM>(name, {"x", "h", "c"}, GetParam());
}
TEST_P(GoldenRecurrent, GRU) {
  for (const char* name : {"gru", "gru_deep", "gru_plain"})
    check_recurrent<brim::nn::GRU>(name, {"x", "h"}, GetParam());
}
INSTANTIATE_TEST_SUITE_P(DTypes, GoldenRecurrent, testing::Values(brim::f32, brim::f64),
                         [](const auto& dtype) { return std::string(brim::name(dtype.param)); });

}  // namespace
}  // namespace golden
