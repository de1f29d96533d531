// NVRTC, NVIDIA's compiler as a library. Opened at run time, by the functions that nvrtc.h has, so
// that brim is built without it.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/compile/formula_program.h"
#include "backend/cuda/runtime/dynamic_library.h"

namespace brim::cuda {

/// What a program is compiled for.
struct CodeTarget {
  std::string arch;     ///< "sm_90", or "compute_90" for PTX
  bool is_ptx = false;  ///< the driver compiles the rest
};

class Nvrtc : public DynamicLibrary {
 public:
  /// `opened`: libnvrtc.so.13 or .12, or what came of looking for them; see problem().
  explicit Nvrtc(const OpenedLibrary& opened);

  /// "NVRTC 13.0".
  const std::string& version() const { return version_; }
  /// Code for GPUs of that compute capability (90 for 9.0): machine code where this NVRTC knows
  /// them, else PTX for the newest before them. Throws NotImplemented where it knows none.
  CodeTarget target(const std::string& op, int capability) const;
  /// Compiles `program`. Throws NotImplemented with the compiler's log.
  std::string compile(const DeviceProgram& program, const CodeTarget& target) const;

  /// All that the compiler is told beside the target.
  static constexpr const char* kOptions[] = {"--std=c++20", "-default-device"};

 private:
  using Handle = struct Opaque*;
  using Create = int(Handle*, const char* text, const char* name, int headers,
                     const char* const* texts, const char* const* names);
  using Compile = int(Handle, int count, const char* const* options);
  using Size = int(Handle, size_t* bytes);
  using Read = int(Handle, char* bytes);

  /// Asks for its version and the GPUs it knows; returns why it cannot be used, or "".
  std::string ask();
  /// What one of the compiler's pairs of functions returns; "" where it fails.
  static std::string read(Handle program, Size* size, Read* read);

  int (*find_version_)(int* major, int* minor);
  int (*count_archs_)(int* count);
  int (*archs_of_)(int* archs);
  const char* (*error_text_)(int result);
  Create* create_;
  Compile* compile_;
  int (*destroy_)(Handle*);
  Size *log_size_, *ptx_size_, *cubin_size_;
  Read *log_, *ptx_, *cubin_;
  std::string version_;
  std::vector<int> archs_;  ///< in rising order
};

/// Opens NVRTC by `open`, a function like open_cuda_library(): the newest that is there.
OpenedLibrary open_nvrtc(OpenedLibrary (*open)(const std::string& soname));

}  // namespace brim::cuda
