// Code that is loaded at run time. What the fake of NVRTC makes is a shared library of the host's
// (tests/fakes/nvrtc.cpp) behind its size; each of its kernels has a function that binds arguments.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include <cuda_runtime.h>

/// Copies the arguments; what it makes is a thread of the kernel.
using Bind = void(void** args, std::function<void()>* thread);
struct EmulatedKernel {
  Bind* bind;
};

extern "C" cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*,
                                           void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  constexpr char kMagic[] = "brimfake";
  uint64_t bytes = 0;
  const char* at = static_cast<const char*>(code);
  if (std::memcmp(at, kMagic, 8) != 0) return cudaErrorInvalidKernelImage;
  std::memcpy(&bytes, at + 8, sizeof bytes);
  at += 16;
  // Open for good: the loader takes another file of this path for the one that it knows.
  const int file = memfd_create("brim_code", 0);
  if (file < 0) return cudaErrorMemoryAllocation;
  const bool written = write(file, at, bytes) == static_cast<ssize_t>(bytes);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* const opened = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  *library = static_cast<cudaLibrary_t>(opened);
  return opened ? cudaSuccess : cudaErrorInvalidKernelImage;
}

extern "C" cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library,
                                            const char* name) {
  void* const bind = dlsym(library, (std::string("brim_bind_") + name).c_str());
  if (!bind) return cudaErrorSymbolNotFound;
  *kernel = new EmulatedKernel{reinterpret_cast<Bind*>(bind)};
  return cudaSuccess;
}

extern "C" cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** args,
                                        size_t shared_bytes, cudaStream_t stream) {
  namespace emulation = brim::cuda::emulation;
  const cudaError_t result = emulation::check_launch(kernel, blocks, threads, shared_bytes);
  if (result != cudaSuccess) return result;
  std::function<void()> thread;
  static_cast<const EmulatedKernel*>(kernel)->bind(args, &thread);
  emulation::submit(stream, [=] { emulation::run_blocks(blocks, threads, shared_bytes, thread); });
  return cudaSuccess;
}
