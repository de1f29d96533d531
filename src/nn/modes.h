// Which modules are in training mode, and what else they compute with (hooks, sparse and int8
// forms), as one number: what depends on it (a compiled step) need not know the modules.
#pragma once

#include <cstdint>

namespace brim::nn {

/// The same number whenever the same living modules are in eval mode, and the same ModeKeys live.
uint64_t training_modes();

/// Makes training_modes() another number while it lives.
class ModeKey {
 public:
  ModeKey();
  ~ModeKey();
  ModeKey(const ModeKey&) = delete;
  ModeKey& operator=(const ModeKey&) = delete;

 private:
  const uint64_t key_;
};

}  // namespace brim::nn
