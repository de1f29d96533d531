// Sorting on the CPU. Every element becomes one unsigned number, its order-preserving key above its
// position, so equal keys keep their order and any sort is stable.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/sort_columns.h"
#include "backend/kernel.h"
#include "backend/options/sort_options.h"
#include "backend/types.h"

namespace brim::cpu {
namespace {

/// Unsigned keys that order as the values do: -inf .. -0 = 0 .. inf < NaN.
/// Without branches, which values without order would mislead.
template <class U, class F>
U float_key(F v) {
  constexpr int kTop = 8 * sizeof(U) - 1;
  const U bits = std::bit_cast<U>(v) & (U{0} - U{v != 0});  // -0 and 0 are equal
  const U negative = U{0} - (bits >> kTop);
  return (bits ^ (negative | (U{1} << kTop))) | (U{0} - U{v != v});
}
uint32_t key(float v) { return float_key<uint32_t>(v); }
uint64_t key(double v) { return float_key<uint64_t>(v); }
uint32_t key(Half v) { return key(static_cast<float>(v)); }
uint32_t key(BFloat16 v) { return key(static_cast<float>(v)); }
uint64_t key(int64_t v) { return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63); }
uint32_t key(int32_t v) { return static_cast<uint32_t>(v) ^ (uint32_t{1} << 31); }
uint32_t key(int8_t v) { return key(int32_t{v}); }
uint32_t key(uint8_t v) { return v; }
uint32_t key(bool v) { return v; }

/// The position is below so many bits of key.
template <class Packed>
constexpr int kShift = static_cast<int>(sizeof(Packed)) * 4;

/// Ascending, a digit of the keys after the other from the lowest one (a radix sort); `packed` must
/// come in order of positions. The result is there or in `other`, whichever is returned.
template <class Packed>
Packed* sort_by_digits(Packed* packed, Packed* other, int64_t n) {
  constexpr int kDigits = kShift<Packed> / 8, kValues = 256;
  const auto digit = [](Packed v, int d) {
    return static_cast<size_t>(v >> (kShift<Packed> + 8 * d)) % kValues;
  };
  std::array<std::array<uint32_t, kValues>, kDigits> begins{};  // counts at first
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++begins[d][digit(packed[i], d)];
  for (int d = 0; d < kDigits; ++d) {
    auto& begin = begins[d];
    if (begin[digit(packed[0], d)] == n) continue;  // all have the same
    uint32_t next = 0;
    for (uint32_t& at : begin) at = std::exchange(next, next + at);
    for (int64_t i = 0; i < n; ++i) other[begin[digit(packed[i], d)]++] = packed[i];
    std::swap(packed, other);
  }
  return packed;
}

/// Ascending; the result is in `packed` or in `other`, whichever is returned.
template <class Packed>
Packed* sort_packed(Packed* packed, Packed* other, int64_t n, bool by_position) {
  constexpr int64_t kMany = 512;
  if (n >= kMany && n < int64_t{UINT32_MAX} && by_position) return sort_by_digits(packed, other, n);
  std::sort(packed, packed + n);
  return packed;
}

constexpr int64_t kFew = 16;

/// Leaves the `count` smallest of make(0) .. make(n - 1), few, in `packed`, ascending.
template <class Packed, class Make>
void smallest_few(Packed* packed, int64_t count, int64_t n, const Make& make) {
  int64_t held = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Packed candidate = make(i);
    if (held == count && candidate > packed[count - 1]) continue;
    int64_t at = held < count ? held++ : count - 1;
    for (; at > 0 && packed[at - 1] > candidate; --at) packed[at] = packed[at - 1];
    packed[at] = candidate;
  }
}

/// Leaves the `count` smallest of make(0) .. make(n - 1) first in `packed`, in no order. Keeps some
/// more than that, and of the others only what is less than the greatest of them.
template <class Packed, class Make>
void smallest(Packed* packed, int64_t count, int64_t n, const Make& make) {
  const int64_t room = std::min(n, 2 * count + 64);
  const auto choose = [&](int64_t held) {
    if (held > count) std::nth_element(packed, packed + count - 1, packed + held);
  };
  int64_t held = 0;
  for (; held < room; ++held) packed[held] = make(held);
  choose(held);
  if (room == n) return;
  held = count;
  Packed limit = packed[count - 1];
  for (int64_t i = room; i < n; ++i) {
    const Packed candidate = make(i);
    if (candidate > limit) continue;
    packed[held++] = candidate;
    if (held < room) continue;
    choose(held);
    held = count;
    limit = packed[count - 1];
  }
  choose(held);
}

