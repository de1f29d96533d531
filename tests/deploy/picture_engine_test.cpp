// Engines that prepare pictures themselves: the bits of data::to_tensor(), whatever computes them.
#include <brim/autograd/autograd.h>
#include <brim/brim.h>
#include <brim/compress/quantize.h>
#include <brim/data/transform.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "deploy/altered_engine.h"
#include "deploy/counted_memory.h"
#include "deploy/opened_engine.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

using data::CenterCrop;
using data::Resize;

/// What is to be compared is the input.
struct GivesItsInput : nn::Module {
  Tensor forward(const Tensor& x) override { return -x; }
};

struct PictureCase {
  std::string name;
  deploy::EnginePictures pictures;
  Shape input;  ///< of the network, without the batch
};

std::vector<PictureCase> picture_cases() {
  const data::Normalize usual = {.mean = {0.485F, 0.456F, 0.406F}, .std = {0.229F, 0.224F, 0.225F}};
  const auto both = [](int size) {
    return std::vector<data::TransformStep>{Resize{.height = size}, CenterCrop{.height = size}};
  };
  std::vector<PictureCase> all;
  const auto add = [&](const std::string& name, deploy::EnginePictures p, const Shape& input) {
    if (p.transform.normalize.mean.size() == 1 && input[0] == 3) p.transform.normalize = usual;
    all.push_back({name, std::move(p), input});
  };
  add("AsTheyAre", {.height = 9, .width = 13}, {3, 9, 13});
  add("Bgr", {.height = 9, .width = 13, .bgr = true}, {3, 9, 13});
  add("Smaller", {.height = 48, .width = 64, .transform = {.steps = both(17)}}, {3, 17, 17});
  add("SmallerBgr", {.height = 48, .width = 64, .transform = {.steps = both(17)}, .bgr = true},
      {3, 17, 17});
  add("Larger", {.height = 7, .width = 5, .transform = {.steps = both(32)}}, {3, 32, 32});
  add("Portrait", {.height = 101, .width = 37, .transform = {.steps = both(20)}}, {3, 20, 20});
  add("OfSameHeight", {.height = 16, .width = 40, .transform = {.steps = both(16)}}, {3, 16, 16});
  add("Squeezed",
      {.height = 23, .width = 31, .transform = {.steps = {Resize{.height = 12, .width = 50}}}},
      {3, 12, 50});
  add("Wider",
      {.height = 23, .width = 31, .transform = {.steps = {Resize{.height = 23, .width = 50}}}},
      {3, 23, 50});
  add("Taller",
      {.height = 23, .width = 31, .transform = {.steps = {Resize{.height = 40, .width = 31}}}},
      {3, 40, 31});
  add("Cropped",
      {.height = 23, .width = 31, .transform = {.steps = {CenterCrop{.height = 10, .width = 9}}}},
      {3, 10, 9});
  add("OfOnePixel", {.height = 1, .width = 1, .transform = {.steps = both(8)}}, {3, 8, 8});
  add("ToOnePixel", {.height = 40, .width = 33, .transform = {.steps = both(1)}}, {3, 1, 1});
  add("Thin",
      {.height = 1, .width = 300, .transform = {.steps = {Resize{.height = 3, .width = 5}}}},
      {3, 3, 5});
  add("Grey", {.height = 30, .width = 41, .transform = {.steps = both(11)}}, {1, 11, 11});
  add("GreyAndAlpha", {.height = 30, .width = 41, .transform = {.steps = both(11)}}, {2, 11, 11});
  add("FourChannels", {.height = 30, .width = 41, .transform = {.steps = both(60)}}, {4, 60, 60});
  add("Camera", {.height = 480, .width = 640, .transform = {.steps = both(64)}}, {3, 64, 64});
  return all;
}

Tensor random_pictures(const deploy::EnginePictures& p, int64_t count, int64_t channels) {
  return randint(0, 256, {count, p.height, p.width, channels}, {.dtype = u8});
}

