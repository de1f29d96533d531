// Samples that come one after the other, without random access: a generator, a pipe, shards that
// are read in turn.
//
//   struct Walk final : data::IterableDataset {
//     int64_t at = 0;
//     void begin(int64_t) override { at = 0; }
//     bool next(data::Sample& out) override {
//       if (at == 1000) return false;
//       out.set("x", 0.5f * static_cast<float>(at++));
//       return true;
//     }
//     std::string state() const override { return std::to_string(at); }  // these two: to go on
//     void load_state(const std::string& state) override { at = std::stoll(state); }
//   };
//   const data::Loader loader(data::shuffled(std::make_shared<Walk>(), 256),
//                             {.batch = 32, .shuffle = false});
//   for (const data::Batch& b : loader) step(b.x);  // (32) f32
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/data/sample.h>

namespace brim::data {

/// A sequence of samples. One thread at a time uses it (not always the same one), but for
/// describe() and interrupt(); one epoch at a time reads it, and one Loader with its copies: a
/// second one is a ValueError, also where both are made of this data set by shuffled(), map() and
/// so on.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;

  /// Begins epoch `epoch`: next() gives its first sample. The same epoch has the same samples each
  /// time, or a run cannot go on amid one.
  virtual void begin(int64_t epoch) = 0;

  /// Puts the fields of the next sample into `out`; false at the end, where it is not called again.
  /// What it throws reaches the training loop with describe() in front. A FileError, and whatever
  /// is no Error of brim, is a sample that cannot be read (LoaderOptions::on_error): the next call
  /// gives the one behind it.
  virtual bool next(Sample& out) = 0;

  ///@{
  /// Where it is, as bytes: after begin() of the same epoch, load_state() of another object like
  /// this one goes on from there, to the bit. Called between samples, as a rule once a batch.
  /// By default they throw ValueError.
  virtual std::string state() const;
  virtual void load_state(const std::string& state);
  ///@}

  /// What it is, for messages: "train.txt". Called by any thread at any time.
  virtual std::string describe() const;

  /// An epoch was left early while next() may be waiting: it is to return soon, with anything, and
  /// not to wait again before begin(). Called by another thread, with locks of the loader held: it
  /// asks no loader or epoch, and does not throw (what it throws is ignored).
  virtual void interrupt() {}
};

using IterablePtr = std::shared_ptr<IterableDataset>;  ///< A stream of samples that loaders share.

// What follows makes one data set of another, and can tell its state where that can. All throw
// ValueError for a null one and for impossible numbers.

/// In random order, as far as a buffer of that many samples allows: each is drawn from those in the
/// buffer, which is then filled up. Its order depends on (seed, epoch) alone. Its state holds the
/// samples in the buffer.
IterablePtr shuffled(IterablePtr from, int64_t buffer_samples, uint64_t seed = 0);

/// Samples made of samples, as of a Dataset. Where it comes last, `f` is called by several threads
/// at once, each for a batch of its own; shuffled(), take() and sharded() put themselves before it.
IterablePtr map(IterablePtr from, std::function<void(const Sample& in, Sample& out)> f);

/// The first `samples` ones of each epoch.
IterablePtr take(IterablePtr from, int64_t samples);

/// Every world_size-th sample, from sample `rank` on; those at the end that are not enough for all
/// ranks are left out, so that each rank has equally many. A Loader does this by itself, last of
/// all, as its options say; do it before what holds samples back, shuffled() say, and leave
/// LoaderOptions::world_size at 1.
IterablePtr sharded(IterablePtr from, int rank, int world_size);

/// One behind the other. Each is made when it is needed, and let go of at its end.
IterablePtr chain(std::vector<std::function<IterablePtr()>> parts);

/// The lines of a text file, a pipe or, for "-", standard input as "text", (length) u8 without the
/// end of the line. A pipe has no state, and goes on in the next epoch behind what was read in the
/// one before: after a break, what workers had read ahead is lost. Behind its end (each writer has
/// closed it) all epochs are empty. Throws FileError, as next() does for a line of more than 1 GiB.
IterablePtr open_lines(const std::string& path);

}  // namespace brim::data
