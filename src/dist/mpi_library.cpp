#include "dist/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>

#include "core/check.h"
#include "core/environment.h"

namespace brim::dist {
namespace {

constexpr const char* kName = "libmpi.so.40";

}  // namespace

MpiLibrary& MpiLibrary::open() {
  static MpiLibrary library;
  return library;
}

MpiLibrary::MpiLibrary() {
  const std::string named = environment("BRIM_MPI_LIBRARY");
  const std::string path = named.empty() ? kName : named;
  // Its own plugins look for its symbols among those of the program.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* const why = library ? nullptr : dlerror();
  BRIM_CHECK(
      library, DistError,
      "[dist] BRIM_DIST_BACKEND=mpi needs Open MPI, and {} cannot be opened ({}); install it "
      "(apt-get install libopenmpi3), or say in BRIM_MPI_LIBRARY where it is",
      path, why ? why : "no reason is given");
  const auto address = [&](const char* name) {
    void* const found = dlsym(library, name);
    BRIM_CHECK(found, DistError,
               "[dist] {} has no {}, so it is no library of Open MPI 4 or 5; say in "
               "BRIM_MPI_LIBRARY where that is",
               path, name);
    return found;
  };
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(address(name));
  };
  world = static_cast<Comm>(address("ompi_mpi_comm_world"));
  byte = static_cast<Datatype>(address("ompi_mpi_byte"));
  errors_return = static_cast<ErrorHandler>(address("ompi_mpi_errors_return"));
  find(initialized, "MPI_Initialized");
  find(init_thread, "MPI_Init_thread");
  find(finalized, "MPI_Finalized");
  find(finalize, "MPI_Finalize");
  find(comm_rank, "MPI_Comm_rank");
  find(comm_size, "MPI_Comm_size");
  find(comm_idup, "MPI_Comm_idup");
  find(set_error_handler, "MPI_Comm_set_errhandler");
  find(isend, "MPI_Isend");
  find(irecv, "MPI_Irecv");
  find(test, "MPI_Test");
  find(error_string, "MPI_Error_string");
  int flag = 0;
  check(initialized(&flag), "MPI_Initialized");
  if (flag) return;  // by the program, which ends it, too
  int provided = 0;
  check(init_thread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
  ours_ = true;
  BRIM_CHECK(provided >= kThreadSerialized, DistError,
             "[dist] {} was built for one thread, and ranks call it from several; use one that "
             "knows MPI_THREAD_SERIALIZED",
             path);
}

MpiLibrary::~MpiLibrary() {
  int flag = 1;
  if (!ours_ || gave_up_ || finalized(&flag) != kSuccess || flag) return;
  (void)finalize();
}

void MpiLibrary::check(int error, const char* what) const {
  if (error == kSuccess) return;
  char text[kErrorText] = {};
  int length = 0;
  if (error_string(error, text, &length) != kSuccess) length = 0;
  raise<DistError>("[dist] {} failed: {}", what,
                   std::string(text, static_cast<size_t>(std::max(0, length))));
}

}  // namespace brim::dist
