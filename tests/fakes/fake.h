// What the fakes of NVIDIA's libraries share. They stand in for them over the emulation of CUDA:
// they check what they are asked for, compute it plainly, and note it for tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <brim/core/dtype.h>

#include "backend/cuda/emulation/fake_library.h"

namespace brim::fake {

inline const cuda::emulation::Machine* machine = nullptr;

/// What was asked for since the test last looked, a line each.
inline std::mutex mutex;
inline std::string calls, given;
inline void note(const std::string& line) {
  const std::lock_guard lock(mutex);
  calls += line + "\n";
}

/// Whether a test wants this call to fail, or that behaviour.
inline bool wanted(const char* what) {
  const char* names = std::getenv("BRIM_FAKE");
  return names &&
         (std::string(" ") + names + " ").find(std::string(" ") + what + " ") != std::string::npos;
}

/// Says what is wrong with a call; the caller returns an error.
inline bool wrong(const char* call, const std::string& why) {
  std::fprintf(stderr, "fake: %s: %s\n", call, why.c_str());
  return false;
}

template <class T>
double load(const void* data, int64_t at) {
  return static_cast<double>(static_cast<float>(static_cast<const T*>(data)[at]));
}
template <>
inline double load<double>(const void* data, int64_t at) {
  return static_cast<const double*>(data)[at];
}
template <class T>
void store(void* data, int64_t at, double value) {
  static_cast<T*>(data)[at] = static_cast<T>(static_cast<float>(value));
}
template <>
inline void store<double>(void* data, int64_t at, double value) {
  static_cast<double*>(data)[at] = value;
}

/// A number of f32 as TF32 has it: 10 bits after the point, rounded to nearest.
inline double to_tf32(double x) {
  auto value = static_cast<float>(x);
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000) == 0x7f800000) return x;
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff};
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}

/// Elements of a type, read and written as numbers.
struct Elements {
  int64_t size = 0;
  double (*load)(const void*, int64_t) = nullptr;
  void (*store)(void*, int64_t, double) = nullptr;

  template <class T>
  static Elements of() {
    return {sizeof(T), &fake::load<T>, &fake::store<T>};
  }
};

inline bool is_memory(const void* data, int64_t bytes) {
  return data && bytes >= 0 && machine->is_memory(data, static_cast<size_t>(bytes));
}
inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

}  // namespace brim::fake
