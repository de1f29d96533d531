// Open MPI's library, opened at run time: the functions that are used, and one lock around them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/watch.h"

namespace brim::dist {

/// Why a library with this MPI_Get_library_version() is none of Open MPI 4 and 5, or "".
std::string mpi_version_fault(const std::string& version);

/// Handles and functions as the ABI of Open MPI 4 and 5 has them (libmpi.so.40, mpi.h of 4.1.4).
struct MpiLibrary {
  using Comm = struct ompi_communicator_t*;
  using Datatype = struct ompi_datatype_t*;
  using Request = struct ompi_request_t*;
  using ErrorHandler = struct ompi_errhandler_t*;
  static constexpr int kSuccess = 0, kThreadSerialized = 2;
  static constexpr int kErrorText = 256;  // MPI_MAX_ERROR_STRING

  int (*initialized)(int* flag) = nullptr;
  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*query_thread)(int* provided) = nullptr;
  int (*finalized)(int* flag) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Comm, int* rank) = nullptr;
  int (*comm_size)(Comm, int* size) = nullptr;
  int (*comm_idup)(Comm, Comm* other, Request*) = nullptr;
  int (*set_error_handler)(Comm, ErrorHandler) = nullptr;
  int (*isend)(const void*, int count, Datatype, int to, int tag, Comm, Request*) = nullptr;
  int (*irecv)(void*, int count, Datatype, int from, int tag, Comm, Request*) = nullptr;
  int (*test)(Request*, int* flag, void* status) = nullptr;
  int (*error_string)(int error, char* text, int* length) = nullptr;

  Comm world = nullptr;
  Datatype byte = nullptr;
  ErrorHandler errors_return = nullptr;

  /// Opens the library, BRIM_MPI_LIBRARY or libmpi.so.40, once in a process. Throws DistError where
  /// it is missing, or of another MPI or version.
  static MpiLibrary& open();
  /// Makes MPI ready, which waits for all ranks, unless it is; it ends with the process. Throws
  /// DistError.
  void initialize();
  /// The heartbeat of a group that uses MPI. Where the process ends by exit() while the group is
  /// there, the others are told so, and MPI ends once they have left, too; not where they fail.
  void add(const std::shared_ptr<Watch>& watch);
  /// Throws DistError for what is no success. `what`: for the message.
  void check(int error, const char* what) const;
  /// After a failure nothing is called any more: other ranks may be gone, for which MPI waits, and
  /// what is under way may be of memory that is used for something else by then.
  void give_up(const std::string& why) noexcept;
  /// Around every call: nothing that is called waits, so this does not either. Throws DistError
  /// after give_up().
  std::unique_lock<std::mutex> lock();

 private:
  MpiLibrary();
  ~MpiLibrary();
  bool others_leave();

  std::mutex mutex_;  // of all that follows, and of calls into MPI
  std::atomic<bool> gave_up_ = false;
  std::string why_;
  std::vector<std::weak_ptr<Watch>> watches_;
  bool ours_ = false;
};

}  // namespace brim::dist
