// Finds NVIDIA's libraries at run time: nothing of brim is linked to them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace brim {

/// A shared library that was looked for.
struct OpenedLibrary {
  void* handle = nullptr;  ///< never closed; nullptr if it was not found or does not open
  std::string path;        ///< of the file behind `handle`, or of the file that does not open
  std::string error;       ///< why a file that is there does not open; empty if none is there
};

/// The folders that BRIM_CUDA_LIBRARIES names, separated by colons. A folder such as Python's
/// `site-packages/nvidia`, whose subfolders hold a `lib` each, stands for all of these.
std::vector<std::filesystem::path> cuda_library_folders();

/// Opens a library by its soname, such as "libcudnn.so.9": from the folders above, else where the
/// system's loader looks (LD_LIBRARY_PATH, ldconfig), else from /usr/local/cuda.
OpenedLibrary open_cuda_library(const std::string& soname);

/// Opens NVIDIA's libraries from the folders in BRIM_CUDA_LIBRARIES, so that the loader takes these
/// files when the libraries ask for one another by name. Does nothing without the variable.
void preload_cuda_libraries();

}  // namespace brim
