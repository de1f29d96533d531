// A Transform made ready to run: options checked once, and a table from byte to float per channel.
#pragma once

#include <brim/data/transform.h>

#include <array>
#include <cstdint>
#include <vector>

namespace brim::data {

/// Buffers of one thread, reused from picture to picture.
struct TransformScratch {
  Image first, second;
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

 private:
  /// The CenterCrop that follows at once, or null.
  const CenterCrop* crop_after(size_t step) const;

  std::vector<TransformStep> steps_;
  std::array<std::array<float, 256>, 3> table_;
};

}  // namespace brim::data
