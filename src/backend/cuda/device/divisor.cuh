// Division by numbers that are known before a kernel starts. A GPU has no instruction for it:
// 64-bit numbers take it a hundred instructions, 32-bit ones twenty, a multiplication and a shift
// three.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace brim::cuda {

/// The most that kernels count in 32 bits, with room for the last step of a loop. Low in the
/// emulation, where small tensors test the code for large ones, too.
#if defined(__CUDACC__)
constexpr int64_t kMaxIn32Bits = std::numeric_limits<int32_t>::max() - 4096;
#else
constexpr int64_t kMaxIn32Bits = 20000;
#endif

/// Whether a tensor of these sizes and strides, in elements, and any position of it, can be counted
/// in 32 bits.
inline bool fits_32_bits(std::initializer_list<int64_t> sizes,
                         std::initializer_list<int64_t> strides) {
  int64_t reach = 0, count = 1;
  const int64_t* stride = strides.begin();
  for (const int64_t size : sizes) {
    int64_t further = 0;
    if (__builtin_mul_overflow(count, size, &count)) return false;
    if (size > 1 && __builtin_mul_overflow(size - 1, *stride, &further)) return false;
    if (__builtin_add_overflow(reach, further, &reach)) return false;
    ++stride;
  }
  return reach <= kMaxIn32Bits && count <= kMaxIn32Bits;
}

/// Division of numbers below 2^31 by a constant, 1 or more (Granlund and Montgomery, 1994).
struct Divisor {
  uint32_t divisor = 1, factor = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(uint32_t d) : divisor(d), shift(std::bit_width(d - 1)) {
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t quotient(uint32_t n) const {
    return (static_cast<uint32_t>((static_cast<uint64_t>(n) * factor) >> 32) + n) >> shift;
  }
};

/// Division of positions of type Index, 0 or more: a Divisor where that has 32 bits. Of a size 0
/// there are no positions to divide.
template <class Index>
struct DivideBy;
template <>
struct DivideBy<int32_t> {
  Divisor by;

  explicit DivideBy(int64_t d) : by(static_cast<uint32_t>(std::max<int64_t>(d, 1))) {}
  __device__ int32_t size() const { return static_cast<int32_t>(by.divisor); }
  __device__ int32_t quotient(int32_t n) const {
    return static_cast<int32_t>(by.quotient(static_cast<uint32_t>(n)));
  }
};
template <>
struct DivideBy<int64_t> {
  int64_t divisor;

  explicit DivideBy(int64_t d) : divisor(std::max<int64_t>(d, 1)) {}
  __device__ int64_t size() const { return divisor; }
  __device__ int64_t quotient(int64_t n) const { return n / divisor; }
};

/// Division of positions in `count` elements, however many these are.
class CountDivisor {
 public:
  CountDivisor(int64_t d, int64_t count)
      : small_(count <= kMaxIn32Bits && d <= count), divisor_(d) {
    if (small_) by_ = Divisor(static_cast<uint32_t>(std::max<int64_t>(d, 1)));
  }
  __device__ int64_t quotient(int64_t n) const {
    return small_ ? int64_t{by_.quotient(static_cast<uint32_t>(n))} : n / divisor_;
  }
  __device__ int64_t divisor() const { return divisor_; }
  __device__ int64_t rest(int64_t n, int64_t quotient) const { return n - quotient * divisor_; }

 private:
  bool small_;
  int64_t divisor_;
  Divisor by_;
};

/// n as a quotient and what is left of it.
template <class Index>
struct Split {
  Index quotient, rest;
  __device__ Split(Index n, const DivideBy<Index>& by)
      : quotient(by.quotient(n)), rest(n - quotient * by.size()) {}
};

}  // namespace brim::cuda
