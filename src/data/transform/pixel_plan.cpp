#include "data/transform/pixel_plan.h"

#include "data/transform/normalize.h"

namespace brim::data {

PixelPlan::PixelPlan(const Transform& transform, int channels) : steps_(transform.steps) {
  for (const auto [mean, std] : channel_scales(transform.normalize, channels)) {
    bytes_.emplace_back(mean, std);
    words_.emplace_back(mean, std);
  }
}

Tensor to_tensor(const PixelImage& image, const Transform& transform, uint64_t key) {
  const PixelPlan plan(transform, image.shape().channels);
  KeyedRandom random(key);
  PixelBuffers buffers;
  return std::visit(
      [&]<class T>(const BasicImage<T>& pixels) {
        const BasicWindow<T> window = plan.place(BasicImageView<T>(pixels), random, buffers);
        Tensor out = Tensor::empty({plan.channels(), window.box.height, window.box.width}, f32,
                                   Device::cpu());
        plan.write(window, out.data<float>());
        return out;
      },
      image.pixels);
}

}  // namespace brim::data
