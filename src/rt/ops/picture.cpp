// The step from a camera's pictures to what a network reads.
#include "rt/ops/picture.h"

#include <initializer_list>

#include "rt/kernels/picture.h"

namespace brim::rt {
namespace {

constexpr int kPictureWords = sizeof(PictureAttributes) / sizeof(int64_t);

Pictures pictures_of(const Step& s) {
  const auto a = s.attributes<PictureAttributes>();
  const Operand &x = s.in(0), &y = s.out(0);
  const int64_t *const rows = s.words + kPictureWords, *const columns = rows + y.dims[1];
  return {.n = x.dims[0],
          .c = x.dims[3],
          .rows = {x.dims[1], y.dims[1], rows, s.in_or_null<int32_t>(2), a.row_taps},
          .columns = {x.dims[2], y.dims[2], columns, s.in_or_null<int32_t>(3), a.column_taps},
          .is_resampled = s.inputs > 2,
          .is_reversed = a.is_reversed != 0,
          .x = x.as<uint8_t>(),
          .table = s.in(1).as<float>(),
          .y = y.as<float>()};
}

/// Whether all outputs of an axis are made of pixels that are there, with weights for each.
bool is_axis(const PictureAxis& axis, const Operand& weights) {
  if (axis.max_taps < 1 || axis.max_taps > 4 * kMaxPictureSide || weights.dtype != DType::i32 ||
      weights.count() != axis.out * axis.max_taps)
    return false;
  for (int64_t i = 0; i < axis.out; ++i) {
    const auto word = static_cast<uint64_t>(axis.words[i]);
    const auto first = static_cast<int64_t>(word & 0xffffffff),
               count = static_cast<int64_t>(word >> 32);
    if (count < 1 || count > axis.max_taps || first + count > axis.in) return false;
  }
  return true;
}

int check_picture(const Step& s, const Failure& fail) {
  if (s.word_count < kPictureWords || (s.inputs != 2 && s.inputs != 4) || s.outputs != 1)
    return does_not_fit(s, fail);
  const Operand &x = s.in(0), &table = s.in(1), &y = s.out(0);
  if (x.dtype != DType::u8 || x.rank != 4 || !table.is_f32(2) || !y.is_f32(4) ||
      x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3] || x.dims[3] > kMaxPictureChannels ||
      table.dims[0] != x.dims[3] || table.dims[1] != 256)
    return does_not_fit(s, fail);
  for (const Operand* of : {&x, &y})
    if (of->dims[1] > kMaxPictureSide || of->dims[2] > kMaxPictureSide)
      return does_not_fit(s, fail);
  if (s.inputs == 2) {
    const bool is_same =
        s.word_count == kPictureWords && x.dims[1] == y.dims[1] && x.dims[2] == y.dims[2];
    return is_same ? BRIM_RT_OK : does_not_fit(s, fail);
  }
  if (s.word_count != kPictureWords + y.dims[1] + y.dims[2]) return does_not_fit(s, fail);
  const Pictures p = pictures_of(s);
  const bool fits = is_axis(p.rows, s.in(2)) && is_axis(p.columns, s.in(3)) &&
                    is_in_proportion(s, picture_scratch(p, 1));
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

size_t scratch_of_picture(const Step& s, Isa, int threads) {
  return picture_scratch(pictures_of(s), threads);
}

int run_picture(const Step& s, const Run& run, const Failure&) {
  prepare_pictures(run.isa, pictures_of(s), run.threads, run.scratch);
  return BRIM_RT_OK;
}

}  // namespace

const Op kPictureOp = {OpCode::picture, "picture", &check_picture, &scratch_of_picture,
                       &run_picture};

}  // namespace brim::rt
