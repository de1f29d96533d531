// copy (with a cast between any two dtypes that ops compute with) and fill on the CPU.
#include <array>
#include <cstring>
#include <type_traits>

#include <brim/formula/formula.h>

#include "backend/cpu/elementwise/convert16.h"
#include "backend/cpu/elementwise/loop.h"
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

/// n elements with steps between them.
template <class To, class From>
void copy_run(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t n) {
  if (from_step == 1 && to_step == 1) {
    if constexpr (std::is_same_v<To, From>)
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
    else if constexpr (requires { convert_run(from, to, n); })
      convert_run(from, to, n);
    else
      for (int64_t i = 0; i < n; ++i) to[i] = cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = cast<To>(from[i * from_step]);
  }
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
        copy_run(tile.data() + c * kTransposeTile, 1, to + c * y_row, 1, rows);
    }
  });
}

template <class To, class From>
void copy_as(const Tensor& x, Tensor& y) {
  const Loop<2> loop = make_loop(y, x);
  const From* px = static_cast<const From*>(x.raw());
  To* py = static_cast<To*>(y.raw());
  if (const int d = transposed_dimension(loop)) return copy_transposed(loop, d, px, py);
  const int64_t sx = loop.stride[1][0], sy = loop.stride[0][0];
  for_each_row(loop, kElementwiseGrain, [&](const std::array<int64_t, 2>& at, int64_t n) {
    copy_run(px + at[1], sx, py + at[0], sy, n);
  });
}

/// Within one dtype, and so in the one way for those that are stored only: bit for bit.
void copy_bits(const Context&, const Tensor& x, Tensor& y) {
  switch (size_of(x.dtype())) {
    case 1:
      return copy_as<uint8_t, uint8_t>(x, y);
    case 2:
      return copy_as<uint16_t, uint16_t>(x, y);
    case 4:
      return copy_as<uint32_t, uint32_t>(x, y);
    case 8:
      return copy_as<uint64_t, uint64_t>(x, y);
    default:
      using Wide = std::array<uint64_t, 2>;
      return copy_as<Wide, Wide>(x, y);
  }
}

template <class To>
void copy(const Context& context, const Tensor& x, Tensor& y) {
  if (x.dtype() == y.dtype()) return copy_bits(context, x, y);
  switch (x.dtype()) {
    case DType::f32:
      return copy_as<To, float>(x, y);
    case DType::f64:
      return copy_as<To, double>(x, y);
    case DType::f16:
      return copy_as<To, Half>(x, y);
    case DType::bf16:
      return copy_as<To, BFloat16>(x, y);
    case DType::i64:
      return copy_as<To, int64_t>(x, y);
    case DType::i32:
      return copy_as<To, int32_t>(x, y);
    case DType::i8:
      return copy_as<To, int8_t>(x, y);
    case DType::u8:
      return copy_as<To, uint8_t>(x, y);
    case DType::bool_:
      return copy_as<To, bool>(x, y);
    default:
      backend::missing_kernel("to", DeviceKind::cpu, x.dtype());
  }
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
      std::fill_n(to, n, v);
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