/// What data::to_tensor() makes of each.
Tensor reference(const deploy::EnginePictures& p, const Tensor& pictures) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < pictures.size(0); ++i) {
    data::Image image{.width = static_cast<int>(p.width),
                      .height = static_cast<int>(p.height),
                      .channels = static_cast<int>(pictures.size(3)),
                      .pixels = pictures[i].contiguous().to_vector<uint8_t>()};
    for (size_t at = 0; p.bgr && at < image.pixels.size(); at += 3)
      std::swap(image.pixels[at], image.pixels[at + 2]);
    all.push_back(image.channels == 3 ? data::to_tensor(image, p.transform)
                                      : data::to_tensor(data::PixelImage{image}, p.transform));
  }
  return stack(all, 0);
}

class EngineOfPictures : public testing::TestWithParam<PictureCase> {};

TEST_P(EngineOfPictures, PreparesThemBitForBit) {
  const deploy::EnginePictures& pictures = GetParam().pictures;
  const Shape& input = GetParam().input;
  manual_seed(5);
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  Shape shape = input;
  shape.insert(0, 1);
  GivesItsInput network;
  deploy::EngineSummary made =
      deploy::save_engine(path, network, Tensor::empty(shape, f32, Device::cpu()),
                          {.batches = {1, 3}, .pictures = pictures, .threads = 2});
  EXPECT_EQ(made.operators["picture"], 1);
  EXPECT_EQ(made.difference, 0);
  for (const int64_t batch : {1, 3}) {
    const Tensor x = random_pictures(pictures, batch, input[0]);
    const std::vector<float> expected = (-reference(pictures, x)).to_vector<float>();
    for_each_engine(path, batch, [&](const OpenedEngine& engine) {
      const brim_rt_port& port = *brim_rt_input(engine.session(), 0);
      EXPECT_EQ(port.dtype, BRIM_RT_U8);
      EXPECT_EQ(port.shape[3], input[0]);
      const std::vector<float> found = engine(x).to_vector<float>();
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineOfPictures, testing::ValuesIn(picture_cases()),
                         [](const auto& tested) { return tested.param.name; });

/// Of pictures 40 x 50, whose middle becomes 16 x 16.
deploy::EnginePictures small_pictures() {
  return {.height = 40,
          .width = 50,
          .transform = {.steps = {Resize{.height = 16}, CenterCrop{.height = 16}}}};
}

std::unique_ptr<nn::Sequential> small_network() {
  auto net = std::make_unique<nn::Sequential>();
  net->push<nn::Conv2d>({.in = 3, .out = 8, .kernel = 3}).push<nn::ReLU>().push<nn::Flatten>();
  net->push<nn::Linear>({.in = 8 * 14 * 14, .out = 10});
  net->eval();
  return net;
}

TEST(PictureEngine, ComputesBeforeIntegers) {
  manual_seed(5);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  const auto network = small_network();
  const deploy::EnginePictures pictures = small_pictures();
  const Tensor x = random_pictures(pictures, 1, 3), read = reference(pictures, x);
  compress::quantize(*network, [&] { (void)(*network)(read); }, {.only_faster = false});
  deploy::EngineSummary made = deploy::save_engine(path, *network, zeros({1, 3, 16, 16}),
                                                   {.pictures = pictures, .threads = 2});
  EXPECT_EQ(made.operators["picture"], 1);
  EXPECT_EQ(made.operators["int8_convolution"], 2);
  const std::vector<float> expected = (*network)(read).to_vector<float>();
  for_each_engine(path, 1, [&](const OpenedEngine& engine) {
    EXPECT_EQ(engine(x).to_vector<float>(), expected);
  });
}

TEST(PictureEngine, TakesMemoryOnlyBeforeItRuns) {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  const auto network = small_network();
  const deploy::EnginePictures pictures = small_pictures();
  for (const bool in_integers : {false, true}) {
    if (in_integers)
      compress::quantize(*network,
                         [&] {
                           (void)(*network)(randn({4, 3, 16, 16}));
                         },
                         {.only_faster = false});
    deploy::EngineSummary made = deploy::save_engine(path, *network, zeros({1, 3, 16, 16}),
                                                     {.pictures = pictures, .threads = 2});
    EXPECT_EQ(made.operators["int8_convolution"], in_integers ? 2 : 0);
    CountedMemory counted;
    const brim_rt_allocator allocator = counted.allocator();
    const OpenedEngine engine(path, {.own_threads = 2}, &allocator);
    const int taken = counted.taken;
    const Tensor x = random_pictures(pictures, 1, 3);
    for (int i = 0; i < 3; ++i) (void)engine(x);
    EXPECT_EQ(counted.taken, taken);
  }
}

TEST(PictureEngine, RefusesWhatDoesNotBecomeItsInput) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  const auto network = small_network();
  const auto refused = [&](const deploy::EnginePictures& p,
                           const Tensor& example = zeros({1, 3, 16, 16})) {
    const std::string message =
        message_of([&] { deploy::save_engine(path, *network, example, {.pictures = p}); });
    EXPECT_FALSE(std::ifstream(path).is_open());
    return message;
  };
  const auto has = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused({.height = 16, .width = 17}), "the network reads 16 x 16");
  for (const int64_t side : {-1, 0, 32769, 65536})
    has(refused({.height = side, .width = 16}), "sides are from 1 to 32768");
  has(refused({.height = 9, .width = 9, .transform = {.steps = {CenterCrop{.height = 16}}}}),
      "the middle 16 x 16 cannot be taken");
  has(refused({.height = 16, .width = 16, .transform = {.steps = {data::HorizontalFlip{}}}}),
      "leave other steps out");
  has(refused({.height = 16,
               .width = 16,
               .transform = {.steps = {CenterCrop{.height = 16}, Resize{.height = 16}}}}),
      "leave other steps out");
  has(refused({.height = 16, .width = 16, .transform = {.normalize = {.std = {0}}}}), "std");
  has(refused({.height = 16, .width = 16}, zeros({1, 768})), "none of images");
  has(refused({.height = 16, .width = 16, .bgr = true}, zeros({1, 1, 16, 16})),
      "an order of 3 channels");
}

TEST(PictureEngine, SurvivesAlteredFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  const auto network = small_network();
  deploy::save_engine(path, *network, zeros({1, 3, 16, 16}),
                      {.pictures = small_pictures(), .threads = 1});
  const EngineBytes whole(path);
  const std::string altered = folder / "altered.brim";
  EXPECT_EQ(refusal_of(whole.bytes, altered), "");
  const auto refused = [&](const std::function<void(EngineBytes&)>& alter) {
    EngineBytes file = whole;
    alter(file);
    const std::string message = refusal_of(file.bytes, altered);
    EXPECT_NE(message.find("damaged"), std::string::npos) << message;
  };
  refused([](EngineBytes& f) { f.words(0)[1] = 0; });                 // taps of rows
  refused([](EngineBytes& f) { f.words(0)[2] = int64_t{1} << 40; });  // and of columns
  for (const int output : {0, 15, 16, 31}) {
    const int64_t pixels = output < 16 ? 40 : 50, one = int64_t{1} << 32;
    for (const int64_t taps : {pixels | one, (pixels - 1) | 2 * one, (pixels + 1) * one, int64_t{0},
                               int64_t{-1}, int64_t{1} << 62})
      refused([&](EngineBytes& f) { f.words(0)[3 + output] = taps; });
  }
  refused([](EngineBytes& f) { --f.step(0).words; });
  for (const int operand : {0, 1, 2, 3, 4})
    for (const int axis : {0, 1, 2, 3})
      for (const int64_t size : {0, 1, 2, 5, 65536})
        refused([&](EngineBytes& f) {
          rt::ValueRecord& v = f.operand(0, operand);
          if (axis < v.rank && v.dims[axis] != size)
            v.dims[axis] = size;
          else
            v.rank = 0;
        });
  for (const int operand : {0, 1, 2, 3, 4})
    refused([&](EngineBytes& f) {
      f.operand(0, operand).dtype = operand == 0 ? rt::DType::f32 : rt::DType::u8;
    });
  constexpr int kFiles = 300;
  EXPECT_GT(refused_alterations(whole.bytes, altered, kFiles), kFiles / 4);
}

}  // namespace
}  // namespace brim::tests
