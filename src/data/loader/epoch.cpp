// The handle of one pass over a loader's samples.
#include <utility>

#include "data/loader/loop_watch.h"
#include "data/loader/pipeline.h"

namespace brim::data {

Epoch::Epoch(std::unique_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
Epoch::Epoch(Epoch&&) noexcept = default;
Epoch& Epoch::operator=(Epoch&&) noexcept = default;
Epoch::~Epoch() = default;

Batch* Epoch::next() {
  LoaderCall call({}, pipeline_->loader(), nullptr);
  Batch* const batch = pipeline_->next();
  call.took(batch ? 1 : 0);
  return batch;
}
bool Epoch::ready() const { return pipeline_->ready(); }
int64_t Epoch::skipped() const { return pipeline_->skipped(); }
std::string Epoch::state() const { return pipeline_->state(); }

}  // namespace brim::data
