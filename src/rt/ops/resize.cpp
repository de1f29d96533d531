// Images at other sizes: the pixels that a file names are looked at once, before any is read.
#include "rt/kernels/resize.h"

#include "rt/step.h"

namespace brim::rt {
namespace {

/// Inputs of an axis: the pixel before each of y, and the share of the one after it.
bool has_taps(const Step& s, int input, int64_t count) {
  const Operand &before = s.in(input), &share = s.in(input + 1);
  return before.dtype == DType::i64 && before.count() == count && share.dtype == DType::f32 &&
         share.count() == count;
}

int check_resize(const Step& s, const Failure& fail) {
  if (s.word_count != 0 || s.inputs != 5 || s.outputs != 1) return does_not_fit(s, fail);
  const Operand &x = s.in(0), &y = s.out(0);
  const bool fits = x.is_f32(4) && y.is_f32(4) && x.dims[0] == y.dims[0] &&
                    x.dims[3] == y.dims[3] && has_taps(s, 1, y.dims[1]) &&
                    has_taps(s, 3, y.dims[2]);
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

size_t tap_count(const Step& s) {
  return static_cast<size_t>(s.out(0).dims[1]) + static_cast<size_t>(s.out(0).dims[2]);
}

/// A row of x for each thread, of which no more work than there are rows of y.
size_t scratch_of_resize(const Step& s, Isa, int threads) {
  const Operand &x = s.in(0), &y = s.out(0);
  const int64_t rows = y.dims[0] * y.dims[1];
  return tap_count(s) * sizeof(ResizeTap) +
         static_cast<size_t>((rows < threads ? rows : threads) * x.dims[2] * x.dims[3]) *
             sizeof(float);
}

/// Of an axis of `size` pixels; false where one is beyond it.
bool fill_taps(const Step& s, int input, int64_t size, int64_t count, ResizeTap* taps) {
  const auto* const before = s.in(input).as<int64_t>();
  const auto* const share = s.in(input + 1).as<float>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = before[i];
    const float part = share[i];
    if (at < 0 || at >= size) return false;
    taps[i] = {at, at + 1 < size ? at + 1 : at, 1 - part, part};
  }
  return true;
}

int run_resize(const Step& s, const Run& run, const Failure& fail) {
  const Operand &x = s.in(0), &y = s.out(0);
  auto* const rows = static_cast<ResizeTap*>(run.scratch);
  auto* const columns = rows + y.dims[1];
  if (!fill_taps(s, 1, x.dims[1], y.dims[1], rows) ||
      !fill_taps(s, 3, x.dims[2], y.dims[2], columns))
    return fail(BRIM_RT_INVALID_ARGUMENT, "%s: a pixel beyond the image", s.name);
  resize(run.isa,
         {.n = x.dims[0],
          .h = x.dims[1],
          .w = x.dims[2],
          .c = x.dims[3],
          .oh = y.dims[1],
          .ow = y.dims[2],
          .x = x.as<float>(),
          .rows = rows,
          .columns = columns,
          .y = y.as<float>()},
         run.threads, reinterpret_cast<float*>(columns + y.dims[2]));
  return BRIM_RT_OK;
}

}  // namespace

const Op kResizeOp = {OpCode::resize, "resize", &check_resize, &scratch_of_resize, &run_resize};

}  // namespace brim::rt
