// Batches of a Loader on the devices that use them. While a step works on one batch, the next one
// is copied there by a stream of its own, out of pinned memory; or all pictures are uploaded once,
// and batches are made there.
//
//   data::DeviceLoader feed(loader, device);
//   for (int64_t e = 0; e < epochs; ++e)
//     for (data::Batch& batch : feed.epoch(e)) step(batch.x, batch.y);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/data/loader.h>

namespace brim::data {

/// Where pictures are cropped (at random), mirrored and made floats; the numbers are the same.
enum class AugmentOn : uint8_t {
  automatic,  ///< on a single cuda device where that is possible, or as LoaderOptions::raw says;
              ///< else on the host
  host,       ///< by the loader's threads
  device,     ///< there, from bytes: a quarter crosses the link
};

/// Options of DeviceLoader.
struct DeviceLoaderOptions {
  /// Where pictures are cropped, mirrored and normalised.
  AugmentOn augment_on = AugmentOn::automatic;
  /// Upload all pictures at once, as bytes, and make batches there: nothing is read or copied per
  /// batch but the order of an epoch, once.
  bool resident = false;
  /// Told how much is uploaded; returning false ends it with an Error.
  std::function<bool(double fraction)> progress = {};
};

/// One pass over the samples. Move-only; going out of scope early stops the workers at once. A
/// DeviceLoader runs one at a time: the epoch before ends where the next one begins.
class DeviceEpoch {
 public:
  ///@{
  /// Moves; what is left behind has no batches.
  DeviceEpoch(DeviceEpoch&&) noexcept;
  DeviceEpoch& operator=(DeviceEpoch&&) noexcept;
  ///@}
  ~DeviceEpoch();

  /// The next batch, x (N, C, H, W) f32 and y (N) i64 on the device, or null at the end. What uses
  /// it is queued on the device's current stream by the next call, or that stream waits for it.
  /// Waits for no device. Rethrows what its making threw; after that the epoch is at its end.
  /// Throws ValueError if the epoch was ended by another one.
  Batch* next();

  /// Queues the copy of the next batch now, waiting for the loader if need be; its errors show at
  /// next(). next() does so by itself as soon as the loader is ready, so this helps only before
  /// something that waits for the device: item(), a checkpoint.
  void prefetch();

  /// With DeviceLoaderOptions::resident: whether the next `count` batches are full ones. Then they
  /// are behind, and so many DeviceLoader::next_in_step() must follow, before another call of
  /// this epoch. Else nothing has changed. Throws ValueError for a count below 1.
  bool take(int64_t count);

  using Iterator = BatchIterator<DeviceEpoch>;  ///< over what is left of it
  ///@{
  /// For `for (Batch& batch : epoch)`; once.
  Iterator begin() { return {this, next()}; }
  Iterator end() { return {this, nullptr}; }
  ///@}

 private:
  friend class DeviceLoader;
  struct Link;
  explicit DeviceEpoch(std::unique_ptr<Link> link);
  void end_it() noexcept;
  std::unique_ptr<Link> link_;
};

/// Feeds one device, or several that share each batch. Batches are those of the loader, to the bit
/// and in its order. A batch's tensors belong to whoever holds them: memory is used again only when
/// nobody does. One thread at a time may use it.
class DeviceLoader {
 public:
  /// The loader is kept; where its batches are not made as the device wants them (pinned, raw),
  /// they come from another one like it (see Loader::placed), loader(). Throws ValueError,
  /// DeviceError; with `resident` OutOfMemory, with the sizes, before anything is uploaded;
  /// ValueError where pictures change from epoch to epoch; FileError for a damaged one.
  DeviceLoader(const Loader& loader, Device device, const DeviceLoaderOptions& options = {});
  /// Device k gets the k-th of equal parts of the samples of each batch in Batch::parts (the first
  /// ones are larger by one where they do not divide); with one device as above. Augmented on the
  /// host, and never resident.
  DeviceLoader(const Loader& loader, std::vector<Device> devices,
               const DeviceLoaderOptions& options = {});
  ///@{
  /// Moves; what is left behind feeds nothing.
  DeviceLoader(DeviceLoader&&) noexcept;
  DeviceLoader& operator=(DeviceLoader&&) noexcept;
  ///@}
  ~DeviceLoader();

  /// Starts epoch `epoch` at batch `first_batch`, as Loader::epoch() does.
  DeviceEpoch epoch(int64_t epoch, int64_t first_batch = 0);

  /// Each pass over the object itself is the next epoch: the one after that begun last, here or by
  /// epoch(); at first 0.
  DeviceEpoch::Iterator begin();
  DeviceEpoch::Iterator end() { return {nullptr, nullptr}; }  ///< the end of any epoch

  /// With DeviceLoaderOptions::resident: makes the next full batch, x and y alone, in one launch,
  /// which moves on to the one after it. For steps that find their batch themselves, so that
  /// several of them are one launch:
  ///
  ///   auto step = compile([&] { const data::Batch b = feed.next_in_step(); ... });
  ///   data::DeviceEpoch epoch = feed.epoch(e);
  ///   while (epoch.take(50)) step.repeat(50, {});
  ///   for (data::Batch& b : epoch) ...  // those that do not fill 50
  ///
  /// Throws ValueError where the data is not resident; IndexError, when the device is waited for,
  /// where DeviceEpoch::take() did not allow it and the samples are at their end.
  Batch next_in_step();

  const Loader& loader() const;                ///< where the batches come from
  const std::vector<Device>& devices() const;  ///< that it feeds, as given
  int64_t resident_bytes() const;  ///< of the data on the device; 0 if it is not resident
  int64_t skipped() const;         ///< left out or replaced so far, up to the batch handed out last
  /// "pictures as bytes, augmented on cuda:0": for logs.
  std::string describe() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace brim::data
