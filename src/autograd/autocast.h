// What ops and plans need of Autocast.
#pragma once

#include <memory>

#include <brim/autograd/autocast.h>
#include <brim/core/tensor.h>

namespace brim::autograd {

/// f32: off.
extern thread_local constinit DType autocast_dtype [[gnu::tls_model("initial-exec")]];

inline bool autocasting() { return autocast_dtype != DType::f32; }

/// Off in this scope; casts that are kept stay.
class AutocastPause {
 public:
  AutocastPause() : paused_(autocast_dtype) { autocast_dtype = DType::f32; }
  ~AutocastPause() { autocast_dtype = paused_; }
  AutocastPause(const AutocastPause&) = delete;
  AutocastPause& operator=(const AutocastPause&) = delete;

 private:
  DType paused_;
};

/// `x` in the scope's dtype, if it is a float of at most 32 bits, else itself.
Tensor autocast_low(const Tensor& x);
/// `x` in f32, if it is a float of 16 bits, else itself. Both take undefined tensors.
Tensor autocast_wide(const Tensor& x);

struct KeptCasts;
/// Sets the kept casts aside: what a recording makes is not there outside of it, and the other way
/// round it would be a constant.
class OwnCasts {
 public:
  OwnCasts();
  ~OwnCasts();
  OwnCasts(const OwnCasts&) = delete;
  OwnCasts& operator=(const OwnCasts&) = delete;
  /// Forgets this thread's.
  static void drop();

 private:
  std::unique_ptr<KeptCasts> aside_;
};

}  // namespace brim::autograd
