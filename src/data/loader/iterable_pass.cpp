#include "data/loader/iterable_pass.h"

#include <new>
#include <utility>

#include "core/check.h"
#include "data/dataset/get_sample.h"
#include "diag/span.h"

namespace brim::data {
namespace {

constexpr int64_t kSmallState = 4096;  // is asked for once a batch

int64_t bytes_of(const Sample& sample) {
  int64_t bytes = 0;
  for (const SampleField& field : sample.fields()) bytes += field.bytes();
  return bytes;
}

void check_filled(const Sample& sample) {
  BRIM_CHECK(!sample.fields().empty(), ValueError,
             "it has no fields; fill it with Sample::make() or set()");
}

/// Keeps the samples, and their numbers, that test() is true for.
template <class Test>
void keep_if(std::vector<int64_t>& numbers, std::vector<Sample>& samples,
             std::atomic<int64_t>& reading, const Test& test) {
  size_t kept = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    reading.store(numbers[i], std::memory_order_relaxed);
    if (!test(samples[i])) continue;
    if (kept != i) std::swap(samples[kept], samples[i]);
    numbers[kept++] = numbers[i];
  }
  numbers.resize(kept);
}

}  // namespace

IterablePass::IterablePass(const Loader::State& loader, int64_t epoch, int64_t first_batch)
    : loader_(loader),
      source_(*loader.iterable),
      stacks_(!loader.wanted.collate),
      skips_(loader.options.on_error == OnError::skip),
      turn_(first_batch),
      settled_(first_batch) {
  const std::lock_guard lock(source_.mutex);
  if (source_.running) {
    source_.running->superseded_ = true;
    source_.running->halt();
  }
  EpochPosition from{.epoch = epoch, .batch = first_batch};
  const std::optional<EpochPosition>& resume = source_.resume;
  if (resume && resume->epoch == epoch && resume->batch == first_batch) from = *resume;
  {
    const std::lock_guard reading(source_.reading);
    begin(from);
  }
  source_.resume.reset();
  source_.note(at_);
  source_.running = this;
}

void IterablePass::begin(const EpochPosition& from) {
  source_.stream->begin(from.epoch);
  rows_ = from.rows;
  at_ = from;
  at_.ended = false;
  int64_t until = from.batch * loader_.options.batch;
  if (from.anchor) {
    load(from.anchor->state);
    until = from.samples;
    at_.samples = from.anchor->samples;
  }
  Scratch scratch;
  std::exception_ptr ignored;
  while (!at_.ended && at_.samples < until) {
    const Got got = read_one(at_.samples, scratch.read, ignored);
    if (got == Got::end) at_.ended = true;
    at_.samples += got != Got::end;
    if (got != Got::sample) continue;
    bytes_ += bytes_of(scratch.read);
    if (has_rows() && !rows_ && apply_maps(scratch.read, scratch, ignored))
      rows_ = std::make_shared<const SampleRows>(SampleAccess::rows(scratch.read));
  }
  BRIM_CHECK(!from.anchor || at_.samples == until, ValueError,
             "[loader] the state is of {} samples, and {} ends after {}; give the data that it was "
             "of",
             until, source_.stream->describe(), at_.samples);
  at_.ended = at_.ended || from.ended;
  at_.rows = rows_;
  if (!at_.anchor) anchor_here();
}

void IterablePass::load(const std::string& state) const {
  try {
    source_.stream->load_state(state);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    raise<ValueError>("[data] {} takes no such state: {}", source_.stream->describe(), e.what());
  }
}

IterablePass::~IterablePass() {
  const std::lock_guard lock(source_.mutex);
  if (source_.running == this) source_.running = nullptr;
}

void IterablePass::halt() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  turns_.notify_all();
  if (!busy_) return;
  try {
    source_.stream->interrupt();
  } catch (...) {  // an epoch ends all the same: it may be in a destructor
  }
}

void IterablePass::stop() {
  const std::lock_guard lock(source_.mutex);
  if (source_.running == this) halt();
}

void IterablePass::check_running() const {
  BRIM_CHECK(!superseded_, ValueError,
             "[loader] this epoch ended when the next one of its iterable data set began; to run "
             "two at a time, make two data sets");
}

void IterablePass::hand_over(EpochPosition after) {
  {
    const std::lock_guard lock(mutex_);
    after.rows = rows_;
  }
  const std::lock_guard lock(source_.mutex);
  if (source_.running == this) source_.note(after);
}

void IterablePass::anchor_here() {
  Anchor anchor{.samples = at_.samples, .state = {}, .error = {}};
  try {
    anchor.state = source_.stream->state();
  } catch (const std::exception& e) {  // whoever asks is told
    anchor.error = e.what();
  }
  at_.anchor = std::make_shared<const Anchor>(std::move(anchor));
  bytes_ = 0;
}

template <class F>
bool IterablePass::attempt(const Sample& sample, std::exception_ptr& lost, const F& f) const {
  try {
    read_named([&] { return sample.describe(); }, f);
    return true;
  } catch (const FileError&) {
    if (!skips_) throw;
    lost = std::current_exception();
  } catch (const ShapeError&) {
    if (!skips_) throw;
    lost = std::current_exception();
  }
  return false;
}

