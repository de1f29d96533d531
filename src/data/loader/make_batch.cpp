// How a worker makes a batch in a slot of the ring (see pipeline.h).
#include <utility>

#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/tf32.h>

#include "data/dataset/get_sample.h"
#include "data/loader/pipeline.h"
#include "data/loader/stand_in.h"

namespace brim::data {
namespace {

// A sample is the same whichever thread makes it: a worker, or the loop's, with scopes of its own.
struct PlainScopes {
  DeviceScope host{Device::cpu()};
  GradMode gradients{true};
  Autocast products{DType::f32};
  Tf32 full{false};
};

}  // namespace

bool Epoch::Pipeline::read_sample(int64_t sample, uint64_t key, Sample& to, Slot& slot,
                                  const SampleRows* rows, int64_t row) {
  slot.reading.store(sample, std::memory_order_relaxed);
  SampleAccess::begin(to, key, rows, row);
  const bool skips = state_->options.on_error != OnError::raise;
  try {
    get_sample(*state_->data, sample, to);
    if (skips && !rows) SampleAccess::check_like(to, state_->rows);
    return true;
  } catch (const FileError&) {
    if (!skips) throw;
  } catch (const ShapeError&) {  // of pictures: the transform does not fit them
    if (!skips || state_->pictures) throw;
  }
  return false;
}

void Epoch::Pipeline::read_samples(int64_t number, Slot& slot, Scratch& scratch) {
  std::vector<int64_t>& samples = slot.batch.samples;
  const bool stacks = !state_->options.collate;
  if (!stacks && scratch.samples.size() < samples.size()) scratch.samples.resize(samples.size());
  const SampleRows* const rows = stacks ? &slot.memory.rows() : nullptr;
  const bool replaces = state_->options.on_error == OnError::replace;
  size_t made = 0;
  slot.skipped = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t sample = samples[i];
    if (i + 1 < samples.size()) state_->data->prefetch(samples[i + 1]);
    Sample& to = scratch.samples[stacks ? 0 : made];
    const uint64_t key = sample_key(state_->options.seed, epoch_, sample);
    const auto row = static_cast<int64_t>(made);
    if (read_sample(sample, key, to, slot, rows, row)) {
      samples[made++] = sample;
    } else {
      ++slot.skipped;
      if (replaces) {
        const Order order(*state_->data, state_->options, state_->order->samples(), epoch_);
        const int64_t position = number * state_->options.batch + static_cast<int64_t>(i);
        samples[made++] = find_stand_in(*state_->data, order, position, sample, [&](int64_t next) {
          return read_sample(next, key, to, slot, rows, row);
        });
      }
    }
    scratch.reading += std::exchange(SampleAccess::reading(to), 0);
    scratch.decoding += std::exchange(SampleAccess::decoding(to), 0);
    scratch.augmenting += std::exchange(SampleAccess::augmenting(to), 0);
    if (!stacks) SampleAccess::hand_buffers(to, scratch.samples[made % scratch.samples.size()]);
  }
  samples.resize(made);
  if (stacks || made == 0) return;
  Collation collation(slot.memory, *state_);
  state_->options.collate({scratch.samples.data(), made}, collation);
}

void Epoch::Pipeline::fill(int64_t number, Slot& slot, Scratch& scratch) noexcept {
  slot.skipped = 0;
  slot.ends = false;
  slot.error = nullptr;
  scratch.reading = scratch.decoding = scratch.augmenting = scratch.copies = 0;
  scratch.iterable.augmenting = 0;
  const uint64_t begin = diag::ticks();
  const PlainScopes plain;
  try {
    slot.memory.finish_copies();
    scratch.copies = diag::ticks() - begin;
    if (pass_) {
      slot.made =
          pass_->make(number, slot.batch.samples, slot.memory, scratch.iterable, slot.reading);
      scratch.augmenting = scratch.iterable.augmenting;
      slot.skipped = slot.made.skipped;
      slot.ends = slot.made.ends;
    } else {
      state_->order->list(epoch_, number, slot.batch.samples);
      read_samples(number, slot, scratch);
    }
    // Where brim does not know how long reading took, making the batch was that.
    if (!state_->pictures) {
      const uint64_t all = diag::ticks() - begin;
      scratch.reading = all - std::min(all, scratch.copies + scratch.decoding + scratch.augmenting);
    }
    slot.batch.index = number;
  } catch (...) {
    slot.error = std::current_exception();
  }
  slot.reading.store(-1, std::memory_order_relaxed);
  try {  // what looks damaged, or was skipped, may have been cut off
    if (state_->data) state_->data->check();
  } catch (...) {
    slot.error = std::current_exception();
  }
  scratch.all = diag::ticks() - begin;
}

}  // namespace brim::data
