// The account: where the wall time of a run went, as one partition that adds up to 100 %.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/device.h>

namespace brim::diag {

/// What a device or a thread did, or why it had nothing to do. docs/ACCOUNT.md has the rules.
enum class Cause : uint8_t {
  compute,         ///< kernels
  communication,   ///< traffic between devices or ranks, and late ranks, that no computation hides
  peer,            ///< waiting for another device's work
  copy_to_device,  ///< copies from the host that nothing of the above hides
  copy_to_host,    ///< copies to the host that nothing of the above hides
  staging,         ///< the host copied pageable memory to where the device can read it
  input,           ///< waiting for the loader
  host_read,       ///< the host read a value and waited (item, copy_to(cpu))
  synchronize,     ///< the host waited for the device because it was told to
  full_queue,      ///< the host waited because a stream's queue was full
  dispatch,        ///< brim's own way to a kernel: ops, plans, the trainer
  user,            ///< code outside of brim
  host_compute,    ///< of a device with a queue: kernels on the CPU
  allocator,       ///< asking the system for memory, and giving it back
  compile,         ///< recording a step, its passes; measuring layouts and algorithms; formulas
  checkpoint,      ///< writing or reading checkpoints, reads of the device included
  file_read,       ///< reading weights
  file_write,      ///< writing weights
  evaluation,      ///< the network on test data
  throttle,        ///< clocks lowered by heat or power
  stolen,          ///< a thread was ready and had no core
  other,           ///< the residual
};
inline constexpr int kCauseCount = 22;  ///< how many there are

std::string_view name(Cause cause);  ///< as the account prints it: "host read"

/// A finished account. The entries of `seconds` add up to `wall`.
struct Account {
  double wall = 0;                            ///< seconds
  std::array<double, kCauseCount> seconds{};  ///< by cause, in the order of Cause

  double fraction(Cause cause) const;  ///< share of the wall time; 0 without any
  /// Percentages with one decimal, rounded so that they add up to exactly 100.0 (largest
  /// remainder).
  std::array<double, kCauseCount> percent() const;
  /// One line per cause whose percentage is not 0.0, the largest first, and `other` always, last.
  std::string table() const;
};

class Activity;

/// Measures the thread that makes it, and devices with queues of their own. The thread's account is
/// the time of its spans, by cause, and the rest as `user`; it is also the CPU's, for whose kernels
/// the thread waits. A device's account charges each instant once: to compute while any kernel
/// runs, else to communication, else to a copy, and when nothing runs to what the next work waited
/// for (docs/ACCOUNT.md). May be nested; the innermost one measures, and what it has found is added
/// to the one around it when it ends. No span may be open when it is made or destroyed. One that
/// another thread destroys goes on measuring, unread, until the thread that made it makes or
/// destroys another one.
class Accountant {
 public:
  /// The devices should be idle. Throws DeviceError for one that is missing.
  explicit Accountant(const std::vector<Device>& devices = {});
  ~Accountant();
  Accountant(const Accountant&) = delete;
  Accountant& operator=(const Accountant&) = delete;

  /// What this thread is doing, for any thread to read, and for longer than the Accountant lives.
  /// While an inner one measures, what this one was doing when that began.
  std::shared_ptr<const Activity> activity() const;

  // The following throw Error when called from another thread than the one that made the
  // Accountant.

  /// The account of this thread since the start.
  Account read() const;
  /// The account of a device since the start; the CPU's is this thread's. Call it with the device
  /// idle; while other cuda devices that are measured work, some of what it did last may count in
  /// later calls only. Throws ValueError for a device that was not named.
  Account read(Device device) const;
  /// The same while the device works, without waiting for it: until now, or for cuda devices until
  /// the last work of which there is a record.
  Account read_so_far(Device device) const;

 private:
  friend struct AccountAccess;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace brim::diag
