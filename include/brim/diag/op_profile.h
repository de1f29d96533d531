// Which kernels the time of a device goes to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

namespace brim::diag {

/// Calls of one kernel that have the same dtype, operations and bytes.
struct OpTime {
  std::string name;          ///< the op's, on cuda the kernel's
  DType dtype = DType::f32;  ///< of its tensors
  std::string shapes;        ///< of the tensors of the first such call
  double operations = 0;     ///< multiplications and additions of a call
  double bytes = 0;          ///< of its operands, each counted once; 0: neither is known
  int64_t calls = 0;         ///< how often it ran
  double seconds = 0;        ///< of all calls
};

/// Counts what a device computes between start() and stop(). What is not the step's (Scope:
/// evaluation, checkpoints, compilation) is left out. On cuda it reads the records of kernels, so
/// something else must have them taken: an Accountant, and a Trace or NodeDetail for kernels inside
/// of CUDA graphs. Names and times are all that is known there.
class OpProfile {
 public:
  /// Stopped.
  explicit OpProfile(Device device);
  ~OpProfile();
  OpProfile(const OpProfile&) = delete;
  OpProfile& operator=(const OpProfile&) = delete;

  void start();  ///< from now on what is computed is noted
  void stop();   ///< until now
  /// Of all stretches so far, the dearest first. For any thread.
  std::vector<OpTime> read() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace brim::diag
