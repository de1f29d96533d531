#include "data/loader/iterable_source.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/check.h"
#include "data/iterable/adapters.h"

namespace brim::data {

void stack(std::span<const Sample> samples, Collated& out) {
  for (const SampleField& field : samples[0].fields()) {
    Shape shape = field.shape;
    shape.insert(0, static_cast<int64_t>(samples.size()));
    auto* to = static_cast<char*>(out.make(field.name, field.dtype, shape));
    const int64_t bytes = field.bytes();
    if (bytes == 0) continue;
    for (const Sample& sample : samples) {
      std::memcpy(to, sample[field.name].data, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
}

namespace {

/// What loaders read. Never destroyed: a loader may be a static object.
struct ReadData {
  std::mutex mutex;
  std::set<const IterableDataset*> all;

  static ReadData& of_process() {
    static auto& data = *new ReadData;
    return data;
  }
};

const IterableDataset* innermost(const IterableDataset* data) {
  while (const auto* const made = dynamic_cast<const MadeOfOne*>(data)) data = made->from().get();
  return data;
}

}  // namespace

ReadingRight::ReadingRight(const IterableDataset& data) : read_(innermost(&data)) {
  ReadData& read = ReadData::of_process();
  const std::lock_guard lock(read.mutex);
  BRIM_CHECK(read.all.insert(read_).second, ValueError,
             "[loader] another loader reads {}, and two at a time would take samples from each "
             "other; make a data set for each, or let go of the other loader and its epochs first",
             data.describe());
}

ReadingRight::~ReadingRight() {
  ReadData& read = ReadData::of_process();
  const std::lock_guard lock(read.mutex);
  read.all.erase(read_);
}

IterableSource::IterableSource(IterablePtr data, const LoaderOptions& options)
    : stream(std::move(data)) {
  BRIM_CHECK(stream != nullptr, ValueError, "[loader] an iterable data set that is null");
  BRIM_CHECK(!options.shuffle, ValueError,
             "[loader] an iterable data set has no samples to permute; say .shuffle = false, and "
             "for a random order give shuffled(data, buffer_samples, seed)");
  BRIM_CHECK(!options.sampler, ValueError,
             "[loader] a sampler chooses samples by number, and an iterable data set has none; "
             "leave the sampler out, and choose in the data set itself");
  BRIM_CHECK(!options.buckets, ValueError,
             "[loader] buckets are made of all lengths, which an iterable data set does not know "
             "ahead; leave the buckets out, and give LoaderOptions::collate data::pad()");
  while (const auto* const mapped = dynamic_cast<const MappedIterable*>(stream.get())) {
    maps.insert(maps.begin(), mapped->function());
    stream = IterablePtr(mapped->from());
  }
  right.emplace(*stream);
  if (options.world_size > 1) stream = sharded_last(stream, options.rank, options.world_size);
}

void IterableSource::note(const EpochPosition& position) {
  constexpr size_t kKept = 4;
  recent.push_back(position);
  if (recent.size() > kKept) recent.pop_front();
}

EpochPosition IterableSource::find(int64_t epoch, int64_t batch) {
  const std::lock_guard lock(mutex);
  const auto is_there = [&](const EpochPosition& p) {
    return p.epoch == epoch && p.batch == batch;
  };
  if (resume && is_there(*resume)) return *resume;
  const auto found = std::find_if(recent.rbegin(), recent.rend(), is_there);  // the newest
  if (found != recent.rend()) return *found;
  BRIM_CHECK(batch == 0, ValueError,
             "[loader] where epoch {} is before batch {} is not known; ask right after the batch "
             "before it",
             epoch, batch);
  // What has no state is no function of the epoch, either.
  if (!recent.empty() && recent.back().anchor && !recent.back().anchor->error.empty())
    throw ValueError(recent.back().anchor->error);
  return {.epoch = epoch, .batch = 0};
}

}  // namespace brim::data
