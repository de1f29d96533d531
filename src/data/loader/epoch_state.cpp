// Where epochs are, as a Loader tells it and takes it.
#include <brim/data/loader.h>

#include <utility>

#include "core/check.h"
#include "data/loader/epoch_position.h"
#include "data/loader/state.h"

namespace brim::data {

std::string Loader::State::state(int64_t epoch, int64_t batch) const {
  return to_bytes(iterable ? iterable->find(epoch, batch) : EpochPosition{epoch, batch}, options);
}

std::string Loader::state(int64_t epoch, int64_t batch) const {
  check_epoch(epoch, batch);
  return state_->state(epoch, batch);
}

void Loader::load_state(const std::string& state) const {
  EpochPosition position = position_of(state, state_->options);
  check_epoch(position.epoch, position.batch);
  BRIM_CHECK(is_iterable() || !position.anchor, ValueError,
             "[loader] the state is of an iterable data set, and this one is not; give the data "
             "set it was of");
  if (!is_iterable()) return;
  IterableSource& source = *state_->iterable;
  const std::lock_guard lock(source.mutex);
  source.resume = std::move(position);
  source.recent.clear();  // of the run before
}

Epoch Loader::epoch(int64_t epoch, const std::string& state) const {
  const EpochPosition position = position_of(state, state_->options);
  BRIM_CHECK(position.epoch == epoch, ValueError,
             "[loader] epoch {} from a state of epoch {}; ask for that", epoch, position.epoch);
  load_state(state);
  return this->epoch(epoch, position.batch);
}

}  // namespace brim::data
