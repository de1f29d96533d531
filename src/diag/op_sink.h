// Where backends tell OpProfiles what they compute.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

namespace brim::diag {

struct OpCall {
  const char* name;  ///< lives as long as the process
  DType dtype = DType::f32;
  double operations = 0, bytes = 0;  ///< as in OpTime
};

/// Profiles that count now.
extern std::atomic<int> counting_op_profiles;
inline bool profiles_ops() { return counting_op_profiles.load(std::memory_order_relaxed) > 0; }

/// The device has computed this. `shapes`: asked for until it is not empty; may be null.
void op_ran(Device device, const OpCall& call, uint64_t ticks,
            const std::function<std::string()>& shapes = {});

}  // namespace brim::diag
