// What a program's own training loop waits for, written to a file for `brim doctor -- PROGRAM`.
//
// Where BRIM_WATCH_LOOP names a file, the first thread that takes batches from a loader is measured
// from then on, and the calls in which it waits for the device are noted. PATH.PID is written anew
// every second, and at the thread's end: whatever ends the program, it tells of nearly all.
//
// An Accountant of the program's own is read where there is one; if it does not measure the
// loader's device, the host's time is told. Else the watch makes one.
#pragma once

#include <cstdint>
#include <vector>

#include <brim/core/device.h>
#include <brim/data/loader.h>

namespace brim::data {

/// A call that asks a loader for batches, from its beginning to its end. Calls inside of it, of
/// loaders that it consists of, do not count. Nothing is thrown: a watch that fails is given up.
class LoaderCall {
 public:
  /// One that brings no batches to a loop.
  LoaderCall() noexcept;
  /// `feed`: whose batches. Those of the first DeviceLoader count, or where there is none of the
  /// first Loader, whose `devices` are none. `loader`: what tells of workers, or null.
  LoaderCall(const std::vector<Device>& devices, const void* feed, const Loader* loader) noexcept;
  ~LoaderCall();
  LoaderCall(const LoaderCall&) = delete;
  LoaderCall& operator=(const LoaderCall&) = delete;

  /// It has brought so many.
  void took(int64_t batches) noexcept;

 private:
  const void* feed_ = nullptr;  // null: it does not count
  const Loader* loader_ = nullptr;
};

/// `brim doctor` reads files of this schema.
inline constexpr const char* kLoopSchema = "brim.loop/1";
inline constexpr const char* kLoopVariable = "BRIM_WATCH_LOOP";

}  // namespace brim::data
