// FNV-1a, the hash of Fowler, Noll and Vo: for telling things apart, not for security.
#pragma once

#include <cstdint>
#include <span>

namespace brim {

/// Adds numbers to a hash, each as one symbol.
class Fnv1a {
 public:
  void add(uint64_t symbol) { hash_ = (hash_ ^ symbol) * 0x100000001b3; }
  void add(std::span<const uint64_t> symbols) {
    for (const uint64_t symbol : symbols) add(symbol);
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace brim
