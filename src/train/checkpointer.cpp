#include "train/checkpointer.h"

#include <sys/resource.h>

#include <cmath>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/thread_id.h"
#include "diag/span.h"
#include "train/checkpoint_shards.h"
#include "train/run_folder.h"

namespace brim::train {

Checkpointer::Checkpointer(std::string folder, const CheckpointOptions& options, int64_t steps,
                           BestCheckpoint best, Warn warn, CheckpointShards* shards)
    : folder_(std::move(folder)),
      options_(options),
      warn_(std::move(warn)),
      shards_(shards),
      best_(best),
      saved_steps_(steps) {
  BRIM_CHECK(options.keep >= 1, ValueError,
             "[checkpoint] {} checkpoints are to be kept; it must be 1 or more", options.keep);
  BRIM_CHECK(options.every_steps >= 0 && options.every_seconds >= 0, ValueError,
             "[checkpoint] one every {} steps or {} s: neither may be below 0", options.every_steps,
             options.every_seconds);
}

Checkpointer::~Checkpointer() {
  try {
    (void)finish();
  } catch (const std::exception& e) {
    warn(fmt::format("the last checkpoint could not be written: {}", e.what()));
  }
}

bool Checkpointer::due(int64_t steps, int64_t count) const {
  if (folder_.empty()) return false;
  const int64_t every = options_.every_steps;
  if (every > 0 && steps / every != (steps - count) / every) return true;
  return !shards_ && overdue();
}

bool Checkpointer::overdue() const {
  return !folder_.empty() && options_.every_seconds > 0 &&
         std::chrono::duration<double>(Clock::now() - last_try_).count() >= options_.every_seconds;
}

void Checkpointer::warn(const std::string& line) const {
  if (shards_ && !shards_->leads()) return;  // rank 0 tells it
  try {
    if (warn_) warn_(line);
  } catch (...) {  // training goes on though nobody could be told
  }
}

void Checkpointer::take(const Written& written) {
  if (!written.error.empty()) {
    ++failures_;
    if (!failing_)
      warn(fmt::format(
          "the checkpoint of step {} could not be written: {}; training goes on, the last one "
          "stays, and the next is tried in its turn",
          written.steps, written.error));
    failing_ = true;
    return;
  }
  best_ = written.best;
  saved_steps_ = written.steps;
  ++written_;
  if (failing_) warn(fmt::format("checkpoints are written again (step {})", written.steps));
  if (!written.no_link.empty() && !without_link_) warn(written.no_link);
  without_link_ = !written.no_link.empty();
  failing_ = false;
}

Checkpointer::Written Checkpointer::write(int64_t steps, const BestCheckpoint& best,
                                          const CheckpointWriter& writer) const {
  Written written{.steps = steps, .best = best};
  const bool leads = !shards_ || shards_->leads();
  try {
    if (leads)
      written.no_link = save_checkpoint(folder_, steps, best, options_.keep, writer);
    else
      writer("", best);
  } catch (const FileError& e) {
    written.error = e.what();
  } catch (const std::exception& e) {
    if (shards_ && leads) shards_->finish(e.what());
    throw;
  }
  if (shards_ && leads) shards_->finish(written.error);
  return written;
}

bool Checkpointer::finish() {
  if (writing_.valid()) {
    const diag::Scope scope("checkpoint", diag::Cause::checkpoint);
    take(writing_.get());
  }
  return !failing_;
}

bool Checkpointer::save(int64_t steps, const std::function<Snapshot()>& make,
                        std::optional<double> score) {
  if (folder_.empty()) return false;
  (void)finish();
  BestCheckpoint best = best_;
  if (score && std::isfinite(*score) && (best_.steps == 0 || *score < best_.score))
    best = {.steps = steps, .score = *score};
  if (steps == saved_steps_) {  // its epoch's score was not known yet
    const bool links = !shards_ || shards_->leads();
    if (links && best.steps == steps && best_.steps != steps) (void)link_best(folder_, steps);
    best_ = best;
    return true;
  }
  const diag::Scope scope("checkpoint", diag::Cause::checkpoint);
  Snapshot snapshot = make();
  const auto write = [this, steps, best, writer = std::move(snapshot.write)] {
    return this->write(steps, best, writer);
  };
  last_try_ = Clock::now();
  if (snapshot.is_copy) {
    try {
      writing_ = std::async(std::launch::async, [write] {
        // Steps come first; while the loop waits for this, the cores are free.
        (void)setpriority(PRIO_PROCESS, static_cast<id_t>(thread_id()), 19);
        return write();
      });
      return true;
    } catch (const std::system_error&) {  // no more threads: here
    }
  }
  take(write());
  last_try_ = Clock::now();
  return !failing_;
}

}  // namespace brim::train
