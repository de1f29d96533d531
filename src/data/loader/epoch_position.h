// Where an epoch is between two batches, and that as bytes for checkpoints.
//
// With random access that is the number of a batch. A pass over iterable data asks the data set for
// its state from time to time: an anchor, from which the samples up to a batch are read again to go
// on there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <brim/data/loader.h>

#include "data/dataset/sample_access.h"

namespace brim::data {

/// What an iterable data set said where it was asked.
struct Anchor {
  int64_t samples = 0;  ///< of the epoch behind it, broken ones too
  std::string state;
  std::string error;  ///< why there is no state
};

struct EpochPosition {
  int64_t epoch = 0, batch = 0;  ///< the next one
  // Of iterable data alone.
  int64_t samples = 0;                     ///< of the epoch read so far, broken ones too
  bool ended = false;                      ///< nothing is left
  std::shared_ptr<const Anchor> anchor;    ///< null: the epoch's beginning
  std::shared_ptr<const SampleRows> rows;  ///< what samples are, where that is known
};

/// Throws ValueError where the data set has no state.
std::string to_bytes(const EpochPosition& position, const LoaderOptions& options);
/// Throws ValueError for damaged bytes, and those of a loader of another batch or seed.
EpochPosition position_of(const std::string& bytes, const LoaderOptions& options);

}  // namespace brim::data