IterablePass::Got IterablePass::read_one(int64_t number, Sample& to, std::exception_ptr& lost) {
  const LoaderOptions& o = loader_.options;
  const int64_t global = number * o.world_size + o.rank;
  // What is read is the same for all ranks, so that their states are; Sharded tells draws apart.
  SampleAccess::begin(to, sample_key(o.seed, at_.epoch, number));
  SampleAccess::is_from(to, *source_.stream, global);
  bool more = true;
  const bool good = attempt(to, lost, [&] {
    more = source_.stream->next(to);
    if (more) check_filled(to);
  });
  if (!good) return Got::broken;
  return more ? Got::sample : Got::end;
}

void IterablePass::read(int64_t number, std::vector<int64_t>& numbers, Scratch& scratch,
                        std::atomic<int64_t>& reading, Made& made) {
  struct NextTurn {
    ~NextTurn() {
      {
        const std::lock_guard lock(pass.mutex_);
        ++pass.turn_;
      }
      pass.turns_.notify_all();
    }
    IterablePass& pass;
  };
  {
    std::unique_lock lock(mutex_);
    turns_.wait(lock, [&] { return turn_ == number || stopped_; });
    made.ends = stopped_;
  }
  if (made.ends) return;
  const NextTurn next{*this};
  const LoaderOptions& o = loader_.options;
  if (!at_.ended) {
    const std::lock_guard lock(source_.reading);
    try {
      for (int64_t k = 0; k < o.batch && !at_.ended; ++k) {
        busy_ = true;
        if (stopped_) break;
        const int64_t sample = at_.samples;
        reading.store(sample * o.world_size + o.rank, std::memory_order_relaxed);
        const Got got = read_one(sample, scratch.read, made.lost);
        at_.ended = got == Got::end;
        at_.samples += got != Got::end;
        made.skipped += got == Got::broken;
        if (got != Got::sample) continue;
        bytes_ += bytes_of(scratch.read);
        if (scratch.samples.size() == numbers.size()) scratch.samples.emplace_back();
        SampleAccess::hand_over(scratch.read, scratch.samples[numbers.size()]);
        numbers.push_back(sample * o.world_size + o.rank);
      }
      at_.batch = number + 1;
      // A large state costs no more than reading what came since the last one.
      if (at_.anchor->error.empty() && !stopped_ &&
          bytes_ + kSmallState >= static_cast<int64_t>(at_.anchor->state.size()))
        anchor_here();
    } catch (...) {
      busy_ = false;
      at_.ended = true;  // for those behind
      throw;
    }
    busy_ = false;
    const int64_t read = static_cast<int64_t>(numbers.size()) + made.skipped;
    if (o.drop_last && read < o.batch) numbers.clear();
  }
  made.ends = at_.ended || stopped_;
  made.after = at_;
}

bool IterablePass::apply_maps(Sample& sample, Scratch& scratch, std::exception_ptr& lost) const {
  const diag::AddTicks time(scratch.augmenting);
  return attempt(sample, lost, [&] {
    for (const auto& map : source_.maps) {
      SampleAccess::begin_after(sample, scratch.mapped);
      map(sample, scratch.mapped);
      SampleAccess::hand_over(scratch.mapped, sample);
    }
    check_filled(sample);
  });
}

void IterablePass::check_like(const Sample& sample, const SampleRows& rows, Sample& probe) const {
  if (!stacks_) return SampleAccess::check_like(sample, rows);
  SampleAccess::begin(probe, 0, &rows, 0);
  for (const SampleField& field : sample.fields())
    (void)probe.make(field.name, field.dtype, field.shape);
  SampleAccess::check_row(probe);
}

std::shared_ptr<const SampleRows> IterablePass::settle(int64_t number, const Sample* first) {
  std::unique_lock lock(mutex_);
  if (rows_) return rows_;
  turns_.wait(lock, [&] { return rows_ || settled_ == number || stopped_; });
  if (!rows_ && first) rows_ = std::make_shared<const SampleRows>(SampleAccess::rows(*first));
  settled_ = number + 1;
  turns_.notify_all();
  return rows_;
}

IterablePass::Made IterablePass::make(int64_t number, std::vector<int64_t>& numbers,
                                      BatchMemory& memory, Scratch& scratch,
                                      std::atomic<int64_t>& reading) {
  Made made;
  numbers.clear();
  std::vector<Sample>& samples = scratch.samples;
  bool settled = !has_rows();
  try {
    read(number, numbers, scratch, reading, made);
    if (stopped_) {  // what was read may end where next() was interrupted
      numbers.clear();
      return made;
    }
    const size_t read = numbers.size();
    if (!source_.maps.empty())
      keep_if(numbers, samples, reading,
              [&](Sample& sample) { return apply_maps(sample, scratch, made.lost); });
    if (has_rows()) {
      settled = true;
      const auto rows = settle(number, numbers.empty() ? nullptr : samples.data());
      keep_if(numbers, samples, reading, [&](Sample& sample) {
        return attempt(sample, made.lost, [&] { check_like(sample, *rows, scratch.probe); });
      });
    }
    made.skipped += static_cast<int64_t>(read - numbers.size());
    if (numbers.empty()) return made;
    Collation collation(memory, loader_);
    loader_.options.collate({samples.data(), numbers.size()}, collation);
  } catch (...) {
    if (!settled) settle(number, nullptr);  // those behind wait for it
    throw;
  }
  return made;
}

}  // namespace brim::data
