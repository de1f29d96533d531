// What accounts tell brim itself.
#pragma once

#include <cstdint>
#include <optional>

#include <brim/diag/account.h>

namespace brim::diag {

struct AccountAccess {
  struct OfThread {
    uint64_t accountant;  ///< which one; accounts of one alone can be subtracted
    Account account;      ///< as Accountant::read_so_far()
  };
  /// Of the innermost Accountant of this thread that measures the device; nothing where there is
  /// none.
  static std::optional<OfThread> of_thread(Device device);
};

}  // namespace brim::diag
