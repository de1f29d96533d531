// Files of weights without their columns of zeros, and in integers: dense again when they are read,
// and refused where they are damaged.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/io/safetensors.h>
#include <brim/nn/linear.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/sparse_int8.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "message_of.h"
#include "temporary_folder.h"

namespace brim::train {
namespace {

using tests::message_of;

/// A file of weights, with what the metadata `key` says of it.
class EncodedFile : public ::testing::Test {
 protected:
  EncodedFile(const char* name, const char* key) : path(folder / name), key_(key) {}
  /// What is said of the file when something of it is changed.
  std::string error(const std::function<void(io::TensorMap&, nlohmann::json&)>& change) {
    io::SafeTensors file(path);
    io::TensorMap stored = file.load_all();
    auto index = nlohmann::json::parse(file.metadata().at(key_));
    change(stored, index);
    const std::string other = folder / "other.safetensors";
    io::save_safetensors(other, stored, {{key_, index.dump()}});
    return message_of<FileError>([&] {
      const WeightsFile damaged(other);
      (void)damaged.int8_layers();
      (void)damaged.load_all();
    });
  }
  const tests::TemporaryFolder folder;
  const std::string path;

 private:
  const char* const key_;
};

class SparseWeightsFile : public EncodedFile {
 protected:
  SparseWeightsFile() : EncodedFile("sparse.safetensors", "brim.sparse") {
    std::vector<float> w(32 * 10, 0.0F);
    for (size_t o = 0; o < 32; ++o) w[o * 10 + 3] = static_cast<float>(o + 1);
    tensors = {{"fc.weight", Tensor::from<float>(w, {32, 10})},
               {"fc.bias", ones({32})},
               {"full.weight", ones({32, 10})},
               {"none.weight", zeros({8, 2, 3, 3})}};
    save_sparse_weights(path, tensors, 8, {{"format", "pt"}});
  }
  io::TensorMap tensors;
};

TEST_F(SparseWeightsFile, IsReadAsDense) {
  const io::SafeTensors stored(path);
  EXPECT_EQ(stored.info("fc.weight.values").shape, Shape({4, 8}));
  EXPECT_FALSE(stored.contains("fc.weight"));
  EXPECT_TRUE(stored.contains("full.weight"));  // it would take more
  const WeightsFile file(path);
  EXPECT_EQ(file.names().size(), 4u);
  EXPECT_TRUE(file.is_encoded("fc.weight"));
  EXPECT_FALSE(file.is_encoded("full.weight"));
  EXPECT_EQ(file.info("none.weight").shape, Shape({8, 2, 3, 3}));
  const io::TensorMap read = file.load_all();
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(read.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
  }
}

TEST_F(SparseWeightsFile, IsRefusedWhereItIsDamaged) {
  using Tensors = io::TensorMap;
  using Json = nlohmann::json;
  const auto expect = [&](const std::function<void(Tensors&, Json&)>& change, const char* why) {
    const std::string what = error(change);
    EXPECT_NE(what.find(why), std::string::npos) << what;
    EXPECT_NE(what.find("other.safetensors"), std::string::npos) << what;
  };
  expect([](Tensors&, Json& j) { j = 3; }, "describes no weight");
  expect([](Tensors&, Json& j) { j["fc.weight"] = 3; }, "describes no weight");
  expect([](Tensors&, Json& j) { j["fc.weight"]["vector"] = -8; }, "describes no weight");
  expect([](Tensors&, Json& j) { j["fc.weight"]["vector"] = 7; }, "no sparse weight");
  expect([](Tensors&, Json& j) { j["fc.weight"]["shape"] = {32}; }, "describes no weight");
  expect(
      [](Tensors&, Json& j) {
        j["fc.weight"]["shape"] = {1 << 30, 1 << 30};
      },
      "describes no weight");
  expect([](Tensors&, Json& j) { j["fc.weight"]["shape"] = {64, 10}; }, "no sparse weight");
  expect([](Tensors&, Json& j) { j["fc.weight"]["shape"] = {32, 2}; }, "column 3");
  expect([](Tensors&, Json& j) { j["more.weight"] = j["fc.weight"]; }, "more.weight.values");
  expect([](Tensors& t, Json&) { t.erase("fc.weight.starts"); }, "fc.weight.starts");
  expect([](Tensors& t, Json&) { t["fc.weight"] = ones({32, 10}); }, "twice");
  expect(
      [](Tensors& t, Json&) {
        t["fc.weight.values"] = ones({4, 8}, {.dtype = f64});
      },
      "no sparse weight");
  expect(
      [](Tensors& t, Json&) {
        t["fc.weight.columns"] = Tensor::from<int32_t>({3, 3, 3, -1}, {4});
      },
      "column -1");
  expect(
      [](Tensors& t, Json&) {
        t["fc.weight.starts"] = Tensor::from<int32_t>({0, 2, 1, 3, 4}, {5});
      },
      "not in order");
  expect(
      [](Tensors& t, Json&) {
        t["fc.weight.starts"] = Tensor::from<int32_t>({0, 2, 2, 3, 4}, {5});
      },
      "stands twice");
  expect(
      [](Tensors& t, Json& j) {
        t["fc.weight.outputs"] = zeros({32}, {.dtype = i32});
        j["fc.weight"]["permuted"] = true;
      },
      "leave 1 out");
  expect([](Tensors& t, Json&) { t["fc.weight.outputs"] = zeros({32}, {.dtype = i32}); },
         "knows nothing of it");
  expect([](Tensors&, Json& j) { j["fc.weight"]["permuted"] = true; }, "outputs is missing");
}

class Int8WeightsFile : public EncodedFile {
 protected:
  Int8WeightsFile() : EncodedFile("int8.safetensors", "brim.int8") {
    const compress::Int8Layers layers = {
        {"weight",
         {Int8Weight::of(Int8Weight::quantize(net.weight).values,
                         Int8Weight::quantize(net.weight).scales, ones({4})),
          {.scale = 0.013F, .zero_point = 7}}}};
    save_int8_weights(path, net, layers, {.classes = {"a", "b"}});
  }
  nn::Linear net{{.in = 6, .out = 4}};
};

TEST_F(Int8WeightsFile, HasWhatWasSaved) {
  const io::SafeTensors stored(path);
  EXPECT_EQ(stored.info("weight.values").dtype, DType::i8);
  EXPECT_EQ(stored.info("weight.scales").shape, Shape({4}));
  EXPECT_FALSE(stored.contains("weight"));
  const WeightsFile file(path);
  EXPECT_TRUE(file.is_encoded("weight"));
  EXPECT_EQ(read_weights_info(file).classes.size(), 2u);
  EXPECT_EQ(file.load("weight").to_vector<float>(),
            Int8Weight::quantize(net.weight).dense().to_vector<float>());
  nn::Linear other{{.in = 6, .out = 4}};
  load_weights(file, other);
  const compress::Int8Layers layers = file.int8_layers();
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers.at("weight").input, (QuantParams{.scale = 0.013F, .zero_point = 7}));
  EXPECT_EQ(layers.at("weight").weight.correction.to_vector<float>(), std::vector<float>(4, 1.0F));
  EXPECT_EQ(compress::use_int8(other, layers), 1u);
}

TEST_F(Int8WeightsFile, IsRefusedWhereItIsDamaged) {
  using Tensors = io::TensorMap;
  using Json = nlohmann::json;
  const auto expect = [&](const std::function<void(Tensors&, Json&)>& change, const char* why) {
    const std::string what = error(change);
    EXPECT_NE(what.find(why), std::string::npos) << what;
    EXPECT_NE(what.find("other.safetensors"), std::string::npos) << what;
  };
  expect([](Tensors&, Json& j) { j = 3; }, "describes no weight");
  expect([](Tensors&, Json& j) { j["weight"] = 3; }, "no scale and zero point");
  expect([](Tensors&, Json& j) { j["weight"]["zero_point"] = 256; }, "no scale and zero point");
  expect([](Tensors&, Json& j) { j["weight"]["zero_point"] = -1; }, "no scale and zero point");
  expect([](Tensors&, Json& j) { j["weight"]["scale"] = "1"; }, "no scale and zero point");
  expect([](Tensors&, Json& j) { j["weight"]["scale"] = -1; }, "a scale of -1");
  expect([](Tensors&, Json& j) { j["weight"]["scale"] = 1e300; }, "a scale of inf");
  expect([](Tensors&, Json& j) { j["more"] = j["weight"]; }, "more.");
  expect([](Tensors& t, Json&) { t.erase("weight.scales"); }, "weight.scales");
  expect([](Tensors& t, Json&) { t["weight"] = ones({4, 6}); }, "twice");
  expect([](Tensors& t, Json&) { t["weight.values"] = ones({4, 6}); }, "are no weight");
  expect([](Tensors& t, Json&) { t["weight.values"] = ones({4}).to(i8); }, "expects a weight");
  expect([](Tensors& t, Json&) { t["weight.values"] = full({4, 6}, -128).to(i8); }, "-128");
  expect([](Tensors& t, Json&) { t["weight.scales"] = full({4}, NAN); }, "scale is nan");
  expect([](Tensors& t, Json&) { t["weight.correction"] = full({4}, NAN); }, "correction is nan");
  expect([](Tensors& t, Json&) { t.erase("weight.correction"); }, "weight.correction is missing");
  expect([](Tensors&, Json& j) { j["weight"]["corrected"] = false; }, "knows nothing of it");
  expect([](Tensors& t, Json&) { t["weight.correction"] = ones({5}); }, "a correction");
}

class SparseInt8WeightsFile : public EncodedFile {
 protected:
  SparseInt8WeightsFile() : EncodedFile("sparse-int8.safetensors", "brim.int8") {
    std::vector<float> w(32 * 10, 0.0F);
    for (size_t o = 0; o < 32; ++o) w[o * 10 + 3] = static_cast<float>(o + 1);
    {
      const NoGrad scope;
      net.weight.copy_(Tensor::from<float>(w, {32, 10}));
    }
    const Int8Weight q = Int8Weight::quantize(net.weight);
    weight = SparseInt8Weight::encode(Int8Weight::of(q.values, q.scales, ones({32})), 8);
    save_int8_weights(
        path, net,
        {{"weight", {.weight = {}, .input = {.scale = 0.5F, .zero_point = 7}, .sparse = weight}}},
        {});
  }
  nn::Linear net{{.in = 10, .out = 32}};
  SparseInt8Weight weight;
};

TEST_F(SparseInt8WeightsFile, HasWhatWasSaved) {
  const io::SafeTensors stored(path);
  EXPECT_EQ(stored.info("weight.values").dtype, DType::i8);
  EXPECT_EQ(stored.info("weight.values").shape, Shape({4, 8}));
  EXPECT_FALSE(stored.contains("weight"));
  const WeightsFile file(path);
  EXPECT_EQ(file.info("weight").shape, Shape({32, 10}));
  EXPECT_EQ(file.int8_count(), 1u);
  EXPECT_EQ(file.load("weight").to_vector<float>(), weight.dense().to_vector<float>());
  nn::Linear other{{.in = 10, .out = 32}};
  load_weights(file, other);
  const compress::Int8Layers layers = file.int8_layers();
  ASSERT_TRUE(layers.at("weight").is_sparse());
  EXPECT_EQ(layers.at("weight").input, (QuantParams{.scale = 0.5F, .zero_point = 7}));
  EXPECT_EQ(layers.at("weight").correction().to_vector<float>(), std::vector<float>(32, 1.0F));
  EXPECT_EQ(compress::use_int8(other, layers), 1u);
  EXPECT_NE(other.str().find("sparse int8"), std::string::npos);
  const NoGrad scope;
  const Tensor x = rand({3, 10});
  const QuantParams input{.scale = 0.5F, .zero_point = 7};
  EXPECT_EQ(other(x).to_vector<float>(),
            sparse_int8_linear(quantize(x, input), input, weight, other.bias).to_vector<float>());
}

TEST_F(SparseInt8WeightsFile, IsRefusedWhereItIsDamaged) {
  using Tensors = io::TensorMap;
  using Json = nlohmann::json;
  const auto expect = [&](const std::function<void(Tensors&, Json&)>& change, const char* why) {
    const std::string what = error(change);
    EXPECT_NE(what.find(why), std::string::npos) << what;
    EXPECT_NE(what.find("other.safetensors"), std::string::npos) << what;
  };
  expect([](Tensors&, Json& j) { j["weight"]["vector"] = -8; }, "describes no weight");
  expect([](Tensors&, Json& j) { j["weight"]["vector"] = 7; }, "no sparse weight");
  expect([](Tensors&, Json& j) { j["weight"].erase("vector"); }, "are no weight");
  expect([](Tensors&, Json& j) { j["weight"].erase("shape"); }, "describes no weight");
  expect(
      [](Tensors&, Json& j) {
        j["weight"]["shape"] = {1 << 30, 1 << 30};
      },
      "describes no weight");
  expect([](Tensors&, Json& j) { j["weight"]["shape"] = {32, 60000000}; }, "the file is damaged");
  expect([](Tensors&, Json& j) { j["weight"]["shape"] = {64, 10}; }, "no sparse weight");
  expect([](Tensors&, Json& j) { j["weight"]["shape"] = {32, 2}; }, "column 3");
  expect([](Tensors& t, Json&) { t.erase("weight.starts"); }, "weight.starts");
  expect([](Tensors& t, Json&) { t.erase("weight.scales"); }, "weight.scales");
  expect([](Tensors& t, Json&) { t["weight.values"] = ones({4, 8}); }, "no sparse weight");
  expect([](Tensors& t, Json&) { t["weight.values"] = full({4, 8}, -128).to(i8); }, "-128");
  expect([](Tensors& t, Json&) { t["weight.scales"] = full({32}, NAN); }, "scale is nan");
  expect([](Tensors& t, Json&) { t["weight.correction"] = ones({5}); }, "a correction");
  expect(
      [](Tensors& t, Json&) {
        t["weight.columns"] = Tensor::from<int32_t>({3, 3, 3, -1}, {4});
      },
      "column -1");
  expect(
      [](Tensors& t, Json&) {
        t["weight.starts"] = Tensor::from<int32_t>({0, 2, 1, 3, 4}, {5});
      },
      "not in order");
  expect([](Tensors&, Json& j) { j["weight"]["permuted"] = true; }, "outputs is missing");
  expect([](Tensors& t, Json&) { t["weight.outputs"] = zeros({32}, {.dtype = i32}); },
         "knows nothing of it");
}

}  // namespace
}  // namespace brim::train
