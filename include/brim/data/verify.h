// Reads a whole data set once and reports what is damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <brim/data/source.h>

namespace brim::data {

/// How far a verification is.
struct VerifyProgress {
  int64_t images = 0;      ///< pictures done
  double fraction = 0;     ///< 0 to 1, of this stage
  const char* stage = "";  ///< "open" (of an archive) or "decode"
};

/// Options of verify().
struct VerifyOptions {
  int workers = -1;        ///< decoding threads; 0: the calling one; -1: one per available CPU
  int64_t listed = 10000;  ///< the most entries of VerifyReport::damage
  /// Called now and then from the calling thread. Returning false stops: Error is thrown.
  std::function<bool(const VerifyProgress&)> progress = {};
};

/// A sample that cannot be decoded, or a split that cannot be opened.
struct Damage {
  Split split = Split::train;  ///< that is read
  int64_t index = -1;          ///< of the sample in its split; -1: the split itself
  std::string reason;          ///< begins with the path
};

/// What verify() found in a split.
struct SplitReport {
  Split split = Split::train;      ///< which one
  int64_t images = 0;              ///< how many it has
  std::vector<int64_t> per_class;  ///< images by label, damaged ones too
};

/// What verify() found.
struct VerifyReport {
  std::vector<std::string> classes;                   ///< in the order of their labels
  std::vector<SplitReport> splits;                    ///< those that could be opened
  std::vector<std::pair<ImageShape, int64_t>> sizes;  ///< of the sound images, the commonest first
  int64_t images = 0;                                 ///< read in all splits
  int64_t damaged = 0;                                ///< images
  std::vector<Damage> damage;  ///< splits, then samples in order; the first `listed` of them
  int64_t pixel_bytes = 0;     ///< of all decoded images
  double seconds = 0;          ///< for opening and decoding

  /// Whether everything could be read.
  bool sound() const { return damage.empty() && damaged == 0; }
};

/// Opens both splits of anything that Source::open takes and decodes every sample. Damage is
/// reported, not thrown; the report is the same for any number of workers. Throws what Source::open
/// throws if no split can be opened, ValueError for impossible options.
VerifyReport verify(const std::string& where, const VerifyOptions& options = {});

}  // namespace brim::data
