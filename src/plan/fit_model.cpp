#include "plan/fit_model.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "backend/fused/mask_bits.h"
#include "backend/has_kernel.h"
#include "backend/host_copy.h"
#include "plan/buckets.h"
#include "plan/layout.h"
#include "plan/memory.h"
#include "plan/stream_order.h"

namespace brim::plan {
namespace {

constexpr int64_t kMinBytes = 4096;              // bytes worth a thought
constexpr size_t kMinPacked = size_t{64} << 10;  // bytes worth two launches

double seconds_of_copy(const Program& program, const Ref<Storage>& storage, bool to_host) {
  Tensor on_device = as_bytes(storage);
  Tensor on_host = as_bytes(Storage::wrap(nullptr, storage->bytes(), Device::cpu(), {}));
  return to_host ? backend::offload_kernel()
                       .launch(program.device, DType::u8, on_device, on_host)
                       ->estimated_seconds()
                 : backend::fetch_kernel()
                       .launch(program.device, DType::u8, on_host, on_device)
                       ->estimated_seconds();
}

/// To bits and back.
std::pair<double, double> seconds_of_mask(const Ref<Storage>& storage, DType dtype) {
  Tensor exact = as_elements(storage, dtype);
  const auto bytes = static_cast<size_t>(backend::mask_bytes(exact.numel()));
  Tensor bits = as_bytes(Storage::wrap(nullptr, bytes, storage->device(), {}));
  return {backend::pack_mask_kernel()
              .launch(storage->device(), dtype, exact, bits)
              ->estimated_seconds(),
          backend::unpack_mask_kernel()
              .launch(storage->device(), dtype, bits, exact)
              ->estimated_seconds()};
}

/// f32 to bf16 and back.
std::pair<double, double> seconds_of_rounding(const Ref<Storage>& storage) {
  Tensor exact = as_floats(storage);
  Tensor rounded = exact.alias(exact.shape(), exact.strides(), 0);
  rounded.impl()->dtype = DType::bf16;
  rounded.impl()->storage = Storage::wrap(nullptr, storage->bytes() / 2, storage->device(), {});
  return {conversion(exact, rounded)->estimated_seconds(),
          conversion(rounded, exact)->estimated_seconds()};
}

/// Why a tensor is where it is, for people.
std::string why(const Activation& a, Choice choice, MemoryPolicy policy) {
  if (is_vdnn(policy)) {
    if (choice == Choice::keep)
      return a.to_host == kImpossible ? "it cannot be moved" : "vDNN does not move it";
    return policy == MemoryPolicy::vdnn_conv ? "vDNN moves inputs of convolutions"
                                             : "vDNN moves inputs of all layers";
  }
  if (choice == Choice::keep_mask) return "its signs are all that is read of it later";
  if (is_rounded(choice))
    return choice == Choice::keep_bf16 ? "half of it has room" : "half of it costs less to copy";
  if (choice == Choice::offload)
    return a.recompute == kImpossible ? "what makes it cannot be run again"
                                      : "its copies cost less than to compute it again";
  if (choice == Choice::recompute)
    return a.to_host == kImpossible ? "nothing is copied to the host"
                                    : "to compute it again costs less than its copies";
  if (a.to_host == kImpossible && a.recompute == kImpossible)
    return "it can neither be moved nor computed again";
  return "there is room for it";
}

}  // namespace

FitModel::FitModel(const Program& program) : program_(program), uses_(program) {
  problem_.seconds.reserve(program.launches.size());
  for (const auto& launch : program.launches)
    problem_.seconds.push_back(launch->stream != PlanStream::main ? 0
                               : launch->communication            ? seconds_of(*launch)
                                                                  : launch->estimated_seconds());
  for (const auto& launch : program.launches)
    for (const Operand& o : launch->operands())
      if (o.tensor->defined()) {
        storages_.try_emplace(o.tensor->storage().get(), o.tensor->storage());
        const auto [dtype, fresh] =
            dtypes_.try_emplace(o.tensor->storage().get(), o.tensor->dtype());
        if (dtype->second != o.tensor->dtype()) dtype->second.reset();
      }
  list_groups();
  list_activations();
}

void FitModel::list_groups() {
  const MemoryPlan memory = plan_memory(program_, true);
  const size_t launches = program_.launches.size();
  std::vector<int64_t> change(launches + 1, 0);
  std::unordered_map<size_t, size_t> of_block;
  for (size_t b = 0; b < memory.blocks.size(); ++b) {
    const Block& block = memory.blocks[b];
    if (block.in_place_of >= 0) continue;
    if (const auto bytes = static_cast<int64_t>(block.bytes); bytes < kMinBytes) {
      change[static_cast<size_t>(block.first)] += bytes;
      change[static_cast<size_t>(block.last) + 1] -= bytes;
      continue;
    }
    of_block[b] = groups_.size();
    groups_.push_back({.members = {block.storage}, .first = block.first, .last = block.last});
    problem_.activations.push_back({.bytes = static_cast<int64_t>(block.bytes)});
  }
  for (const Block& block : memory.blocks)
    if (block.in_place_of >= 0)
      if (const auto at = of_block.find(static_cast<size_t>(block.in_place_of));
          at != of_block.end())
        groups_[at->second].members.push_back(block.storage);
  int64_t sum = 0;
  for (size_t i = 0; i < launches; ++i) problem_.others.push_back(sum += change[i]);
  for (size_t g = 0; g < groups_.size(); ++g)
    for (const Storage* storage : groups_[g].members) group_of_[storage] = g;
}

void FitModel::list_activations() {
  std::vector<double> starts{0};
  for (const double s : problem_.seconds) starts.push_back(starts.back() + s);
  const bool can_move = program_.may_offload && !program_.device.is_cpu() &&
                        backend::offload_kernel().exists(program_.device, DType::u8) &&
                        backend::fetch_kernel().exists(program_.device, DType::u8);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    Activation& a = problem_.activations[g];
    a.made_by = group.first;
    a.last_before = a.first_after = a.last_use = group.last;
    double longest = 0;
    bool beside = false;  // another stream uses it
    for (const Storage* storage : group.members) {
      std::vector<int> uses = uses_.writers(*storage);
      const std::vector<int>& readers = uses_.readers(*storage);
      uses.insert(uses.end(), readers.begin(), readers.end());
      std::ranges::sort(uses);
      for (size_t u = 0; u < uses.size(); ++u) {
        const int after = uses[u];
        beside |= program_.launches[static_cast<size_t>(after)]->stream != PlanStream::main;
        if (u == 0 || after <= uses[u - 1] + 1) continue;
        const double gap =
            starts[static_cast<size_t>(after)] - starts[static_cast<size_t>(uses[u - 1]) + 1];
        if (gap < longest) continue;
        longest = gap;
        a.last_before = uses[u - 1];
        a.first_after = after;
        group.storage = storage;
      }
    }
    if (beside) {
      a.last_before = a.first_after = group.last;
      group.storage = nullptr;
    }
    if (!group.storage) {
      group.storage = group.members.back();
      continue;
    }
    group.maker = uses_.writers(*group.storage).empty() ? -1 : uses_.writers(*group.storage)[0];
    if (can_move) {
      const Ref<Storage>& storage = storages_.at(group.storage);
      a.to_host = seconds_of_copy(program_, storage, true);
      a.to_device = seconds_of_copy(program_, storage, false);
    }
    if (program_.may_recompute && group.maker >= 0) list_recomputation(group, a);
    list_rounding(group, a);
    if (program_.may_recompute) list_mask(group, a);
  }
}

