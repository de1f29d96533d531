#include <brim/core/denormals.h>

#include "core/float_mode.h"

namespace brim {

bool set_flush_denormals(bool on) {
  set_float_mode(on ? float_mode() | kFlushMode : float_mode() & ~kFlushMode);
  return kFlushMode != 0;
}

bool flush_denormals() { return kFlushMode != 0 && (float_mode() & kFlushMode) == kFlushMode; }

}  // namespace brim
