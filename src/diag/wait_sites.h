// Where a program waits for devices: which calls of its own code, how often and how long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <brim/diag/account.h>

namespace brim::diag {

/// A call of the program, seen from the outside: by what it stands in, innermost first.
struct WaitSite {
  Cause cause = Cause::host_read;  ///< or synchronize, staging, copy_to_host
  const char* op = "";             ///< the span's name
  int64_t count = 0;
  double seconds = 0;
  std::vector<void*> stack;  ///< return addresses, beginning with the first one outside of brim
};

/// From now on, until as many calls said false, spans of threads that measure are noted.
void note_waits(bool on);
bool notes_waits();
/// A span that has ended, of this thread. Called within it.
void note_wait(Cause cause, const char* op, uint64_t ticks);
/// The longest first, at most so many.
std::vector<WaitSite> wait_sites(size_t most);

/// What an address belongs to.
struct CodeAddress {
  std::string file;      ///< the program or library
  uint64_t address = 0;  ///< in that file, of the call: as addr2line takes it
  std::string function;  ///< where its name is exported, else ""
};
CodeAddress code_address(void* return_address);

}  // namespace brim::diag
