// See resident_feed.h.
#include "data/loader/resident_feed.h"

#include <brim/core/allocator.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/runtime.h"
#include "core/start_thread.h"
#include "data/loader/order.h"
#include "data/loader/stand_in.h"
#include "diag/span.h"
#include "formula/picture.h"

namespace brim::data {
namespace {

formula::PictureWindow* rows_of(const Tensor& order) {
  return static_cast<formula::PictureWindow*>(order.raw());
}

void check_room(const Loader& loader, Device device) {
  const int64_t count = loader.source().size();
  const ImageShape shape = loader.raw_shape();
  const int64_t need = count * (shape.bytes() + 8) + 16 * loader.samples();
  const MemoryStats stats = Allocator::of(device).stats();
  int64_t room = static_cast<int64_t>(runtime(device.kind).memory(device.index).free) + stats.idle;
  if (stats.limit > 0) room = std::min(room, stats.limit - stats.live - stats.cached + stats.idle);
  if (need <= room) return;
  throw OutOfMemory(
      fmt::format(
          "[data] {} pictures of {} x {} x {} take {} bytes on {}, which has room for {}{}; "
          "leave DeviceLoaderOptions::resident out, or make them smaller "
          "(Resize, input.size)",
          count, shape.channels, shape.height, shape.width, need, device.str(),
          std::max<int64_t>(room, 0),
          stats.limit > 0 ? fmt::format(" under the limit of {}", stats.limit) : ""),
      need, room, stats.cached);
}

}  // namespace

ResidentFeed::ResidentFeed(const Loader& loader, Device device,
                           const std::function<bool(double)>& progress)
    : loader_(loader),
      device_(device),
      pictures_of_source_(loader.source().size()),
      full_(std::min(loader.options().batch, loader.samples())),
      batches_(loader, device) {
  BRIM_CHECK(loader_.has_windows(), ValueError,
             "[data] the pictures of {} change in every epoch before the last crop "
             "(RandomResizedCrop, random_resized_crop), so that none can stay on {}; leave "
             "DeviceLoaderOptions::resident out",
             loader_.source().describe(0), device_.str());
  check_room(loader_, device_);
  const ImageShape shape = loader_.raw_shape();
  pictures_ = empty({pictures_of_source_, shape.channels, shape.height, shape.width},
                    {.dtype = DType::u8, .device = device_});
  windows_ = empty({loader_.samples(), 4}, {.dtype = DType::i32, .device = device_});
  position_ = zeros({2}, {.dtype = DType::i64, .device = device_});
  // Behind the last window, until an epoch begins: nobody has filled them yet.
  position_.slice(0, 0, 1).fill_(static_cast<double>(loader_.samples()));
  upload(progress);
  used_.record(Stream::current(device_));
}

int64_t ResidentFeed::resident_bytes() const {
  return pictures_.numel() + 8 * labels_.numel() + 4 * windows_.numel();
}

void ResidentFeed::upload(const std::function<bool(double)>& progress) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const int64_t bytes = std::max<int64_t>(loader_.raw_shape().bytes(), 1);
  const Loader all = loader_.in_order(std::clamp<int64_t>(kPiece / bytes, 1, pictures_of_source_));
  std::vector<int64_t> labels(static_cast<size_t>(pictures_of_source_), 0);
  std::vector<bool> missing(labels.size(), true);
  int64_t found = 0;
  Epoch pieces = all.epoch(0);
  while (const Batch* piece = pieces.next()) {
    const int64_t* const label = piece->y.data<int64_t>();
    const auto n = static_cast<int64_t>(piece->samples.size());
    for (int64_t i = 0; i < n;) {  // what lies side by side goes in one copy
      const int64_t sample = piece->samples[static_cast<size_t>(i)];
      int64_t run = 0;
      for (; i + run < n && piece->samples[static_cast<size_t>(i + run)] == sample + run; ++run) {
        labels[static_cast<size_t>(sample + run)] = label[i + run];
        missing[static_cast<size_t>(sample + run)] = false;
      }
      pictures_.slice(0, sample, sample + run).copy_(piece->x.slice(0, i, i + run));
      i += run, found += run;
    }
    const double done = static_cast<double>(piece->index + 1);
    if (progress && !progress(done / static_cast<double>(all.batches())))
      raise<Error>("[data] stopped while the pictures were uploaded");
  }
  labels_ = Tensor::from(labels, {pictures_of_source_}, device_);
  BRIM_CHECK(found > 0 || loader_.options().on_error != OnError::replace, FileError,
             "[data] not one of the {} pictures of {} can be read; give other data",
             pictures_of_source_, loader_.source().describe(0));
  if (found < pictures_of_source_) missing_ = std::move(missing);
}

