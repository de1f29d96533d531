// An iterable data set as loaders share it: one pass at a time reads it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <brim/data/iterable.h>
#include <brim/data/loader.h>

#include "data/loader/epoch_position.h"

namespace brim::data {

class IterablePass;

/// Stacks samples that are alike in names, dtypes and shapes.
void stack(std::span<const Sample> samples, Collated& out);

/// The right to read a data set, which one loader of the process has. Where a data set is made of
/// one other, it is the right to read that.
class ReadingRight {
 public:
  /// Throws ValueError where another loader has it.
  explicit ReadingRight(const IterableDataset& data);
  ~ReadingRight();
  ReadingRight(const ReadingRight&) = delete;
  ReadingRight& operator=(const ReadingRight&) = delete;

 private:
  const IterableDataset* const read_;
};

struct IterableSource {
  /// Throws ValueError for options that no iterable data set can do, and for a null one or one that
  /// another source reads.
  IterableSource(IterablePtr data, const LoaderOptions& options);

  /// Keeps the last few: a DeviceLoader is a batch or two ahead of its loop. The mutex is held.
  void note(const EpochPosition& position);
  /// What lies before batch `batch`. Throws ValueError where that is not known (any more).
  EpochPosition find(int64_t epoch, int64_t batch);

  IterablePtr stream;  // without the maps that come last, and this rank's samples alone
  std::vector<std::function<void(const Sample&, Sample&)>> maps;
  std::optional<ReadingRight> right;  // after `stream`, which is alive as long

  std::mutex reading;  // held while the stream is used
  std::mutex mutex;    // of what follows; taken before `reading`
  IterablePass* running = nullptr;
  std::optional<EpochPosition> resume;  // what the epoch of that place goes on from
  std::deque<EpochPosition> recent;
};

}  // namespace brim::data
