// An engine's bytes, opened by the runtime: verified and timed before they are a file.
#pragma once

#include <cstdint>
#include <string>

#include <brim_rt.hpp>

namespace brim::deploy {

/// Throws ValueError where the bytes cannot be run.
class OpenedEngine {
 public:
  /// `threads` of its sessions; 0: one for each core.
  OpenedEngine(const std::string& bytes, int threads);

  struct Verified {
    double difference;  ///< of the outputs of samples, the largest
    int64_t bytes;      ///< that the session takes
  };
  Verified verify(int64_t batch) const;
  /// Of a run: the shortest of some.
  double seconds(int64_t batch) const;

 private:
  /// Aligned as the runtime wants it.
  class Copy {
   public:
    explicit Copy(const std::string& bytes);
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    const void* data() const { return data_; }

   private:
    void* data_;
  };
  brim_rt::Session session(int64_t batch) const;

  Copy file_;
  int threads_;
  brim_rt::Model model_;
};

}  // namespace brim::deploy
