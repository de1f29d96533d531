// Random whole numbers and permutations on the CPU. Elements are independent of each other, so any
// split over threads gives the same values.
#include <algorithm>

#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "backend/options/random_range.h"
#include "formula/philox.h"

namespace brim::cpu {
namespace {

using backend::Drawn;

constexpr int64_t kGrain = 2048;  // elements

template <class T>
void randint(const Context&, Tensor& y, const RandomKey& key, int64_t low, int64_t high) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  T* out = static_cast<T*>(y.raw());
  parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // The high half of a 128-bit product maps 64 random bits to the range.
      using Wide = unsigned __int128;
      const Wide product = Wide{formula::random_bits(key, static_cast<uint64_t>(i))} * range;
      const int64_t v =
          static_cast<int64_t>(static_cast<uint64_t>(low) + static_cast<uint64_t>(product >> 64));
      if constexpr (std::is_integral_v<T>)
        out[i] = static_cast<T>(v);
      else
        out[i] = static_cast<T>(static_cast<Drawn<T>>(v));
    }
  });
}

/// Sorts 0..n-1 by random keys: a backend with a parallel sort gets the same permutation.
template <class T>
void randperm(const Context& context, Tensor& y, const RandomKey& key) {
  struct Entry {
    uint64_t bits;
    int64_t index;
  };
  const int64_t n = y.numel();
  const Workspace workspace = context.workspace(static_cast<size_t>(n) * sizeof(Entry));
  Entry* entries = workspace.as<Entry>();
  for (int64_t i = 0; i < n; ++i)
    entries[i] = {formula::random_bits(key, static_cast<uint64_t>(i)), i};
  std::sort(entries, entries + n, [](const Entry& a, const Entry& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.index < b.index;
  });
  T* out = static_cast<T*>(y.raw());
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(entries[i].index);
}

template <class... T>
bool register_integers() {
  (backend::register_kernel("randint", DeviceKind::cpu, dtype_of<T>, &randint<T>), ...);
  return true;
}

const bool registered =
    register_integers<float, double, Half, BFloat16, int64_t, int32_t, int8_t, uint8_t, bool>() &&
    backend::register_kernel("randperm", DeviceKind::cpu, DType::i64, &randperm<int64_t>) &&
    backend::register_kernel("randperm", DeviceKind::cpu, DType::i32, &randperm<int32_t>);

}  // namespace
}  // namespace brim::cpu
