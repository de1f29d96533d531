// Sorting on the CPU. Every element becomes one unsigned number, its order-preserving key above its
// position, so equal keys keep their order and any sort is stable.
#include <algorithm>
#include <bit>

#include "backend/cpu/elementwise/loop.h"
#include "backend/kernel.h"
#include "backend/options/sort_options.h"
#include "backend/types.h"

namespace brim::cpu {
namespace {

/// Unsigned keys that order as the values do: -inf .. -0 = 0 .. inf < NaN.
template <class U, class F>
U float_key(F v) {
  if (v != v) return ~U{0};
  if (v == 0) v = 0;  // -0 and 0 are equal
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  const U bits = std::bit_cast<U>(v);
  return bits & kSign ? ~bits : bits | kSign;
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

/// Packed: the key above kShift bits of position.
template <class T, class Packed>
void sort_lines(const Context& context, const Tensor& x, Tensor& values, Tensor& indices,
                const backend::SortOptions& options) {
  using Key = decltype(key(T{}));
  constexpr int kShift = static_cast<int>(sizeof(Packed)) * 4;
  const int64_t length = x.shape()[options.axis], count = options.count;
  Shape lines = x.shape();
  lines[options.axis] = 1;
  const Loop<2> loop = make_loop<2>(lines, {values.strides(), x.strides()});
  if (loop.numel == 0 || count == 0) return;
  const int64_t x_step = x.strides()[options.axis], y_step = values.strides()[options.axis];
  const T* px = static_cast<const T*>(x.raw());
  T* pv = static_cast<T*>(values.raw());
  int64_t* pi = static_cast<int64_t*>(indices.raw());
  const int64_t grain = std::max<int64_t>(1, 4096 / length);
  const int64_t parts = std::clamp<int64_t>(loop.numel / grain, 1, num_threads());
  const Workspace workspace =
      context.workspace(static_cast<size_t>(parts * length) * sizeof(Packed));
  parallel_for(parts, 1, [&](int64_t first_part, int64_t last_part) {
    for (int64_t part = first_part; part < last_part; ++part) {
      Packed* packed = workspace.as<Packed>() + part * length;
      const int64_t end = loop.numel * (part + 1) / parts;
      for (int64_t line = loop.numel * part / parts; line < end; ++line) {
        const auto at = loop.offsets(line);
        for (int64_t i = 0; i < length; ++i) {
          const Key k = key(px[at[1] + i * x_step]);
          packed[i] = (Packed{options.descending ? static_cast<Key>(~k) : k} << kShift) |
                      static_cast<Packed>(i);
        }
        if (count < length) std::nth_element(packed, packed + count - 1, packed + length);
        if (options.in_order) std::sort(packed, packed + count);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t from = static_cast<int64_t>(packed[i] & ((Packed{1} << kShift) - 1));
          pv[at[0] + i * y_step] = px[at[1] + from * x_step];
          pi[at[0] + i * y_step] = from;
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
