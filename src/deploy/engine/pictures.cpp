#include "deploy/engine/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include <brim/data/image.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "core/check.h"
#include "data/transform/steps.h"
#include "deploy/engine/lowering.h"
#include "formula/resample.h"
#include "rt/ops/picture.h"

namespace brim::deploy {
namespace {

constexpr int64_t kBytes = 256;  // values of a sample of 8 bits

/// Sizes on the way of a picture, in pixels.
struct WayOfPictures {
  data::ImageShape from, resized, to;

  WayOfPictures(const EnginePictures& p, int64_t channels)
      : from{static_cast<int>(channels), static_cast<int>(p.height), static_cast<int>(p.width)},
        resized(from) {
    const std::vector<data::TransformStep>& steps = p.transform.steps;
    const auto is_allowed = [&] {
      if (steps.empty()) return true;
      const bool is_last_crop = std::holds_alternative<data::CenterCrop>(steps.back());
      if (steps.size() == 1) return is_last_crop || is_resize(steps[0]);
      return steps.size() == 2 && is_resize(steps[0]) && is_last_crop;
    };
    BRIM_CHECK(is_allowed(), ValueError,
               "[engine] pictures: an engine resizes (Resize), then takes the middle (CenterCrop), "
               "and nothing else; leave other steps out");
    const data::Steps whole(steps);
    to = whole.shape_after(steps.size(), from);
    if (!steps.empty() && is_resize(steps[0]))
      resized = data::Steps({steps[0]}).shape_after(1, from);
    BRIM_CHECK(to.height <= resized.height && to.width <= resized.width, ValueError,
               "[engine] pictures: of {} x {} pixels (height, width) the middle {} x {} cannot be "
               "taken; resize them first",
               resized.height, resized.width, to.height, to.width);
  }

 private:
  static bool is_resize(const data::TransformStep& step) {
    return std::holds_alternative<data::Resize>(step);
  }
};

/// Outputs along one axis, as a step has them.
struct PictureTaps {
  std::vector<int64_t> words;
  std::vector<int32_t> weights;
  int64_t max_taps = 1;

  PictureTaps(int from, int resized, int to) {
    const auto begin = static_cast<int>(formula::centred(resized, to));
    formula::ResampleAxis axis(0, from, resized);
    if (axis.same) {
      for (int i = 0; i < to; ++i) words.push_back(rt::taps_word(begin + i, 1));
      weights.assign(static_cast<size_t>(to), 1 << formula::kWeightBits);
      return;
    }
    axis.weigh(begin, to);
    for (const formula::Taps& taps : axis.taps)
      words.push_back(rt::taps_word(taps.first, taps.count));
    weights = std::move(axis.weights);
    max_taps = axis.max_taps;
  }
  Tensor tensor() const {
    return Tensor::from<int32_t>(weights, {static_cast<int64_t>(words.size()), max_taps});
  }
};

/// One picture, (height, width, channels), in the order of channels that the network is used to.
Tensor prepared_picture(const EnginePictures& p, const Tensor& picture) {
  data::Image image;
  image.height = static_cast<int>(picture.size(0));
  image.width = static_cast<int>(picture.size(1));
  image.channels = static_cast<int>(picture.size(2));
  image.pixels = picture.contiguous().to_vector<uint8_t>();
  if (p.bgr)
    for (size_t i = 0; i < image.pixels.size(); i += 3)
      std::swap(image.pixels[i], image.pixels[i + 2]);
  if (image.channels == 3) return data::to_tensor(image, p.transform);
  return data::to_tensor(data::PixelImage{std::move(image)}, p.transform);
}

/// What a byte becomes, (channels, 256): a picture of all bytes, prepared.
Tensor table_of(const EnginePictures& p, int64_t channels) {
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < kBytes * channels; ++i)
    bytes.push_back(static_cast<uint8_t>(i / channels));
  EnginePictures plain = p;
  plain.transform.steps.clear();
  plain.bgr = false;
  return prepared_picture(plain, Tensor::from<uint8_t>(bytes, {1, kBytes, channels}))
      .reshape({channels, kBytes});
}

void picture(Lowering& to, const EngineNode& node) {
  const Shape shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  std::vector<uint32_t> operands;
  for (const int id : node.inputs) operands.push_back(to.plain(id));
  const bool is_resampled = node.inputs.size() > 2;
  const rt::PictureAttributes a = {.is_reversed = node.attribute<int64_t>("reversed", 0),
                                   .row_taps = is_resampled ? to.network.shape(node, 2)[1] : 0,
                                   .column_taps = is_resampled ? to.network.shape(node, 3)[1] : 0};
  const uint32_t y = to.made({shape[0], shape[2], shape[3], shape[1]});
  to.step(rt::OpCode::picture, operands, y, a);
  if (is_resampled) to.add_words(node.attribute("words", std::vector<int64_t>{}));
  to.set_nhwc(node.outputs[0], y);
}

const bool registered_pictures = register_operator("Picture", &picture);

}  // namespace

