// The steps of a transform, checked once, and what they do to a picture: crops and flips only move
// a window over it, so pixels are touched by resizes alone.
#pragma once

#include <brim/data/transform.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/keyed.h"
#include "data/transform/window.h"

namespace brim::data {

/// What pixels are. Masks hold classes: they are never mixed, and kIgnoredClass lies outside.
enum class Content : uint8_t { picture, mask };

/// Buffers of one thread.
template <class T>
struct StepBuffers {
  BasicImage<T> first, second;
};

class Steps {
 public:
  /// Throws ValueError for impossible options.
  explicit Steps(std::vector<TransformStep> steps);

  size_t size() const { return steps_.size(); }
  const TransformStep& operator[](size_t i) const { return steps_[i]; }

  /// Height and width after the steps before `end`, and the channels of `in`; {0, 0, 0} if they
  /// depend on an `in` that is not known. Throws FileError if the picture would be too large.
  ImageShape shape_after(size_t end, ImageShape in) const;

  /// What steps [first, end) make of a window, whose pixels may then lie in `buffers`. What is
  /// drawn depends on sizes alone, not on content. Throws ShapeError where a step does not fit,
  /// FileError for a picture too oblong to be resized.
  template <class T>
  BasicWindow<T> place(size_t first, size_t end, BasicWindow<T> window, KeyedRandom& random,
                       StepBuffers<T>& buffers, Content content = Content::picture) const;

 private:
  /// The CenterCrop that follows at once, or null.
  const CenterCrop* crop_after(size_t step) const;

  std::vector<TransformStep> steps_;
};

/// Width, or height where a step has none: a square.
inline int side_or(int width, int height) { return width == 0 ? height : width; }

}  // namespace brim::data
