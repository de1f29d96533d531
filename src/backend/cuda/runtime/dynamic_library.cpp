// See dynamic_library.h.
#include "backend/cuda/runtime/dynamic_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <utility>

#include "backend/queued_op.h"
#include "core/printable.h"

namespace brim::cuda {

DynamicLibrary::DynamicLibrary(const char* name, const std::string& soname,
                               const OpenedLibrary& opened, std::string install)
    : name_(name), install_(std::move(install)), path_(opened.path), handle_(opened.handle) {
  if (handle_) return;
  if (opened.error.empty())
    problem_ = fmt::format("{} ({}) is not there: {}", name_, soname, install_);
  else
    problem_ = fmt::format("{} ({}) does not open: {}; {}", name_, path_, opened.error, install_);
}

DynamicLibrary::Symbol DynamicLibrary::find(const char* name) {
  void* const address = handle_ ? dlsym(handle_, name) : nullptr;
  if (handle_ && !address) reject(fmt::format("has no {}", name));
  return {address};
}

void DynamicLibrary::reject(const std::string& why) {
  if (problem_.empty()) problem_ = told(why);
}

std::string DynamicLibrary::told(const std::string& why) const {
  return fmt::format("{} ({}) {}: {}", name_, path_, why, install_);
}

bool DynamicLibrary::is_there(const char* what) const {
  if (problem_.empty()) [[likely]]
    return true;
  std::call_once(warned_, [&] {
    warn(fmt::format("brim's own, slower kernels compute {}, because {}", what, problem_));
  });
  return false;
}

void DynamicLibrary::warn_cannot_begin(const char* what, const std::string& why) const {
  warn(fmt::format("brim's own, slower kernels compute {}, because {}", what,
                   told("cannot begin (" + why + "), perhaps its parts are of several versions")));
}

void warn(const std::string& line) { warn_on_stderr("[cuda] " + line); }

void warn_of_capture() {
  static std::once_flag warned;
  std::call_once(warned, [] {
    warn(
        fmt::format("[{}] a problem is met for the first time while a graph is captured: brim's "
                    "own, slower kernels compute it in this graph",
                    op_name()));
  });
}

const char* op_name() { return backend::queued_op ? backend::queued_op : "cuda"; }

}  // namespace brim::cuda
