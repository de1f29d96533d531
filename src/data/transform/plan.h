// A Transform made ready to run: options checked once, and a table from byte to float per channel.
#pragma once

#include <brim/data/transform.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/keyed.h"
#include "data/transform/to_float.h"
#include "data/transform/window.h"

namespace brim::data {

/// Buffers of one thread, reused from picture to picture.
struct TransformScratch {
  Image decoded, first, second;
};

class TransformPlan {
 public:
  /// Throws ValueError for impossible options.
  explicit TransformPlan(const Transform& transform);

  /// The shape that comes out for `in`; {0, 0, 0} if it depends on an `in` that is not known.
  /// Throws FileError if it is too large.
  ImageShape output_shape(ImageShape in) const;

  /// Writes the transformed picture to `out` as planes. Throws ShapeError where a step does not fit
  /// or the result is not of shape `expected`, FileError for a picture too oblong to be resized.
  void apply(const ImageView& image, uint64_t key, ImageShape expected, float* out,
             TransformScratch& scratch) const;

  /// The same from the bytes of a JPEG or PNG file, of which no more is decoded than the first step
  /// needs. `name` begins the errors, which are FileErrors for what cannot be decoded.
  void apply_file(std::span<const uint8_t> bytes, const std::string& name, uint64_t key,
                  ImageShape expected, float* out, TransformScratch& scratch) const;

 private:
  /// The steps from `first_step` on.
  void run(size_t first_step, Window window, KeyedRandom random, ImageShape expected, float* out,
           TransformScratch& scratch) const;
  /// The CenterCrop that follows at once, or null.
  const CenterCrop* crop_after(size_t step) const;

  std::vector<TransformStep> steps_;
  std::array<ByteScale, 3> scales_;
};

}  // namespace brim::data
