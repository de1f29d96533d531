#include "plan/recomputation.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "backend/fused/fused_norm.h"

namespace brim::plan {
namespace {

constexpr std::array kSaved = {"x", "weight", "bias", "mean", "scale"};

const backend::BatchNormAgain& from_saved() {
  static const backend::BatchNormAgain kernel("batch_norm_again");
  return kernel;
}

bool has_relu(const Launch& l) { return is(l, "batch_norm_relu"); }
Tensor residual_of(const Launch& l) { return has_relu(l) ? l.operand("residual") : Tensor(); }

bool is_written_between(const Uses& uses, const Storage& storage, int first, int last) {
  return std::ranges::any_of(uses.writers(storage), [&](int w) { return w > first && w <= last; });
}

}  // namespace

Recomputation::Recomputation(const Program& program, const Uses& uses, int index, const Storage& y,
                             int before) {
  Launch& l = *program.launches[static_cast<size_t>(index)];
  if (uses.writers(y).size() != 1 || l.refresh || l.commit || l.communication ||
      l.stream != backend::PlanStream::main)
    return;
  const bool saved = (is(l, "batch_norm") || has_relu(l)) && l.operand("y").storage().get() == &y &&
                     from_saved().exists(l.device(), l.dtype());
  std::vector<const Storage*> reads;
  const auto is_read = [&](const Tensor& t) {
    if (t.defined()) reads.push_back(t.storage().get());
  };
  if (saved) {
    for (const char* name : kSaved) is_read(l.operand(name));
    is_read(residual_of(l));
  } else {
    for (const Operand& o : l.operands()) {
      if (!o.tensor->defined()) continue;
      const Storage& storage = *o.tensor->storage();
      if (!o.writes)
        reads.push_back(&storage);
      else if (l.traits(o).reads || !program.temporary(*o.tensor))
        return;
    }
    if (std::ranges::find(reads, &y) != reads.end()) return;  // in place
  }
  for (const Storage* storage : reads)
    if (is_written_between(uses, *storage, index, before)) return;
  launch_ = &l;
  y_ = &y;
  from_saved_ = saved;
  reads_ = std::move(reads);
}

double Recomputation::seconds() const { return launch_->estimated_seconds(); }

std::unique_ptr<Launch> Recomputation::make(Program& program, Tensor& result) const {
  std::unordered_map<const Storage*, Ref<Storage>> made;
  const auto fresh = [&](const Tensor& t) {
    Ref<Storage>& storage = made[t.storage().get()];
    if (!storage) {
      storage = Storage::wrap(nullptr, t.storage()->bytes(), program.device, {});
      program.set_role(*storage, Role::temporary);
    }
    return over(t, storage);
  };
  std::unique_ptr<Launch> again;
  if (from_saved_) {
    Tensor y = result = fresh(launch_->operand("y"));
    return from_saved().launch(program.device, launch_->dtype(), launch_->operand("x"),
                               launch_->operand("weight"), launch_->operand("bias"),
                               launch_->operand("mean"), launch_->operand("scale"),
                               residual_of(*launch_), y, has_relu(*launch_));
  }
  again = launch_->clone();
  for (const Operand& o : again->operands()) {
    if (!o.writes || !o.tensor->defined()) continue;
    const bool is_result = o.tensor->storage().get() == y_;
    *o.tensor = fresh(*o.tensor);
    if (is_result) result = *o.tensor;
  }
  return again;
}

void Recomputation::set_repeatable(bool repeatable) const {
  if (from_saved_ && (!has_relu(*launch_) || residual_of(*launch_).defined()))
    launch_->option<backend::BatchNormParams>()->repeatable = repeatable;
}

}  // namespace brim::plan