/// Lines of a few elements, a tile of them at a time: in vectors across the lines.
template <class T>
void sort_short_lines(const Tensor& x, Tensor& values, Tensor& indices, const Loop<2>& loop,
                      const backend::SortOptions& options) {
  const int64_t length = x.shape()[options.axis];
  const int64_t x_step = x.strides()[options.axis], y_step = values.strides()[options.axis];
  const T* px = static_cast<const T*>(x.raw());
  T* pv = static_cast<T*>(values.raw());
  int64_t* pi = static_cast<int64_t*>(indices.raw());
  parallel_for(loop.numel, 4096 / length, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kSortedLines * kFew> tile{};
    Cursor<2> cursor(loop, begin);
    for (; begin < end; begin += kSortedLines) {
      const int64_t lines = std::min(kSortedLines, end - begin);
      Cursor<2> to = cursor;
      for (int64_t line = 0; line < lines; ++line, cursor.advance(1)) {
        const T* from = px + cursor.at[1];
        for (int64_t i = 0; i < length; ++i) {
          const uint32_t k = key(from[i * x_step]) ^ (uint32_t{1} << 31);  // of signed order
          tile[i * kSortedLines + line] =
              static_cast<int64_t>(uint64_t{options.descending ? ~k : k} << 32) | i;
        }
      }
      sort_columns(tile.data(), length);
      for (int64_t line = 0; line < lines; ++line, to.advance(1))
        for (int64_t i = 0; i < options.count; ++i) {
          const int64_t at = tile[i * kSortedLines + line] & UINT32_MAX;
          pv[to.at[0] + i * y_step] = px[to.at[1] + at * x_step];
          pi[to.at[0] + i * y_step] = at;
        }
    }
  });
}

/// Packed: the key above kShift bits of position.
template <class T, class Packed>
void sort_lines(const Context& context, const Tensor& x, Tensor& values, Tensor& indices,
                const backend::SortOptions& options) {
  using Key = decltype(key(T{}));
  const int64_t length = x.shape()[options.axis], count = options.count;
  Shape lines = x.shape();
  lines[options.axis] = 1;
  const Loop<2> loop = make_loop<2>(lines, {values.strides(), x.strides()});
  if (loop.numel == 0 || count == 0) return;
  if constexpr (sizeof(Key) == 4)
    if (length <= kFew) return sort_short_lines<T>(x, values, indices, loop, options);
  const int64_t x_step = x.strides()[options.axis], y_step = values.strides()[options.axis];
  const T* px = static_cast<const T*>(x.raw());
  T* pv = static_cast<T*>(values.raw());
  int64_t* pi = static_cast<int64_t*>(indices.raw());
  const int64_t grain = std::max<int64_t>(1, 4096 / length);
  const int64_t parts = std::clamp<int64_t>(loop.numel / grain, 1, num_threads());
  const Workspace workspace =
      context.workspace(static_cast<size_t>(parts * 2 * length) * sizeof(Packed));
  parallel_for(parts, 1, [&](int64_t first_part, int64_t last_part) {
    for (int64_t part = first_part; part < last_part; ++part) {
      Packed* const packed = workspace.as<Packed>() + part * 2 * length;
      const int64_t end = loop.numel * (part + 1) / parts;
      Cursor<2> cursor(loop, loop.numel * part / parts);
      for (int64_t line = loop.numel * part / parts; line < end; ++line, cursor.advance(1)) {
        const T* from = px + cursor.at[1];
        const auto pack = [&](int64_t i) {
          const Key k = key(from[i * x_step]);
          return (Packed{options.descending ? static_cast<Key>(~k) : k} << kShift<Packed>) |
                 static_cast<Packed>(i);
        };
        const Packed* chosen = packed;
        if (count == length) {
          for (int64_t i = 0; i < length; ++i) packed[i] = pack(i);
          chosen = sort_packed(packed, packed + length, count, true);
        } else if (count <= kFew) {
          smallest_few(packed, count, length, pack);
        } else {
          smallest(packed, count, length, pack);
          if (options.in_order) chosen = sort_packed(packed, packed + length, count, false);
        }
        T* const value = pv + cursor.at[0];
        int64_t* const index = pi + cursor.at[0];
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = static_cast<int64_t>(chosen[i] & ((Packed{1} << kShift<Packed>)-1));
          value[i * y_step] = from[at * x_step];
          index[i * y_step] = at;
        }
      }
    }
  });
}

template <class T>
void sort(const Context& context, const Tensor& x, Tensor& values, Tensor& indices,
          const backend::SortOptions& options) {
  if constexpr (sizeof(key(T{})) == 4)
    if (x.shape()[options.axis] <= int64_t{UINT32_MAX})
      return sort_lines<T, uint64_t>(context, x, values, indices, options);
  sort_lines<T, unsigned __int128>(context, x, values, indices, options);
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("sort", DeviceKind::cpu, dtype_of<T>, &sort<T>);
    });

}  // namespace
}  // namespace brim::cpu
