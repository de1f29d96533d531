// What a long run pays for the records of its devices' work.
#pragma once

#include <cstdint>
#include <vector>

#include <brim/core/device.h>

namespace brim::diag {

/// While it lives, and an Accountant that was made before it, records of devices whose work is told
/// by records (cuda) are taken in windows, so that what they cost the host stays below a share of
/// the run's time. A window lies between two calls of border(). The first one is always recorded; a
/// later one is where the cost so far, by count, is no more than the share. In the accounts, what
/// was not recorded is charged in the proportions of the recorded windows after the first one;
/// recorded() says how much that is not. Everything is recorded where that costs less than the
/// share, while another Accountant measures a device, and while a Trace or NodeDetail wants all.
class Sampling {
 public:
  /// What a record is taken to cost the host; a launch leaves two, of the call and of the kernel.
  static constexpr double kRecordUs = 1;
  /// What it is taken to cost to begin and to end a window.
  static constexpr double kWindowUs = 200;

  explicit Sampling(const std::vector<Device>& devices);  ///< `devices`: whose work is noted
  /// Goes on recording.
  ~Sampling();
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  /// Between two steps, and where the host has waited for the devices anyway: they are waited for
  /// if a window begins or ends here. Call it from the thread of the Accountant.
  void border(double max_share = 0.01);
  /// The share of the time so far that was recorded.
  double recorded(Device device) const;

 private:
  std::vector<Device> devices_;
  uint64_t begin_, advanced_;
  int64_t taken_before_ = 0, windows_ = 0;
};

}  // namespace brim::diag
