// Elements that move: transposed, sliced, repeated, joined, or looked up.
#include "rt/step.h"

#include "rt/attributes.h"

namespace brim::rt {
namespace {

/// Whether a walk of that many steps along each axis stays within [0, count).
bool stays_within(const int64_t* sizes, const int64_t* strides, int64_t begin, int64_t count) {
  __int128 low = begin, high = begin;
  for (int i = 0; i < kMaxRank; ++i) {
    const __int128 reach = static_cast<__int128>(sizes[i] - 1) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < count;
}

int check_copy(const Step& s, const Failure& fail) {
  if (!s.has_attributes<CopyAttributes>() || s.inputs != 1 || s.outputs != 1 ||
      s.in(0).dtype != s.out(0).dtype)
    return does_not_fit(s, fail);
  const auto a = s.attributes<CopyAttributes>();
  int64_t count = 1;
  for (const int64_t size : a.sizes)
    if (size < 1 || __builtin_mul_overflow(count, size, &count)) return does_not_fit(s, fail);
  if (count > s.out(0).count() || !stays_within(a.sizes, a.strides_x, a.begin_x, s.in(0).count()) ||
      !stays_within(a.sizes, a.strides_y, a.begin_y, s.out(0).count()))
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

/// Two innermost axes; a damaged file may have x and y overlap. In blocks where neither x nor y is
/// walked through step by step.
template <class T>
void copy_matrix(const T* x, int64_t row_x, int64_t step_x, T* y, int64_t row_y, int64_t step_y,
                 int64_t rows, int64_t columns) {
  if (step_x == 1 && step_y == 1) {
    for (int64_t r = 0; r < rows; ++r)
      std::memmove(y + r * row_y, x + r * row_x, static_cast<size_t>(columns) * sizeof(T));
    return;
  }
  if (columns == 3 && step_y == 1) {  // of images' colours
    for (int64_t r = 0; r < rows; ++r, x += row_x, y += row_y) {
      const T first = x[0], second = x[step_x], third = x[2 * step_x];
      y[0] = first;
      y[1] = second;
      y[2] = third;
    }
    return;
  }
  constexpr int64_t kBlock = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      const int64_t r1 = r0 + kBlock < rows ? r0 + kBlock : rows;
      const int64_t c1 = c0 + kBlock < columns ? c0 + kBlock : columns;
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) y[r * row_y + c * step_y] = x[r * row_x + c * step_x];
    }
}

template <class T>
void copy_elements(const Step& s, const Run& run) {
  const auto a = s.attributes<CopyAttributes>();
  const T* const x = s.in(0).as<T>() + a.begin_x;
  T* const y = s.out(0).as<T>() + a.begin_y;
  constexpr int kOuter = kMaxRank - 2;
  int64_t matrices = 1;
  for (int i = 0; i < kOuter; ++i) matrices *= a.sizes[i];
  const int64_t rows = a.sizes[kOuter], columns = a.sizes[kOuter + 1];
  constexpr int64_t kWorth = int64_t{1} << 15;  // elements that are worth a thread
  // Threads take rows of all matrices.
  parallel_parts(run.threads, matrices * rows, (kWorth + columns - 1) / columns,
                 [&](int64_t, int64_t begin, int64_t end) {
                   while (begin < end) {
                     const int64_t matrix = begin / rows, first = begin % rows;
                     const int64_t count = end - begin < rows - first ? end - begin : rows - first;
                     int64_t at_x = first * a.strides_x[kOuter], at_y = first * a.strides_y[kOuter];
                     for (int64_t i = kOuter - 1, rest = matrix; i >= 0; --i) {
                       at_x += rest % a.sizes[i] * a.strides_x[i];
                       at_y += rest % a.sizes[i] * a.strides_y[i];
                       rest /= a.sizes[i];
                     }
                     copy_matrix(x + at_x, a.strides_x[kOuter], a.strides_x[kOuter + 1], y + at_y,
                                 a.strides_y[kOuter], a.strides_y[kOuter + 1], count, columns);
                     begin += count;
                   }
                 });
}

int run_copy(const Step& s, const Run& run, const Failure&) {
  switch (s.in(0).dtype) {
    case DType::f32:
    case DType::i32:
      copy_elements<uint32_t>(s, run);
      break;
    case DType::i64:
      copy_elements<uint64_t>(s, run);
      break;
    case DType::u8:
      copy_elements<uint8_t>(s, run);
      break;
  }
  return BRIM_RT_OK;
}

struct Lookup {
  int64_t outer = 1, size = 0, inner = 1;
};

bool lookup_of(const Step& s, Lookup& lookup) {
  const Operand& x = s.in(0);
  const int64_t axis = s.attributes<GatherAttributes>().axis;
  if (axis < 0 || axis >= x.rank) return false;
  for (int i = 0; i < x.rank; ++i)
    (i < axis    ? lookup.outer
     : i == axis ? lookup.size
                 : lookup.inner) =
        i == axis ? x.dims[i] : (i < axis ? lookup.outer : lookup.inner) * x.dims[i];
  return true;
}

int check_gather(const Step& s, const Failure& fail) {
  Lookup l;
  if (!s.has_attributes<GatherAttributes>() || s.inputs != 2 || s.outputs != 1 ||
      s.in(0).dtype != s.out(0).dtype || s.in(1).dtype != DType::i64 || !lookup_of(s, l))
    return does_not_fit(s, fail);
  int64_t count = l.outer;
  if (__builtin_mul_overflow(count, s.in(1).count(), &count) ||
      __builtin_mul_overflow(count, l.inner, &count) || count != s.out(0).count())
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int run_gather(const Step& s, const Run&, const Failure& fail) {
  Lookup l;
  lookup_of(s, l);
  const auto* const ids = s.in(1).as<int64_t>();
  const int64_t count = s.in(1).count();
  const size_t bytes = static_cast<size_t>(l.inner) * size_of(s.in(0).dtype);
  char* to = s.out(0).data;
  for (int64_t o = 0; o < l.outer; ++o)
    for (int64_t i = 0; i < count; ++i, to += bytes) {
      const int64_t id = ids[i];  // read once: in a damaged file y may lie over the indices
      if (id < -l.size || id >= l.size)
        return fail(BRIM_RT_INVALID_ARGUMENT, "%s: index %lld is not below %lld", s.name,
                    static_cast<long long>(id), static_cast<long long>(l.size));
      const int64_t at = o * l.size + (id < 0 ? id + l.size : id);
      std::memmove(to, s.in(0).data + static_cast<size_t>(at) * bytes, bytes);
    }
  return BRIM_RT_OK;
}

}  // namespace

const Op kCopyOp = {OpCode::copy, "copy", &check_copy, nullptr, &run_copy};
const Op kGatherOp = {OpCode::gather, "gather", &check_gather, nullptr, &run_gather};

}  // namespace brim::rt
