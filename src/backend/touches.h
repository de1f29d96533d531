// The storages that an op uses, for who looks at work before it is queued.
#pragma once

#include <cstddef>

namespace brim::backend {

/// A storage that work uses.
struct Touch {
  const void* address = nullptr;  ///< of the storage on the device
  size_t bytes = 0;
  bool writes = false;
};

}  // namespace brim::backend
