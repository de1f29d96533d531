// The calling thread's number, as Linux tells it apart.
#pragma once

#include <unistd.h>

namespace brim {

/// gettid(), asked for once.
inline int thread_id() {
  static thread_local const int id = gettid();
  return id;
}

}  // namespace brim
