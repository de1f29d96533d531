// Labelled pictures as a data set: "x" (C, H, W) f32 and "y"; raw ones as bytes, whose last part of
// the transform is left to a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <brim/data/dataset.h>

#include "data/dataset/sample_access.h"
#include "data/transform/plan.h"

namespace brim::data {

class LabelledPictures final : public Dataset {
 public:
  /// Learns the shape from the first picture that can be read, of all where `skip_broken`. Throws
  /// ValueError, ShapeError; FileError if none can be.
  LabelledPictures(std::shared_ptr<const Source> from, const Transform& how, bool raw,
                   bool skip_broken);

  int64_t size() const override { return source->size(); }
  void get(int64_t i, Sample& out) const override;
  void prefetch(int64_t i) const noexcept override { source->prefetch(i); }
  std::string describe(int64_t i) const override { return source->describe(i); }
  void check() const override { source->check(); }
  bool in_memory() const override { return source->in_memory(); }

  /// Rows of its samples; for raw ones in the order of RawLayout.
  SampleRows rows() const;

  const std::shared_ptr<const Source> source;
  const Transform transform;
  const TransformPlan plan;
  const bool raw;
  ImageShape shape;      ///< after the transform
  ImageShape raw_shape;  ///< before its last part; {0, 0, 0} if pictures differ there
};

}  // namespace brim::data
