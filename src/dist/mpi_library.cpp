#include "dist/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <type_traits>

#include "core/check.h"
#include "core/environment.h"
#include "core/printable.h"

namespace brim::dist {
namespace {

constexpr const char* kName = "libmpi.so.40";
constexpr size_t kVersionText = 8192;  // the longest that any MPI has, MPICH's

}  // namespace

std::string mpi_version_fault(const std::string& version) {
  constexpr std::string_view kBegin = "Open MPI v";
  int major = 0;
  if (version.starts_with(kBegin))
    std::from_chars(version.data() + kBegin.size(), version.data() + version.size(), major);
  if (major == 4 || major == 5) return {};
  const std::string name = printable(version.substr(0, version.find_first_of(",\n")));
  return name.empty() ? "has no version" : "is " + name;
}

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
  int (*get_version)(char* text, int* length) = nullptr;
  find(get_version, "MPI_Get_library_version");
  char version[kVersionText] = {};
  int length = 0;
  (void)get_version(version, &length);
  const std::string fault =
      mpi_version_fault(std::string(version, strnlen(version, sizeof(version))));
  BRIM_CHECK(fault.empty(), DistError,
             "[dist] {} {}; install Open MPI 4 or 5, or say in BRIM_MPI_LIBRARY where it is", path,
             fault);
  world = static_cast<Comm>(address("ompi_mpi_comm_world"));
  byte = static_cast<Datatype>(address("ompi_mpi_byte"));
  errors_return = static_cast<ErrorHandler>(address("ompi_mpi_errors_return"));
  find(initialized, "MPI_Initialized");
  find(init_thread, "MPI_Init_thread");
  find(query_thread, "MPI_Query_thread");
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
}

void MpiLibrary::initialize() {
  const auto held = lock();
  int is_initialized = 0, is_finalized = 0, provided = 0;
  check(initialized(&is_initialized), "MPI_Initialized");
  check(finalized(&is_finalized), "MPI_Finalized");
  BRIM_CHECK(!is_finalized, DistError,
             "[dist] MPI has ended in this process, and begins once only; make groups before");
  if (is_initialized) {  // by the program, which ends it, too
    check(query_thread(&provided), "MPI_Query_thread");
  } else {
    check(init_thread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
    ours_ = true;
  }
  if (provided >= kThreadSerialized) return;
  if (ours_) (void)finalize();
  raise<DistError>(
      "[dist] MPI was made ready for one thread, and ranks call it from several; ask for "
      "MPI_THREAD_SERIALIZED, or use an MPI that has it");
}

MpiLibrary::~MpiLibrary() {
  int is_finalized = 1;
  if (!ours_ || gave_up_ || finalized(&is_finalized) != kSuccess || is_finalized) return;
  if (others_leave()) (void)finalize();
}

void MpiLibrary::add(const std::shared_ptr<Watch>& watch) {
  const std::lock_guard lock(mutex_);
  watches_.push_back(watch);
}

bool MpiLibrary::others_leave() {
  std::vector<std::weak_ptr<Watch>> watches;
  {
    const std::lock_guard lock(mutex_);
    watches = watches_;
  }
  for (const std::weak_ptr<Watch>& weak : watches) {
    const std::shared_ptr<Watch> watch = weak.lock();
    if (!watch) continue;  // its group has ended, as it should
    watch->take_leave();   // while this waits the heartbeat goes on, so others would wait for us
    while (!watch->have_all_left() && watch->fault().empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!watch->fault().empty()) return false;
  }
  return true;
}

void MpiLibrary::give_up(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (!gave_up_) why_ = why;
  gave_up_ = true;
}

std::unique_lock<std::mutex> MpiLibrary::lock() {
  std::unique_lock lock(mutex_);
  BRIM_CHECK(!gave_up_, DistError, "[dist] this rank has given up MPI: {}", why_);
  return lock;
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
