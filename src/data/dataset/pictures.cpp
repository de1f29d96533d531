#include "data/dataset/pictures.h"

#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "data/source/class_names.h"
#include "data/transform/resample.h"
#include "diag/span.h"

namespace brim::data {
namespace {

// Buffers of one thread.
struct Buffers {
  std::vector<uint8_t> file;
  Image image;
  TransformScratch transform;
};

// The shape of the batches: known from the options, or that of the first sample that can be
// decoded.
ImageShape find_shape(const Source& source, const TransformPlan& plan, bool skip_broken) {
  const ImageShape shape = plan.output_shape(source.image_shape());
  if (shape != ImageShape{}) return shape;
  Image image;
  for (int64_t i = 0;; ++i) {
    try {
      source.read(i, image);
      return with_name([&] { return source.describe(i); },
                       [&] { return plan.output_shape(image.shape()); });
    } catch (const FileError&) {
      if (!skip_broken || i + 1 == source.size()) throw;
    }
  }
}

std::shared_ptr<const Source> checked(std::shared_ptr<const Source> source) {
  BRIM_CHECK(source != nullptr, ValueError, "[loader] no source; open one with data::Source::open");
  BRIM_CHECK(source->size() > 0, ValueError, "[loader] the source has no samples");
  const std::string wrong = wrong_class_names(source->classes());
  BRIM_CHECK(wrong.empty(), ValueError, "[loader] the source's classes: {}", wrong);
  return source;
}

}  // namespace

LabelledPictures::LabelledPictures(std::shared_ptr<const Source> from, const Transform& how,
                                   bool as_bytes, bool skip_broken)
    : source(checked(std::move(from))), transform(how), plan(how), raw(as_bytes) {
  shape = find_shape(*source, plan, skip_broken);
  BRIM_CHECK(shape.channels == 3, ShapeError,
             "[loader] pictures of {} channels; expected 3, sources expand grey ones",
             shape.channels);
  raw_shape = plan.raw_shape(source->image_shape());
  BRIM_CHECK(!raw || raw_shape != ImageShape{}, ValueError,
             "[loader] raw batches need pictures of one size before the last crop, and {} has "
             "several; put a Resize in front",
             source->describe(0));
}

SampleRows LabelledPictures::rows() const {
  const auto row = [](const char* name, DType dtype, const Shape& of) {
    auto bytes = static_cast<int64_t>(size_of(dtype));
    for (const int64_t size : of)
      if (__builtin_mul_overflow(bytes, size, &bytes)) break;  // the loader refuses such shapes
    return SampleRows::Field{name, dtype, of, bytes};
  };
  const ImageShape& s = raw ? raw_shape : shape;
  const Shape planes = {s.channels, s.height, s.width};
  if (raw)
    return {
        {row("windows", DType::i32, {4}), row("y", DType::i64, {}), row("x", DType::u8, planes)}};
  return {{row("x", DType::f32, planes), row("y", DType::i64, {})}};
}

void LabelledPictures::get(int64_t i, Sample& out) const {
  auto& buffers = out.scratch<Buffers>(this);
  buffers.transform.decoding = 0;
  const uint64_t key = SampleAccess::key(out);
  TransformPlan::Output to;
  formula::PictureWindow* window = nullptr;
  if (raw) {
    window = static_cast<formula::PictureWindow*>(out.make("windows", DType::i32, {4}));
    *window = {};
    out.set("y", source->label(i));
    to.shape = raw_shape;
    to.planes =
        out.make<uint8_t>("x", {raw_shape.channels, raw_shape.height, raw_shape.width}).data();
    to.window = window;
  } else {
    to.shape = shape;
    to.floats = out.make<float>("x", {shape.channels, shape.height, shape.width}).data();
    out.set("y", source->label(i));
  }
  const auto apply = [&](const auto& picture) {
    with_name([&] { return source->describe(i); },
              [&] { plan.apply(picture, key, to, buffers.transform); });
  };
  if (const ImageView view = source->view(i)) {
    apply(view);
  } else {
    std::optional<diag::AddTicks> time(std::in_place, SampleAccess::reading(out));
    const auto file = source->file(i, buffers.file);
    if (file.empty()) source->read(i, buffers.image);
    time.reset();
    if (file.empty())
      apply(buffers.image);
    else
      plan.apply_file(file, source->describe(i), key, to, buffers.transform);
  }
  if (window) window->picture = static_cast<int32_t>(SampleAccess::row(out));
  SampleAccess::decoding(out) += buffers.transform.decoding;
}

DatasetPtr from_pictures(std::shared_ptr<const Source> source, const Transform& transform) {
  return std::make_shared<LabelledPictures>(std::move(source), transform, false, false);
}

}  // namespace brim::data
