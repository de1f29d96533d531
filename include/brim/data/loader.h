// Batches of a data set, made by worker threads ahead of the training loop. The order of the
// samples and every random choice are functions of (seed, epoch, sample): any number of workers
// gives the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/tensor.h>
#include <brim/data/batch.h>
#include <brim/data/collate.h>
#include <brim/data/dataset.h>
#include <brim/data/iterable.h>
#include <brim/data/sampler.h>
#include <brim/data/source.h>
#include <brim/data/transform.h>
#include <brim/data/worker_account.h>

namespace brim::data {

/// What a sample that cannot be read or decoded does; of a data set, one whose fields are not those
/// of the others, too.
enum class OnError : uint8_t {
  raise,  ///< the loop gets its error, with the sample's name
  skip,   ///< it is left out of its batch (which gets smaller) and counted
  /// The next one of the data set that can be read stands in for it, with a sampler the next one
  /// that it draws (of up to 1000), and it is counted: batches keep their size, as ranks need it.
  /// Where there is none, the loop gets a FileError. Not for iterable data.
  replace,
};

/// Options of Loader.
struct LoaderOptions {
  int64_t batch = 4;  ///< samples of a batch
  int workers =
      -1;  ///< threads; 0: the calling thread does the work; -1: chosen, and tuned while it runs
  int ahead = -1;          ///< batches made in advance, in ahead + 2 slots; -1: chosen and tuned
  bool shuffle = true;     ///< another order in each epoch; false: that of the data
  bool drop_last = false;  ///< leave out a last batch that is not full
  uint64_t seed = 0;       ///< of the order, and of what augments
  /// This process of `world_size`, each with batches of `batch`. Together the ranks' k-th batches
  /// are the k-th of one loader with world_size * batch, cut into runs: rank 0 has the first one.
  /// Batches in buckets, and samples of iterable data, are dealt out in turns.
  int rank = 0;
  int world_size = 1;  ///< how many ranks share each batch
  /// An epoch's samples are a multiple of this and of world_size: the first ones come again at its
  /// end, or with drop_last the last ones are left out.
  int64_t multiple_of = 1;
  OnError on_error = OnError::raise;  ///< what becomes of a sample that cannot be read
  /// Where the batches will be copied to. They are made on the CPU in any case; for cuda and sim in
  /// pinned memory, so that copies to such a device go on while the loop does other things.
  Device target = Device::cpu();
  /// Leave the last part of the transform to the device (crops and mirroring behind the last step
  /// that resizes, and the way to floats): batches hold bytes, a quarter of the memory. Throws
  /// ValueError where pictures have several sizes at that point.
  bool raw = false;
  /// Told of every choice of `workers` and `ahead`, a line each: by the constructor, and between
  /// batches by the thread that runs the loop.
  std::function<void(const std::string&)> log = {};
  /// Which samples an epoch has, in which order; null: all of them once, as `shuffle` says.
  std::shared_ptr<const Sampler> sampler = {};
  /// How samples become a batch; empty: they are stacked.
  Collate collate = {};
  /// Batches of samples of about one length.
  std::optional<Buckets> buckets = {};
};

/// One pass over the samples. Move-only; going out of scope early stops the workers at once.
class Epoch {
 public:
  class Pipeline;
  explicit Epoch(std::unique_ptr<Pipeline> pipeline);  ///< for Loader
  ///@{
  /// Moves; what is left behind has no batches.
  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;
  ///@}
  ~Epoch();

  /// The next batch, or null at the end. The batch before it is given back, its tensors are not.
  /// Rethrows what a worker threw for this batch; after that the epoch is at its end.
  Batch* next();

  /// Whether next() would neither wait for a worker nor work itself.
  bool ready() const;

  /// Samples left out or replaced so far, up to the batch that next() returned last.
  int64_t skipped() const;

  /// Where the epoch is behind the batch that next() returned last, for Loader::epoch(): bytes to
  /// be kept. Throws ValueError where iterable data has no state.
  std::string state() const;

  using Iterator = BatchIterator<Epoch>;  ///< over what is left of it
  ///@{
  /// For `for (Batch& batch : epoch)`; once.
  Iterator begin() { return {this, next()}; }
  Iterator end() { return {this, nullptr}; }
  ///@}

