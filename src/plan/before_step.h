// What a step changes of what was there before it, to be put back should the step not end.
#pragma once

#include <span>
#include <vector>

#include <brim/core/random.h>
#include <brim/core/storage.h>
#include <brim/core/stream.h>

#include "plan/program.h"

namespace brim::plan {

class BeforeStep {
 public:
  /// Copies the storages to the host, and keeps the states of the generators that the program draws
  /// from. Waits for the current stream. Throws std::bad_alloc.
  BeforeStep(const Program& program, std::span<const Ref<Storage>> written);
  /// Behind what is queued on that stream, which it waits for.
  void put_back() const;

 private:
  struct Saved {
    Storage* storage;
    std::vector<char> bytes;
  };
  const Program& program_;
  const Stream stream_;
  std::vector<Saved> saved_;
  std::vector<RandomKey> generators_;
};

}  // namespace brim::plan
