#include "core/reclaim.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace brim {
namespace {

struct All {
  std::mutex mutex;
  std::vector<Reclaimable*> list;
  static All& get() {
    static auto* all = new All;  // never destroyed: some may outlive any order
    return *all;
  }
};

}  // namespace

void Reclaimable::start_reclaiming() {
  All& all = All::get();
  const std::lock_guard lock(all.mutex);
  all.list.push_back(this);
}

void Reclaimable::stop_reclaiming() noexcept {
  All& all = All::get();
  const std::lock_guard lock(all.mutex);
  std::erase(all.list, this);
}

bool reclaim(Device device) noexcept {
  All& all = All::get();
  const std::lock_guard lock(all.mutex);
  bool any = false;
  for (Reclaimable* one : all.list) any = one->give_back(device) || any;
  return any;
}

}  // namespace brim