void ResidentFeed::leave_out_missing(int64_t epoch) {
  const int64_t count = loader_.batches(), samples = loader_.samples();
  const bool replaces = loader_.options().on_error == OnError::replace;
  first_rows_.assign(1, 0);
  lost_before_.assign(1, 0);
  formula::PictureWindow* const row = rows_of(order_);
  int64_t kept = 0, lost = 0;
  for (int64_t batch = 0; batch < count; ++batch) {
    const int64_t end = std::min((batch + 1) * loader_.options().batch, samples);
    for (int64_t p = batch * loader_.options().batch; p < end; ++p) {
      if (is_missing(row[p].picture)) {
        ++lost;
        if (!replaces) continue;
        const Order order(loader_.dataset(), loader_.options(), samples, epoch);
        row[p].picture = static_cast<int32_t>(
            find_stand_in(loader_.dataset(), order, p, row[p].picture,
                          [&](int64_t next) { return !is_missing(static_cast<int32_t>(next)); }));
      }
      row[kept++] = row[p];
    }
    first_rows_.push_back(kept);
    lost_before_.push_back(lost);
  }
}

void ResidentFeed::count_lost(int64_t count) {
  const auto first = static_cast<size_t>(at_);
  skipped_ += lost_before_[first + static_cast<size_t>(count)] - lost_before_[first];
}

void ResidentFeed::start(int64_t epoch, int64_t first_batch) {
  const diag::Span span("order", diag::Cause::input);
  loader_.check_epoch(epoch, first_batch);
  finish();
  used_.wait(Stream::current(device_));  // which may be another one than before
  at_ = first_batch;
  if (epoch != epoch_) {
    const auto order_of = [loader = loader_](int64_t e) { return loader.windows(e); };
    const bool made = next_order_.valid() && epoch == epoch_ + 1;
    epoch_ = -1;  // until all of it is known
    order_ = made ? next_order_.get() : order_of(epoch);
    next_order_ = {};
    leave_out_missing(epoch);
    windows_.copy_(order_);
    epoch_ = epoch;
    if (loader_.options().shuffle)
      next_order_ =
          start_thread([&] { return std::async(std::launch::async, order_of, epoch + 1); });
  }
  position_.slice(0, 0, 1).fill_(static_cast<double>(first_row(first_batch)));
}

void ResidentFeed::finish() {
  if (batch_.x.defined()) used_.record(Stream::current(device_));
  batch_.x = batch_.y = {};
}

bool ResidentFeed::take(int64_t count) {
  if (count > loader_.batches() - at_) return false;
  for (int64_t i = 0; i < count; ++i)
    if (rows(at_ + i) != full_) return false;
  count_lost(count);
  at_ += count;
  return true;
}

Batch ResidentFeed::next_in_step() {
  Batch batch;
  batches_.make(pictures_, labels_, windows_, position_, full_, full_, batch);
  return batch;
}

Batch* ResidentFeed::next() {
  const diag::Span span("batch", diag::Cause::dispatch);
  finish();
  while (at_ < loader_.batches()) {
    const int64_t n = rows(at_);
    count_lost(1);
    const int64_t batch = at_++;
    if (n == 0) continue;
    batch_.index = batch;
    batch_.samples.resize(static_cast<size_t>(n));
    const formula::PictureWindow* const row = rows_of(order_) + first_row(batch);
    std::transform(row, row + n, batch_.samples.begin(),
                   [](const formula::PictureWindow& w) { return w.picture; });
    try {
      batches_.make(pictures_, labels_, windows_, position_, n, n, batch_);
    } catch (...) {  // the epoch is at its end, so that no batch is missing in its middle
      at_ = loader_.batches();
      throw;
    }
    return &batch_;
  }
  return nullptr;
}

}  // namespace brim::data
