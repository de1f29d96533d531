// Runs of elements moved bit for bit: short ones inline, strided ones in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace brim::cpu {

/// memcpy of a few bytes without a call; of many with one.
inline void copy_short(void* to, const void* from, size_t bytes) {
  char* const y = static_cast<char*>(to);
  const char* const x = static_cast<const char*>(from);
  // The last piece overlaps the one before.
  const auto pieces = [&]<size_t kPiece>(std::integral_constant<size_t, kPiece>) {
    for (size_t i = 0; i + kPiece < bytes; i += kPiece) std::memcpy(y + i, x + i, kPiece);
    std::memcpy(y + bytes - kPiece, x + bytes - kPiece, kPiece);
  };
  if (bytes > 256)
    std::memcpy(y, x, bytes);
  else if (bytes >= 16)
    pieces(std::integral_constant<size_t, 16>());
  else if (bytes >= 8)
    pieces(std::integral_constant<size_t, 8>());
  else if (bytes >= 4)
    pieces(std::integral_constant<size_t, 4>());
  else
    for (size_t i = 0; i < bytes; ++i) y[i] = x[i];
}

/// to[i] = from[i * step] for i < n, whatever the step; elements of 1, 2, 4 or 8 bytes.
void gather_run(const uint8_t* from, int64_t step, uint8_t* to, int64_t n);
void gather_run(const uint16_t* from, int64_t step, uint16_t* to, int64_t n);
void gather_run(const uint32_t* from, int64_t step, uint32_t* to, int64_t n);
void gather_run(const uint64_t* from, int64_t step, uint64_t* to, int64_t n);

inline constexpr int64_t kShortRun = 16;  // elements that are not worth the call

/// The same, inline where it is short.
template <class T>
void gather_row(const T* from, int64_t step, T* to, int64_t n) {
  if (step == 1) return copy_short(to, from, static_cast<size_t>(n) * sizeof(T));
  if constexpr (sizeof(T) <= 8)
    if (n >= kShortRun) return gather_run(from, step, to, n);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

}  // namespace brim::cpu
