// The functions of NCCL that brim calls, looked up at run time, and what each answer means.
#pragma once

#include <fmt/core.h>
#include <nccl.h>

#include <string>

#include "backend/cuda/libraries/open.h"
#include "backend/cuda/runtime/dynamic_library.h"

namespace brim::cuda::nccl {

struct Library : DynamicLibrary {
  Library()
      : DynamicLibrary("NCCL", "libnccl.so.2", open_library("libnccl.so.2"),
                       "apt-get install libnccl2 (NVIDIA's repository), or pip install "
                       "nvidia-nccl-cu13, or name its folder in BRIM_CUDA_LIBRARIES") {
    if (!problem().empty()) return;
    // The settings of a communicator are those of the header's version; newer libraries take them.
    int version = 0;
    if (get_version(&version) != ncclSuccess || version < NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, 0))
      reject(fmt::format("is of version {}.{}, and {}.{} is needed", version / 10000,
                         version / 100 % 100, NCCL_MAJOR, NCCL_MINOR));
  }
  decltype(&ncclGetVersion) get_version = find("ncclGetVersion");
  decltype(&ncclGetErrorString) error_string = find("ncclGetErrorString");
  decltype(&ncclGetLastError) last_error = find("ncclGetLastError");
  decltype(&ncclGetUniqueId) unique_id = find("ncclGetUniqueId");
  decltype(&ncclCommInitRankConfig) init = find("ncclCommInitRankConfig");
  decltype(&ncclCommGetAsyncError) async_error = find("ncclCommGetAsyncError");
  decltype(&ncclCommFinalize) finalize = find("ncclCommFinalize");
  decltype(&ncclCommDestroy) destroy = find("ncclCommDestroy");
  decltype(&ncclCommAbort) abort = find("ncclCommAbort");
  decltype(&ncclGroupStart) group_start = find("ncclGroupStart");
  decltype(&ncclGroupEnd) group_end = find("ncclGroupEnd");
  decltype(&ncclSend) send = find("ncclSend");
  decltype(&ncclRecv) receive = find("ncclRecv");
};

inline const Library& library() {
  static const Library nccl;
  return nccl;
}

}  // namespace brim::cuda::nccl
