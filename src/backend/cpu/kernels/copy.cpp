// copy (with a cast between any two dtypes that ops compute with) and fill on the CPU.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <brim/formula/formula.h>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/runs.h"
#include "backend/cpu/elementwise/transpose.h"
#include "backend/kernel.h"
#include "backend/types.h"

namespace brim::cpu {
namespace {

template <class To, class From>
To cast(From v) {
  constexpr bool kSmallFrom = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  constexpr bool kSmallTo = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<To, From>)
    return v;
  else if constexpr (kSmallFrom)
    return cast<To>(static_cast<float>(v));
  else if constexpr (kSmallTo)
    return To(static_cast<float>(v));
  else
    return formula::converted<To>(v);
}

/// n dense elements.
template <class To, class From>
void cast_run(const From* from, To* to, int64_t n) {
  if constexpr (requires { convert_run(from, to, n); })
    convert_run(from, to, n);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = cast<To>(from[i]);
}

/// The same as a loop of elementwise kernels.
template <class To, class From>
void cast_loop(char* const* p, int64_t n, const formula::Params&) {
  cast_run(reinterpret_cast<const From*>(p[1]), reinterpret_cast<To*>(p[0]), n);
}

template <class T>
void move_run(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t n) {
  if (to_step == 1) return gather_row(from, from_step, to, n);
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

/// The dimension along which x is dense where the innermost one is dense in y alone, both being
/// long enough for tiles; else 0.
int transposed_dimension(const Loop<2>& loop) {
  constexpr int64_t kLong = 8;
  if (loop.stride[0][0] != 1 || loop.stride[1][0] <= 1 || loop.size[0] < kLong) return 0;
  for (int d = 1; d < loop.rank; ++d)
    if (loop.stride[1][d] == 1 && loop.size[d] >= kLong) return d;
  return 0;
}

/// Tile by tile of dimensions 0 and `d`.
template <class To, class From>
void copy_transposed(const Loop<2>& loop, int d, const From* x, To* y) {
  const int64_t x_row = loop.stride[1][0], y_row = loop.stride[0][d];
  for_each_tile(loop, d, [&](const std::array<int64_t, 2>& at, int64_t rows, int64_t columns) {
    const From* const from = x + at[1];
    To* const to = y + at[0];
    if constexpr (std::is_same_v<To, From>) {
      transpose_tile(from, x_row, rows, columns, to, y_row);
    } else {
      std::array<From, kTransposeTile * kTransposeTile> tile;
      transpose_tile(from, x_row, rows, columns, tile.data(), kTransposeTile);
      for (int64_t c = 0; c < columns; ++c)
        cast_run(tile.data() + c * kTransposeTile, to + c * y_row, rows);
    }
  });
}

/// Rows of two or three elements, say: across many of them at a time.
template <class T>
void move_across_rows(const Loop<2>& loop, const T* x, T* y) {
  constexpr int64_t kBlock = 256;  // rows that stay in the L1 cache
  Loop<2> rows;                    // the dimensions outside
  const int64_t size = loop.size[0];
  rows.rank = loop.rank - 1;
  rows.numel = loop.numel / size;
  std::copy_n(loop.size.begin() + 1, rows.rank, rows.size.begin());
  for (int k = 0; k < 2; ++k)
    std::copy_n(loop.stride[k].begin() + 1, rows.rank, rows.stride[k].begin());
  for_each_row(rows, kElementwiseGrain / size, [&](const std::array<int64_t, 2>& at, int64_t n) {
    const int64_t x_row = rows.stride[1][0], y_row = rows.stride[0][0];
    for (int64_t first = 0; first < n; first += kBlock)
      for (int64_t i = 0; i < size; ++i)
        move_run(x + at[1] + first * x_row + i * loop.stride[1][0], x_row,
                 y + at[0] + first * y_row + i * loop.stride[0][0], y_row,
                 std::min(kBlock, n - first));
  });
}

template <class T>
void move_rows(const Loop<2>& loop, const T* x, T* y) {
  constexpr int64_t kNarrow = 8, kBytes = 16;
  const int64_t sx = loop.stride[1][0], sy = loop.stride[0][0], size = loop.size[0];
  const bool dense = sx == 1 && sy == 1;
  if (size < kNarrow && loop.rank > 1 && loop.size[1] > size &&
      !(dense && size * static_cast<int64_t>(sizeof(T)) >= kBytes))
    return move_across_rows(loop, x, y);
  for_each_row(loop, kElementwiseGrain, [&](const std::array<int64_t, 2>& at, int64_t n) {
    move_run(x + at[1], sx, y + at[0], sy, n);
  });
}

template <class T>
void move_as(const Tensor& x, Tensor& y) {
  const Loop<2> loop = make_loop(y, x);
  const T* px = static_cast<const T*>(x.raw());
  T* py = static_cast<T*>(y.raw());
  if (const int d = transposed_dimension(loop)) return copy_transposed(loop, d, px, py);
  move_rows(loop, px, py);
}

template <class To, class From>
void cast_as(const Tensor& x, Tensor& y) {
  if constexpr (!std::is_same_v<To, From>) {  // which move_as() copies
    const Loop<2> loop = make_loop(y, x);
    if (const int d = transposed_dimension(loop))
      return copy_transposed(loop, d, static_cast<const From*>(x.raw()), static_cast<To*>(y.raw()));
    run_elementwise<2>(loop, {static_cast<char*>(y.raw()), static_cast<char*>(x.raw())},
                       {sizeof(To), sizeof(From)}, &cast_loop<To, From>, {});
  }
}

/// Within one dtype, and so in the one way for those that are stored only: bit for bit.
void copy_bits(const Context&, const Tensor& x, Tensor& y) {
  switch (size_of(x.dtype())) {
    case 1:
      return move_as<uint8_t>(x, y);
    case 2:
      return move_as<uint16_t>(x, y);
    case 4:
      return move_as<uint32_t>(x, y);
    case 8:
      return move_as<uint64_t>(x, y);
    default:
      using Wide = std::array<uint64_t, 2>;
      return move_as<Wide>(x, y);
  }
}

template <class To>
void copy(const Context& context, const Tensor& x, Tensor& y) {
  if (x.dtype() == y.dtype()) return copy_bits(context, x, y);
  switch (x.dtype()) {
    case DType::f32:
      return cast_as<To, float>(x, y);
    case DType::f64:
      return cast_as<To, double>(x, y);
    case DType::f16:
      return cast_as<To, Half>(x, y);
    case DType::bf16:
      return cast_as<To, BFloat16>(x, y);
    case DType::i64:
      return cast_as<To, int64_t>(x, y);
    case DType::i32:
      return cast_as<To, int32_t>(x, y);
    case DType::i8:
      return cast_as<To, int8_t>(x, y);
    case DType::u8:
      return cast_as<To, uint8_t>(x, y);
    case DType::bool_:
      return cast_as<To, bool>(x, y);
    default:
      backend::missing_kernel("to", DeviceKind::cpu, x.dtype());
  }
}

/// The first elements are copied on, by the C library's widest stores.
template <class T>
void fill_run(T* to, int64_t n, T value) {
  constexpr int64_t kFirst = 4096 / static_cast<int64_t>(sizeof(T));  // which stay in the L1 cache
  std::fill_n(to, std::min(n, kFirst), value);
  for (int64_t i = kFirst; i < n; i += kFirst)
    std::memcpy(to + i, to, static_cast<size_t>(std::min(kFirst, n - i)) * sizeof(T));
}

template <class T>
void fill(const Context&, Tensor& y, double value) {
  const T v = cast<T>(value);
  const Loop<1> loop = make_loop(y);
  T* py = static_cast<T*>(y.raw());
  const int64_t step = loop.stride[0][0];
  for_each_row(loop, kElementwiseGrain, [&](const std::array<int64_t, 1>& at, int64_t n) {
    T* to = py + at[0];
    if (step == 1)
      fill_run(to, n, v);
    else
      for (int64_t i = 0; i < n; ++i) to[i * step] = v;
  });
}

bool register_stored_only() {
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto dtype = static_cast<DType>(i); !is_computed(dtype))
      backend::register_kernel("copy", DeviceKind::cpu, dtype, &copy_bits);
  return true;
}

const bool registered =
    backend::for_each_type(
        backend::AllTypes{},
        []<class T>(std::type_identity<T>) {
          backend::register_kernel("copy", DeviceKind::cpu, dtype_of<T>, &copy<T>);
          backend::register_kernel("fill", DeviceKind::cpu, dtype_of<T>, &fill<T>);
        }) &&
    register_stored_only();

}  // namespace
}  // namespace brim::cpu
