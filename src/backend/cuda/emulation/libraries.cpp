// Opens fakes of NVIDIA's libraries in their place: those in the folders of BRIM_CUDA_LIBRARIES.
#include <dlfcn.h>

#include <filesystem>

#include <cuda_runtime.h>

#include "backend/cuda/emulation/fake_library.h"
#include "backend/cuda/emulation/queues.h"
#include "backend/cuda/libraries/open.h"
#include "core/environment.h"

namespace brim::cuda {

OpenedLibrary open_library(const std::string& soname) {
  bool is_named = false;
  for (const auto& folder : cuda_library_folders())
    is_named = is_named || std::filesystem::exists(folder / soname);
  if (!is_named) return {};
  OpenedLibrary library = open_cuda_library(soname);
  if (!library.handle) return library;
  using Attach = void(const emulation::Machine*);
  auto* attach = reinterpret_cast<Attach*>(dlsym(library.handle, "brim_fake_attach"));
  if (!attach) return {nullptr, library.path, "it needs a GPU, and this is the emulation of one"};
  static const emulation::Machine machine{
      &emulation::submit,    &emulation::spend, &emulation::is_captured, &emulation::is_capturing,
      &emulation::is_memory, &emulation::go_on, &emulation::pause};
  attach(&machine);
  emulation::spend(nullptr, 0);  // from here on fakes say how long work takes
  return library;
}

int64_t small_work() {
  return environment_number("BRIM_CUDA_SMALL", 0);  // so that small tests meet the libraries
}

}  // namespace brim::cuda
