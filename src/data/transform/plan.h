// A Transform made ready to run: options checked once, and a table from byte to float per channel.
#pragma once

#include <brim/data/transform.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/keyed.h"
#include "data/transform/steps.h"
#include "data/transform/to_float.h"
#include "data/transform/window.h"
#include "formula/picture.h"

namespace brim::data {

/// Buffers of one thread, reused from picture to picture.
struct TransformScratch {
  Image decoded;
  StepBuffers<uint8_t> steps;
  uint64_t decoding = 0;  // ticks (diag/span.h) that apply_file() has spent in decoding
};

class TransformPlan {
 public:
  /// Throws ValueError for impossible options.
  explicit TransformPlan(const Transform& transform);

  /// The shape that comes out for `in`; {0, 0, 0} if it depends on an `in` that is not known.
  /// Throws FileError if it is too large.
  ImageShape output_shape(ImageShape in) const;

  /// Where a picture goes: to floats (C, H, W), or, without the last part of the transform, to
  /// `planes` of bytes (C, H, W) and what that part would show of them.
  struct Output {
    ImageShape shape;  ///< what it must have
    float* floats = nullptr;
    uint8_t* planes = nullptr;
    formula::PictureWindow* window = nullptr;  ///< all but its picture
  };

  /// Writes the transformed picture to `out`. Throws ShapeError where a step does not fit or the
  /// result is not of the shape wanted, FileError for a picture too oblong to be resized.
  void apply(const ImageView& image, uint64_t key, const Output& out,
             TransformScratch& scratch) const;

  /// The same from the bytes of a JPEG or PNG file, of which no more is decoded than the first step
  /// needs. `name` begins the errors, which are FileErrors for what cannot be decoded.
  void apply_file(std::span<const uint8_t> bytes, const std::string& name, uint64_t key,
                  const Output& out, TransformScratch& scratch) const;

  /// The shape before the last part, which is mirroring and at most one random crop, for `in`;
  /// {0, 0, 0} if it depends on an `in` that is not known.
  ImageShape raw_shape(ImageShape in) const { return shape_after(last_part_, in); }
  /// Whether a step before the last part makes a random choice.
  bool draws_before_raw() const;
  /// What the last part shows of a picture of `raw`, where draws_before_raw() is false.
  formula::PictureWindow window(uint64_t key, ImageShape raw) const;
  /// What a crop of the last part shows beyond the picture.
  uint8_t fill() const;

 private:
  /// The shape after the steps before `end`.
  ImageShape shape_after(size_t end, ImageShape in) const;
  /// The steps from `first_step` on.
  void run(size_t first_step, Window window, KeyedRandom random, const Output& out,
           TransformScratch& scratch) const;
  formula::PictureWindow last_window(ImageShape raw, KeyedRandom& random,
                                     TransformScratch& scratch) const;

  Steps steps_;
  size_t last_part_ = 0;  // the first step that a device can do
  std::array<ByteScale, 3> scales_;
};

}  // namespace brim::data
