// A value that one thread writes now and then and others read whenever they like.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

namespace brim {

/// The writer never waits. A reader that meets a write reads again, so what it returns was written
/// at once (a sequence lock; Boehm, "Can seqlocks get along with programming language memory
/// models?", 2012).
template <class T>
class Latest {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Latest() { write(T{}); }

  /// By one thread at a time.
  void write(const T& value) {
    Words words{};
    std::memcpy(words.data(), &value, sizeof(T));
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);  // odd: being written
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  T read() const {
    Words words;
    while (true) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
      std::this_thread::yield();
    }
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof(T));
    return value;
  }

 private:
  static constexpr size_t kWords = (sizeof(T) + 7) / 8;
  using Words = std::array<uint64_t, kWords>;

  std::atomic<uint64_t> version_{0};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace brim
