// A Transform for pictures of any channels and bits, and for the masks that go with them.
#pragma once

#include <brim/data/transform.h>

#include <vector>

#include "data/transform/steps.h"
#include "data/transform/to_float.h"

namespace brim::data {

/// Buffers of one thread, for PixelPlan.
struct PixelBuffers {
  StepBuffers<uint8_t> bytes, mask;
  StepBuffers<uint16_t> words;

  StepBuffers<uint8_t>& of(uint8_t) { return bytes; }
  StepBuffers<uint16_t>& of(uint16_t) { return words; }
};

class PixelPlan {
 public:
  /// Throws ValueError for impossible options.
  PixelPlan(const Transform& transform, int channels);

  int channels() const { return static_cast<int>(bytes_.size()); }
  ImageShape output_shape(ImageShape in) const { return steps_.shape_after(steps_.size(), in); }

  /// What is shown of a picture; its pixels may lie in `buffers`. Throws ShapeError, FileError.
  template <class T>
  BasicWindow<T> place(const BasicImageView<T>& picture, KeyedRandom& random,
                       PixelBuffers& buffers) const {
    return steps_.place(0, steps_.size(), BasicWindow<T>(picture), random, buffers.of(T()));
  }
  /// The same of its mask, with the draws that `random` had for the picture.
  Window place_mask(const ImageView& mask, KeyedRandom random, PixelBuffers& buffers) const {
    return steps_.place(0, steps_.size(), Window(mask), random, buffers.mask, Content::mask);
  }

  /// To f32 (C, H, W).
  void write(const Window& window, float* out) const { to_float(window, bytes_, out); }
  void write(const Window16& window, float* out) const { to_float(window, words_, out); }

 private:
  Steps steps_;
  std::vector<ByteScale> bytes_;
  std::vector<WordScale> words_;
};

}  // namespace brim::data