/// Not of what a launch saves beside a larger result, as statistics: they must fit that one.
void FitModel::list_rounding(const Group& group, Activation& a) const {
  if (group.maker < 0) return;
  const Ref<Storage>& storage = storages_.at(group.storage);
  for (const Operand& o : program_.launches[static_cast<size_t>(group.maker)]->operands())
    if (o.writes && o.tensor->defined() && o.tensor->storage()->bytes() > storage->bytes()) return;
  if (storage->bytes() < kMinPacked || dtypes_.at(storage.get()) != DType::f32 ||
      !backend::has_kernel("copy", program_.device, DType::bf16))
    return;
  std::tie(a.to_bf16, a.from_bf16) = seconds_of_rounding(storage);
}

/// Of what is only read for its signs behind the gap.
void FitModel::list_mask(const Group& group, Activation& a) const {
  const Ref<Storage>& storage = storages_.at(group.storage);
  const std::optional<DType> dtype = dtypes_.at(storage.get());
  if (group.maker < 0 || !dtype || storage->bytes() < kMinPacked ||
      !backend::pack_mask_kernel().exists(program_.device, *dtype))
    return;
  for (int i = a.first_after; i <= group.last; ++i) {
    const Launch& launch = *program_.launches[static_cast<size_t>(i)];
    for (const Operand& o : launch.operands())
      if (o.tensor->defined() && o.tensor->storage() == storage &&
          !backend::is_mask_operand(launch, o))
        return;
  }
  std::tie(a.to_mask, a.from_mask) = seconds_of_mask(storage, *dtype);
  a.mask_bytes = backend::mask_bytes(static_cast<int64_t>(storage->bytes() / size_of(*dtype)));
}

void FitModel::list_recomputation(Group& group, Activation& a) {
  Recomputation recomputation(program_, uses_, group.maker, *group.storage, a.first_after);
  if (!recomputation) return;
  std::vector<int> made_of;
  for (const Storage* storage : recomputation.reads()) {
    const auto at = group_of_.find(storage);
    if (at == group_of_.end()) continue;  // small, or not the plan's
    // Its bytes are another one's by then.
    if (groups_[at->second].members.back() != storage) return;
    made_of.push_back(static_cast<int>(at->second));
  }
  a.recompute = recomputation.seconds();
  a.made_of = std::move(made_of);
  group.recomputation = std::move(recomputation);
}

std::vector<MemoryFit::Tensor> FitModel::describe(const std::vector<Choice>& choices,
                                                  MemoryPolicy policy) const {
  std::vector<MemoryFit::Tensor> tensors;
  for (size_t t = 0; t < choices.size(); ++t) {
    const Activation& a = problem_.activations[t];
    const Group& group = groups_[t];
    if (group.maker < 0) continue;  // it has no gap
    const Launch& maker = *program_.launches[static_cast<size_t>(group.maker)];
    MemoryFit::Tensor& tensor = tensors.emplace_back();
    tensor.made_by = maker.name();
    for (const Operand& o : maker.operands())
      if (o.tensor->defined() && o.tensor->storage().get() == group.storage) {
        tensor.shape = o.tensor->shape().str();
        tensor.dtype = name(o.tensor->dtype());
      }
    tensor.bytes = a.bytes;
    tensor.choice = name(choices[t]);
    tensor.why = why(a, choices[t], policy);
    tensor.seconds = a.seconds_of(choices[t]);
  }
  return tensors;
}

}  // namespace brim::plan
