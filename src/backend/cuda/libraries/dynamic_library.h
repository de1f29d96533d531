// A library of NVIDIA's whose functions are looked up at run time.
#pragma once

#include <dlfcn.h>

#include <string>

#include "core/cuda_libraries.h"

namespace brim::cuda {

/// Base of a struct whose members are functions: `decltype(&f) f = find("f");`.
class DynamicLibrary {
 public:
  /// The library and all functions looked up so far are there.
  bool is_there() const { return there_; }

 protected:
  struct Symbol {
    void* address;
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(address);
    }
  };

  explicit DynamicLibrary(const std::string& soname)
      : handle_(open_cuda_library(soname).handle), there_(handle_ != nullptr) {}
  Symbol find(const char* name) {
    void* const address = handle_ ? dlsym(handle_, name) : nullptr;
    there_ = there_ && address;
    return {address};
  }

 private:
  void* handle_;
  bool there_;
};

}  // namespace brim::cuda
