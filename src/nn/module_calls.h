// Reports which module computes, for messages about a network module by module.
#pragma once

#include <brim/nn/module.h>

namespace brim::nn {

class ModuleListener {
 public:
  virtual void enters(const Module& module) = 0;
  virtual void leaves() noexcept = 0;

 protected:
  ~ModuleListener() = default;
};

/// Of this thread, or null. It hears of modules that have hooks, be it one that does nothing, and
/// of those with a forward of their own that says so.
extern thread_local constinit ModuleListener* module_listener [[gnu::tls_model("initial-exec")]];

/// A call, in this scope.
class ModuleCall {
 public:
  explicit ModuleCall(const Module& module) : listener_(module_listener) {
    if (listener_) listener_->enters(module);
  }
  ~ModuleCall() {
    if (listener_) listener_->leaves();
  }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

 private:
  ModuleListener* const listener_;
};

}  // namespace brim::nn