 private:
  std::unique_ptr<Pipeline> pipeline_;
};

/// Cuts a data set into batches: `for (data::Batch& b : loader.epoch(e)) ...`. A handle: copies are
/// the same loader.
class Loader {
 public:
  /// Throws ValueError for impossible options; FileError if no sample can be decoded to learn the
  /// shape.
  explicit Loader(std::shared_ptr<const Source> source, const Transform& transform = {},
                  const LoaderOptions& options = {});
  /// Batches of any fields. A first sample is read to learn their names and shapes. Throws as
  /// above, and what reading that sample throws.
  explicit Loader(std::shared_ptr<const Dataset> data, const LoaderOptions& options = {});
  /// Batches of samples as they come; a sample's number is its place in the epoch. Nothing is read
  /// before an epoch begins, and one epoch at a time is: the next one ends it. Throws ValueError
  /// where another Loader (or an epoch of it) that is not a copy of this one reads the data, for
  /// `shuffle`, `sampler`, `buckets` and `raw`, and for what is asked ahead: batches(), samples(),
  /// sample_at(), dataset().
  Loader(std::shared_ptr<IterableDataset> data, const LoaderOptions& options);

  /// Starts epoch `epoch` at batch `first_batch`; equal to a full epoch from there on, bit for bit.
  Epoch epoch(int64_t epoch, int64_t first_batch = 0) const;
  /// Goes on where Epoch::state() or state() was. Throws ValueError for that of another epoch or
  /// another batch or seed, and what IterableDataset::load_state() throws.
  Epoch epoch(int64_t epoch, const std::string& state) const;
  /// Where epoch `epoch` is before batch `batch`; of iterable data one of the last few that were
  /// handed out, by this loader or one that feeds a device from it, or 0. Throws ValueError where
  /// that is not known or iterable data has no state.
  std::string state(int64_t epoch, int64_t batch) const;
  /// Lets epoch() at the place of `state` go on from it. Without that, iterable data is read from
  /// the epoch's beginning up to there.
  void load_state(const std::string& state) const;
  /// Throws ValueError where epoch() would.
  void check_epoch(int64_t epoch, int64_t first_batch) const;

  /// Each pass over the loader itself is the next epoch: the one after that begun last, here or by
  /// epoch(); at first 0.
  Epoch::Iterator begin() const { return Epoch::Iterator(epoch(next_epoch())); }
  Epoch::Iterator end() const { return {nullptr, nullptr}; }  ///< the end of any epoch
  int64_t next_epoch() const;                                 ///< that begin() would begin

  int64_t batches() const;  ///< in an epoch of this rank
  int64_t samples() const;  ///< in an epoch of this rank
  /// The sample at `position` of this rank's epoch, 0 <= position < samples(). Throws ValueError
  /// with LoaderOptions::buckets.
  int64_t sample_at(int64_t epoch, int64_t position) const;

  /// Whether windows() can be asked for: no random choice before the last part of the transform
  /// changes what there is to crop.
  bool has_windows() const;
  /// With LoaderOptions::raw: row p of (samples(), 4) i32 is what sample_at(epoch, p) shows, as in
  /// Batch::windows but with the sample itself in front. Throws ValueError without has_windows().
  Tensor windows(int64_t epoch) const;
  /// The same pictures with LoaderOptions::raw, all of them, in the order of the source.
  Loader in_order(int64_t batch) const;
  /// The same batches made for another place: LoaderOptions::target and raw. It is this loader
  /// where nothing is to be changed. Throws ValueError, DeviceError.
  Loader placed(Device target, bool raw) const;
  /// Another loader of the same batches, made by so many threads (LoaderOptions::workers); empty:
  /// as many as this one was asked for. Throws ValueError.
  Loader with_workers(std::optional<int> workers = {}) const;

  bool is_iterable() const;  ///< without random access, and of a length that nobody knows
  /// What it reads. Throws ValueError for iterable data.
  const Dataset& dataset() const;
  /// Of pictures. This and what else is about pictures throws ValueError for other data sets.
  const Source& source() const;
  bool has_pictures() const;             ///< whether it reads labelled pictures of a Source
  const Collate& collate() const;        ///< as asked for: empty where samples are stacked
  const LoaderOptions& options() const;  ///< with workers and ahead as chosen at first
  int workers() const;                   ///< threads of an epoch that starts now
  int slots() const;                     ///< batches that it holds memory for
  int64_t ready_batches() const;         ///< made by workers and not yet asked for, right now
  /// Why there are so many workers and slots: the lines that `LoaderOptions::log` gets.
  std::vector<std::string> decisions() const;
  /// What each worker did in the epochs that have ended; more than workers() where there were more.
  std::vector<WorkerAccount> worker_accounts() const;
  const Transform& transform() const;  ///< what is done to pictures
  ImageShape sample_shape() const;     ///< after the transform
  ImageShape raw_shape() const;        ///< before its last part; {0, 0, 0} if pictures differ there
  int64_t skipped() const;             ///< samples left out or replaced so far, over all epochs
  /// "1 worker (2 CPUs, source in memory), 18 slots of 48 KiB": for logs; as it is now.
  std::string describe() const;

  struct State;

 private:
  explicit Loader(std::shared_ptr<State> state);
  Loader with(const LoaderOptions& options) const;
  std::shared_ptr<State> state_;
};

}  // namespace brim::data
