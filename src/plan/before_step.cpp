#include "plan/before_step.h"

#include "core/runtime.h"

namespace brim::plan {

BeforeStep::BeforeStep(const Program& program, std::span<const Ref<Storage>> written)
    : program_(program), stream_(Stream::current(program.device)) {
  for (const Ref<Storage>& s : written) {
    Saved& saved = saved_.emplace_back(Saved{s.get(), std::vector<char>(s->bytes())});
    runtime(program.device.kind)
        .copy(saved.bytes.data(), Device::cpu(), s->data(), program.device, s->bytes(), stream_);
  }
  for (const Program::Draws& d : program.draws) generators_.push_back(d.generator->state());
  stream_.synchronize();
}

void BeforeStep::put_back() const {
  for (const Saved& saved : saved_)
    runtime(program_.device.kind)
        .copy(saved.storage->data(), program_.device, saved.bytes.data(), Device::cpu(),
              saved.bytes.size(), stream_);
  for (size_t i = 0; i < generators_.size(); ++i)
    program_.draws[i].generator->set_state(generators_[i]);
  stream_.synchronize();
}

}  // namespace brim::plan
