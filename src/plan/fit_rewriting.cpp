#include "plan/fit_rewriting.h"

#include <algorithm>

#include "backend/fused/mask_bits.h"
#include "backend/host_copy.h"
#include "plan/layout.h"
#include "plan/stream_order.h"

namespace brim::plan {

FitRewriting::FitRewriting(Program& program, const FitModel& model, const Solution& solution)
    : program_(program), added_(program.launches.size()) {
  for (size_t t = 0; t < solution.choices.size(); ++t)
    if (solution.choices[t] != Choice::keep)
      move(model, t, solution.choices[t], solution.schedule.trips[t]);
  std::vector<std::unique_ptr<Launch>> launches;
  const auto add = [&](std::unique_ptr<Launch> launch) {
    new_.insert(launch.get());
    launches.push_back(std::move(launch));
  };
  for (size_t i = 0; i < added_.size(); ++i) {
    const auto by_number = [](const auto& entry) { return entry.first; };
    std::ranges::stable_sort(added_[i].fetches, {}, by_number);
    std::ranges::stable_sort(added_[i].again, {}, by_number);
    const size_t first = launches.size();
    for (auto& offload : added_[i].beside) add(std::move(offload));
    for (auto& [_, fetch] : added_[i].fetches) add(std::move(fetch));
    for (auto& exact : added_[i].exact) add(std::move(exact));
    for (auto& [_, again] : added_[i].again) {
      redirect(*again, i, /*is_new=*/true);
      add(std::move(again));
    }
    redirect(*program.launches[i], i, /*is_new=*/false);
    launches.push_back(std::move(program.launches[i]));
    waiting_.push_back(launches[first].get());
    waiting_.back()->waits_for = added_[i].released;
    for (auto& launch : added_[i].behind) add(std::move(launch));
  }
  program.launches = std::move(launches);
}

void FitRewriting::take_back() {
  for (const auto& [tensor, before] : redirected_) *tensor = before;
  for (Launch* launch : waiting_) launch->waits_for.clear();
  for (const Recomputation* r : recomputed_) r->set_repeatable(false);
  for (const Tensor& t : made_) program_.forget(*t.storage());
  std::erase_if(program_.launches, [&](const auto& l) { return new_.contains(l.get()); });
}

void FitRewriting::move(const FitModel& model, size_t t, Choice choice,
                        const Schedule::Trip& trip) {
  const Ref<Storage>& storage = model.storage(t);
  Ref<Storage> back;
  if (choice == Choice::recompute) {
    back = recompute(model, t, trip);
  } else if (choice == Choice::keep_mask) {
    const DType dtype = model.dtype(t).value();
    const Tensor exact = as_elements(storage, dtype);
    Tensor bits = make({backend::mask_bytes(exact.numel())}, DType::u8),
           ones = make(exact.shape(), dtype);
    at(model.activation(t).last_before)
        .behind.push_back(backend::pack_mask_kernel().launch(program_.device, dtype, exact, bits));
    at(trip.needed_by)
        .exact.push_back(backend::unpack_mask_kernel().launch(program_.device, dtype, bits, ones));
    back = ones.storage();
  } else if (is_rounded(choice)) {
    Tensor rounded = make(as_floats(storage).shape(), DType::bf16);
    Added& last_use = at(model.activation(t).last_before);
    last_use.behind.push_back(conversion(as_floats(storage), rounded));
    if (choice == Choice::offload_bf16)
      rounded = over(rounded, copy_there_and_back(model, t, rounded.storage(), trip));
    Tensor exact = make(rounded.shape(), DType::f32);
    at(trip.needed_by).exact.push_back(conversion(rounded, exact));
    back = exact.storage();
  } else {
    back = copy_there_and_back(model, t, storage, trip);
  }
  moved_[storage.get()] = {trip.needed_by, back};
}

Tensor FitRewriting::make(const Shape& shape, DType dtype) {
  return made_.emplace_back(program_.make(shape, dtype));
}

Ref<Storage> FitRewriting::recompute(const FitModel& model, size_t t, const Schedule::Trip& trip) {
  Tensor back;
  const Recomputation& recomputation = model.recomputation(t);
  auto again = recomputation.make(program_, back);
  recomputation.set_repeatable(true);
  recomputed_.push_back(&recomputation);
  for (const Operand& o : again->operands())
    if (o.writes && o.tensor->defined()) made_.push_back(*o.tensor);
  at(trip.needed_by).again.emplace_back(model.maker(t), std::move(again));
  return back.storage();
}

Ref<Storage> FitRewriting::copy_there_and_back(const FitModel& model, size_t t,
                                               const Ref<Storage>& storage,
                                               const Schedule::Trip& trip) {
  Tensor host = program_.make_on_host(storage->bytes());
  Tensor back = as_bytes(Storage::wrap(nullptr, storage->bytes(), program_.device, {}));
  program_.set_role(*back.storage(), Role::temporary);
  made_.insert(made_.end(), {host, back});
  auto out = backend::offload_kernel().launch(program_.device, DType::u8, as_bytes(storage), host);
  auto in = backend::fetch_kernel().launch(program_.device, DType::u8, host, back);
  out->stream = PlanStream::to_host;
  in->stream = PlanStream::to_device;
  if (trip.released_by >= 0) at(trip.released_by).released.push_back(out.get());
  if (trip.arrives_by >= 0) at(trip.arrives_by).released.push_back(in.get());
  at(trip.fetched_at).fetches.emplace_back(trip.needed_by, std::move(in));
  Added& last_use = at(model.activation(t).last_before);
  (trip.offloaded_beside ? last_use.beside : last_use.behind).push_back(std::move(out));
  return back.storage();
}

/// Has a launch use what came back, where it stands behind that.
void FitRewriting::redirect(Launch& launch, size_t position, bool is_new) {
  for (const Operand& o : launch.operands()) {
    if (!o.tensor->defined()) continue;
    const auto found = moved_.find(o.tensor->storage().get());
    if (found == moved_.end() || static_cast<int>(position) < found->second.from) continue;
    if (!is_new) redirected_.emplace_back(o.tensor, *o.tensor);
    *o.tensor = over(*o.tensor, found->second.storage);
  }
}

}  // namespace brim::plan
