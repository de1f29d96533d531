#include "data/loader/epoch_position.h"

#include <cstdint>

#include "core/check.h"
#include "data/iterable/state_bytes.h"

namespace brim::data {

std::string to_bytes(const EpochPosition& position, const LoaderOptions& options) {
  StateWriter to("epoch");
  to.number(options.batch).text(fmt::format("{}", options.seed));
  to.number(position.epoch).number(position.batch).number(position.anchor != nullptr);
  if (!position.anchor) return to.take();
  const Anchor& anchor = *position.anchor;
  BRIM_CHECK(anchor.error.empty(), ValueError, "{}", anchor.error);
  to.number(anchor.samples).text(anchor.state).number(position.samples).number(position.ended);
  to.number(position.rows ? static_cast<int64_t>(position.rows->fields.size()) : 0);
  if (position.rows)
    for (const SampleRows::Field& row : position.rows->fields)
      to.layout(row.name, row.dtype, row.shape);
  return to.take();
}

EpochPosition position_of(const std::string& bytes, const LoaderOptions& options) {
  StateReader read(bytes, "epoch");
  read.same("batch", options.batch);
  BRIM_CHECK(read.text() == fmt::format("{}", options.seed), ValueError,
             "[loader] the state is of a loader with another seed; give the seed it was of");
  EpochPosition position{.epoch = read.number(), .batch = read.number()};
  BRIM_CHECK(position.batch <= INT64_MAX / options.batch, ValueError,
             "[loader] a state before batch {} of {} samples; it is damaged", position.batch,
             options.batch);
  if (read.number() != 0) {
    Anchor anchor{.samples = read.number(), .state = std::string(read.text()), .error = {}};
    position.samples = read.number();
    BRIM_CHECK(anchor.samples <= position.samples, ValueError,
               "[loader] a state of sample {} behind sample {}; it is damaged", anchor.samples,
               position.samples);
    position.ended = read.number() != 0;
    const int64_t full = position.batch * options.batch;
    BRIM_CHECK(position.samples == full || (position.ended && position.samples < full), ValueError,
               "[loader] a state of {} samples before batch {} of {}; it is damaged",
               position.samples, position.batch, options.batch);
    position.anchor = std::make_shared<const Anchor>(std::move(anchor));
    SampleRows rows;
    for (int64_t count = read.number(); count > 0; --count) {
      StateReader::Layout field = read.layout();
      rows.fields.push_back({std::move(field.name), field.dtype, field.shape, field.bytes});
    }
    if (!rows.fields.empty()) position.rows = std::make_shared<const SampleRows>(std::move(rows));
  }
  read.end();
  return position;
}

}  // namespace brim::data
