// A library of NVIDIA's whose functions are looked up at run time.
#pragma once

#include <mutex>
#include <string>

#include "core/cuda_libraries.h"

namespace brim::cuda {

/// Base of a struct whose members are functions: `decltype(&f) f = find("f");`.
class DynamicLibrary {
 public:
  /// Whether the library and all functions looked up so far are there. The first time that it is
  /// not, a warning says why brim's own, slower kernels compute `what`, and what to install.
  bool is_there(const char* what) const;
  /// Warns that it is there and cannot begin, as where its parts do not fit together, so that
  /// brim's own kernels compute `what`. Once for each device is the caller's part.
  void warn_cannot_begin(const char* what, const std::string& why) const;
  /// Why it is not there, and what to install; empty if it is.
  const std::string& problem() const { return problem_; }

 protected:
  struct Symbol {
    void* address;
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(address);
    }
  };

  /// `name`: "cuDNN"; `opened`: by its soname; `install`: how one gets it, for messages.
  DynamicLibrary(const char* name, const std::string& soname, const OpenedLibrary& opened,
                 std::string install);
  Symbol find(const char* name);
  /// Does without it: it is too old, or made for another CUDA.
  void reject(const std::string& why);

 private:
  /// "cuDNN (its path) WHY: what to install".
  std::string told(const std::string& why) const;

  std::string name_, install_, path_;
  void* handle_ = nullptr;
  std::string problem_;
  mutable std::once_flag warned_;
};

/// "brim: warning: [cuda] ..." on stderr.
void warn(const std::string& line);

/// Warns, once, that a problem is met for the first time while a graph is captured, when libraries
/// must not begin nor measure, so that brim's own kernels compute it.
void warn_of_capture();

/// The op whose kernel this thread is queueing, for messages.
const char* op_name();

}  // namespace brim::cuda