void check_pictures(const EnginePictures& p, const Tensor& input) {
  BRIM_CHECK(input.defined() && input.rank() == 4 && input.dtype() == DType::f32 &&
                 input.size(1) <= rt::kMaxPictureChannels,
             ValueError,
             "[engine] pictures: input 0 of the network is none of images (N, C, H, W) in f32 of 1 "
             "to {} channels",
             rt::kMaxPictureChannels);
  for (const int64_t side : {p.height, p.width})
    BRIM_CHECK(side >= 1 && side <= rt::kMaxPictureSide, ValueError,
               "[engine] pictures of {} x {} pixels (height, width); sides are from 1 to {}",
               p.height, p.width, rt::kMaxPictureSide);
  const int64_t channels = input.size(1);
  BRIM_CHECK(!p.bgr || channels == 3, ValueError,
             "[engine] pictures: BGR is an order of 3 channels, and the network reads {}",
             channels);
  const WayOfPictures way(p, channels);
  BRIM_CHECK(way.to.height == input.size(2) && way.to.width == input.size(3), ValueError,
             "[engine] pictures of {} x {} pixels (height, width) become {} x {}, and the network "
             "reads {} x {}; give pictures of that size, or resize them",
             p.height, p.width, way.to.height, way.to.width, input.size(2), input.size(3));
}

void read_pictures(EngineNetwork& network, const EnginePictures& p) {
  const int read = network.inputs[0];
  const Shape shape = network.values[static_cast<size_t>(read)].shape;
  const WayOfPictures way(p, shape[1]);
  EngineNode node;
  node.op = "Picture";
  node.outputs = {read};
  node.attributes.push_back({"reversed", int64_t{p.bgr}});
  network.values.push_back({{shape[0], p.height, p.width, shape[1]}, DType::u8, {}, nullptr});
  network.inputs[0] = static_cast<int>(network.values.size()) - 1;
  node.inputs = {network.inputs[0], network.add_constant(table_of(p, shape[1]))};
  if (way.from != way.to || way.from != way.resized) {
    const PictureTaps rows(way.from.height, way.resized.height, way.to.height),
        columns(way.from.width, way.resized.width, way.to.width);
    node.inputs.push_back(network.add_constant(rows.tensor()));
    node.inputs.push_back(network.add_constant(columns.tensor()));
    std::vector<int64_t> words = rows.words;
    words.insert(words.end(), columns.words.begin(), columns.words.end());
    node.attributes.push_back({"words", std::move(words)});
  }
  network.nodes.insert(network.nodes.begin(), std::move(node));
}

Tensor sample_pictures(const EnginePictures& p, int64_t channels, int64_t samples,
                       Generator& random) {
  constexpr int64_t kPatches = 8, kNoise = 32;
  const Tensor patches = randint(0, kBytes - kNoise, {samples, kPatches, kPatches, channels},
                                 {.dtype = DType::u8}, &random);
  Tensor pictures =
      randint(0, kNoise, {samples, p.height, p.width, channels}, {.dtype = DType::u8}, &random);
  const std::vector<uint8_t> colours = patches.to_vector<uint8_t>();
  uint8_t* const pixels = pictures.data<uint8_t>();  // noise on which the patches are put
  size_t at = 0;
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t y = 0; y < p.height; ++y)
      for (int64_t x = 0; x < p.width; ++x)
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t row = y * kPatches / p.height, column = x * kPatches / p.width;
          const int64_t patch = ((n * kPatches + row) * kPatches + column) * channels + c;
          pixels[at] = static_cast<uint8_t>(pixels[at] + colours[static_cast<size_t>(patch)]);
          ++at;
        }
  return pictures;
}

Tensor prepared(const EnginePictures& p, const Tensor& samples) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < samples.size(0); ++i)
    all.push_back(prepared_picture(p, samples.select(0, i)));
  return stack(all, 0);
}

}  // namespace brim::deploy
