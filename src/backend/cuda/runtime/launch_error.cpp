#include "backend/cuda/runtime/launch_error.h"

#include "core/check.h"

namespace brim::cuda {

void cannot_launch(const char* kernel, const char* why) {
  raise<NotImplemented>("[{}] {}", kernel, why);
}

}  // namespace brim::cuda
