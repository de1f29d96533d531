// Random numbers on the CPU. Blocks of the counter are independent, so any split over threads
// gives the same values.
#include <algorithm>

#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "backend/options/random_range.h"
#include "core/check.h"
#include "formula/philox.h"

namespace brim::cpu {
namespace {

using backend::Drawn;
using formula::kPerBlock;
using formula::Params;

constexpr int64_t kGrain = 2048;  // blocks

/// y[i] = finish(element i), where block(key, j, out) makes the elements of block j.
template <class T, class Block, class Finish>
void fill_blocks(Tensor& y, const RandomKey& key, const Block& block, const Finish& finish) {
  using D = Drawn<T>;
  constexpr int kCount = kPerBlock<D>;
  T* out = static_cast<T*>(y.raw());
  const int64_t n = y.numel();
  parallel_for((n + kCount - 1) / kCount, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      D drawn[kCount];
      block(key, static_cast<uint64_t>(j), drawn);
      const int64_t at = j * kCount, count = std::min<int64_t>(kCount, n - at);
      for (int64_t i = 0; i < count; ++i) out[at + i] = finish(at + i, drawn[i]);
    }
  });
}

template <class T>
void uniform(const Context&, Tensor& y, const RandomKey& key, const Params& p) {
  using D = Drawn<T>;
  const double low = p.a, width = p.b - p.a;
  const T last = backend::UniformRange<T>(p.a, p.b).last;
  fill_blocks<T>(y, key, formula::uniform_block<D>, [=](int64_t, D u) {
    const T v = static_cast<T>(static_cast<D>(low + static_cast<double>(u) * width));
    return static_cast<D>(v) > static_cast<D>(last) ? last : v;
  });
}

template <class T>
void normal(const Context&, Tensor& y, const RandomKey& key, const Params& p) {
  using D = Drawn<T>;
  fill_blocks<T>(y, key, formula::normal_block<D>, [p](int64_t, D v) {
    return static_cast<T>(static_cast<D>(p.a + p.b * static_cast<double>(v)));
  });
}

template <class T>
void bernoulli(const Context&, const Tensor& p, Tensor& y, const RandomKey& key) {
  using D = Drawn<T>;
  const T* probability = static_cast<const T*>(p.raw());
  for (int64_t i = 0; i < p.numel(); ++i) {
    const D v = static_cast<D>(probability[i]);
    BRIM_CHECK(v >= 0 && v <= 1, ValueError,
               "[bernoulli] probability {} of element {} is not in [0, 1]", v, i);
  }
  fill_blocks<T>(y, key, formula::uniform_block<D>, [=](int64_t i, D u) {
    return static_cast<T>(u < static_cast<D>(probability[i]) ? 1.0f : 0.0f);
  });
}

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
bool register_floating() {
  (backend::register_kernel("uniform", DeviceKind::cpu, dtype_of<T>, &uniform<T>), ...);
  (backend::register_kernel("normal", DeviceKind::cpu, dtype_of<T>, &normal<T>), ...);
  (backend::register_kernel("bernoulli", DeviceKind::cpu, dtype_of<T>, &bernoulli<T>), ...);
  return true;
}

template <class... T>
bool register_integers() {
  (backend::register_kernel("randint", DeviceKind::cpu, dtype_of<T>, &randint<T>), ...);
  return true;
}

const bool registered =
    register_floating<float, double, Half, BFloat16>() &&
    register_integers<float, double, Half, BFloat16, int64_t, int32_t, int8_t, uint8_t, bool>() &&
    backend::register_kernel("randperm", DeviceKind::cpu, DType::i64, &randperm<int64_t>) &&
    backend::register_kernel("randperm", DeviceKind::cpu, DType::i32, &randperm<int32_t>);

}  // namespace
}  // namespace brim::cpu
