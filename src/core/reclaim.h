// Memory that its holder does not need just now: an allocator that finds no room asks for it.
#pragma once

#include <brim/core/device.h>

namespace brim {

class Reclaimable {
 public:
  Reclaimable() = default;
  virtual ~Reclaimable() = default;
  Reclaimable(const Reclaimable&) = delete;
  Reclaimable& operator=(const Reclaimable&) = delete;

  /// Gives memory of the device back to its allocator, if it has some that nobody uses. Called by
  /// any thread, with the list of them locked: it may make and end none.
  virtual bool give_back(Device device) noexcept = 0;

 protected:
  /// For what overrides give_back(): calls may come behind the one, at the end of its constructor,
  /// and none behind the other, at the beginning of its destructor.
  void start_reclaiming();
  void stop_reclaiming() noexcept;
};

/// Whether any of them gave something back.
bool reclaim(Device device) noexcept;

}  // namespace brim
