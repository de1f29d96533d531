// Engines whose steps were altered, an attribute or operand at a time: each is refused, or runs
// within its memory, which sanitizers see.
#include <brim/brim.h>
#include <brim/deploy/engine.h>
#include <brim/ops/interpolate.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "deploy/altered_engine.h"
#include "deploy/computes.h"
#include "rt/attributes.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

/// The engine of a network, of one step of a kind.
class AlteredStep {
 public:
  AlteredStep(nn::Module& network, const Shape& sample, rt::OpCode op)
      : whole_(saved(network, sample)) {
    while (index_ < whole_.steps() && whole_.step(index_).op != static_cast<uint32_t>(op)) ++index_;
    if (index_ == whole_.steps()) throw std::runtime_error("the engine has no such step");
  }
  uint64_t index() const { return index_; }
  uint64_t weight_bytes() { return whole_.at<rt::FileHeader>(0)->weights.count; }
  int words() { return static_cast<int>(whole_.step(index_).words); }
  int operands() { return whole_.step(index_).inputs + whole_.step(index_).outputs; }
  /// What is said of a file that was altered, "" for nothing.
  std::string refusal(const std::function<void(EngineBytes&)>& alter) const {
    EngineBytes file = whole_;
    alter(file);
    return refusal_of(file.bytes, folder_ / "altered.brim");
  }
  bool is_damaged(const std::function<void(EngineBytes&)>& alter) const {
    return refusal(alter).find("is damaged") != std::string::npos;
  }
  /// Sizes, types and numbers of operands and words.
  void refuses_other_operands() {
    const uint64_t i = index_;
    for (int operand = 0; operand < operands(); ++operand) {
      for (int axis = 0; axis < whole_.operand(i, operand).rank; ++axis)
        for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{1} << 20,
                                   int64_t{1} << 40, whole_.operand(i, operand).dims[axis] + 1})
          (void)refusal([&](EngineBytes& f) { f.operand(i, operand).dims[axis] = size; });
      EXPECT_TRUE(is_damaged([&](EngineBytes& f) {
        rt::DType& dtype = f.operand(i, operand).dtype;
        dtype = dtype == rt::DType::f32 ? rt::DType::i32 : rt::DType::f32;
      })) << operand;
    }
    EXPECT_TRUE(is_damaged([&](EngineBytes& f) { --f.step(i).inputs; }));
    EXPECT_TRUE(is_damaged([&](EngineBytes& f) { ++f.step(i).inputs, --f.step(i).outputs; }));
    EXPECT_TRUE(is_damaged([&](EngineBytes& f) { ++f.step(i).words; }));
  }

 private:
  EngineBytes saved(nn::Module& network, const Shape& sample) const {
    manual_seed(4);
    network.eval();
    const std::string path = folder_ / "model.brim";
    deploy::save_engine(path, network, randn(sample), {.threads = 1});
    return EngineBytes(path);
  }

  TemporaryFolder folder_;
  EngineBytes whole_;
  uint64_t index_ = 0;
};

constexpr int64_t kWordValues[] = {-1,
                                   0,
                                   1,
                                   2,
                                   3,
                                   5,
                                   64,
                                   65,
                                   int64_t{1} << 20,
                                   int64_t{1} << 40,
                                   std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::min()};

TEST(AlteredSteps, OfPlanesStayWithinTheirMemory) {
  for (const bool is_pooled : {false, true}) {
    nn::Sequential network;
    network.push<nn::Conv2d>({.in = 2, .out = 6, .kernel = 3, .padding = 1}).push<nn::ReLU>();
    if (is_pooled) network.push<nn::MaxPool2d>({.kernel = 2});
    AlteredStep step(network, {1, 2, 8, 20}, rt::OpCode::plane_convolution);
    const uint64_t i = step.index();
    EXPECT_EQ(step.refusal([](EngineBytes&) {}), "");
    for (int word = 0; word < step.words(); ++word)
      for (const int64_t value : kWordValues)
        (void)step.refusal([&](EngineBytes& f) { f.words(i)[word] = value; });
    const auto is_damaged = [&](int word, int64_t value) {
      return step.is_damaged([&](EngineBytes& f) { f.words(i)[word] = value; });
    };
    for (const int kernel : {0, 1}) {
      for (const int64_t value : kWordValues)
        EXPECT_EQ(is_damaged(kernel, value), value != 3) << kernel << ": " << value;
      for (const int64_t value : {int64_t{-1}, int64_t{1} << 40})
        EXPECT_TRUE(is_damaged(2 + kernel, value)) << "padding " << value;
    }
    for (const int bound : {4, 5})
      for (const double value : {std::nan(""), -1e300, 1e300, -rt::kInfinity})
        (void)step.refusal(
            [&](EngineBytes& f) { f.words(i)[bound] = std::bit_cast<int64_t>(value); });
    step.refuses_other_operands();
  }
}

TEST(AlteredSteps, OfResizedImagesReadNoPixelBeyondThem) {
  Computes network([](const Tensor& x) {
    return interpolate(relu(x), {.size = {9, 4}, .mode = Interpolation::bilinear});
  });
  AlteredStep step(network, {1, 5, 6, 7}, rt::OpCode::resize);
  const uint64_t i = step.index();
  EXPECT_EQ(step.refusal([](EngineBytes&) {}), "");
  const auto number = [&](EngineBytes& f, int operand, int64_t at) {
    const rt::ValueRecord& v = f.operand(i, operand);
    const uint64_t bytes = v.dtype == rt::DType::i64 ? 8 : 4;
    return f.at<rt::FileHeader>(0)->weights.at + v.at + static_cast<uint64_t>(at) * bytes;
  };
  for (const auto& [operand, count, size] : {std::tuple{1, 9, 6}, {3, 4, 7}})
    for (const int at : {0, count - 1}) {
      for (const int64_t pixel :
           {int64_t{-1}, int64_t{size}, int64_t{1} << 40, std::numeric_limits<int64_t>::min()})
        EXPECT_NE(step.refusal([&, operand = operand](EngineBytes& f) {
                        *f.at<int64_t>(number(f, operand, at)) = pixel;
                      })
                      .find("a pixel beyond the image"),
                  std::string::npos)
            << operand << ": " << pixel;
      EXPECT_NE(step.refusal([&, operand = operand](EngineBytes& f) {
                      *f.at<float>(number(f, operand + 1, at)) = 1e30F;
                    })
                    .find("output differs"),
                std::string::npos);
    }
  step.refuses_other_operands();
}

TEST(AlteredSteps, OfGroupsHaveNoWeights) {
  nn::Sequential network;
  network.push<nn::GroupNorm>({.groups = 2, .channels = 4, .affine = false});
  AlteredStep step(network, {1, 4, 16, 16}, rt::OpCode::layer_norm);
  EXPECT_EQ(step.refusal([](EngineBytes&) {}), "");
  EXPECT_LT(step.weight_bytes(), 256U) << "ones are held, as long as a group";
  step.refuses_other_operands();
}

}  // namespace
}  // namespace brim::tests
