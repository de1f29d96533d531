#include "plan/program.h"

#include <fmt/core.h>

#include <algorithm>

namespace brim::plan {

Tensor as_elements(const Ref<Storage>& storage, DType dtype) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = {static_cast<int64_t>(storage->bytes() / size_of(dtype))};
  impl->strides = contiguous_strides(impl->shape);
  impl->dtype = dtype;
  impl->contiguous = true;
  impl->storage = storage;
  return Tensor(std::move(impl));
}
Tensor as_bytes(const Ref<Storage>& storage) { return as_elements(storage, DType::u8); }
Tensor as_floats(const Ref<Storage>& storage) { return as_elements(storage, DType::f32); }

Tensor over(const Tensor& t, const Ref<Storage>& storage) {
  Tensor other = t.alias(t.shape(), t.strides(), t.offset());
  other.impl()->storage = storage;
  return other;
}

Role Program::role(const Storage& storage) const {
  const auto found = roles_.find(&storage);
  return found == roles_.end() ? Role::external : found->second;
}

Tensor Program::make(const Shape& shape, DType dtype, MemoryFormat format) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = shape;
  impl->strides = strides_of(shape, format);
  impl->dtype = dtype;
  impl->contiguous = impl->strides == contiguous_strides(shape);
  impl->storage =
      Storage::wrap(nullptr, static_cast<size_t>(shape.numel()) * size_of(dtype), device, {});
  set_role(*impl->storage, Role::temporary);
  return Tensor(std::move(impl));
}

Tensor Program::make_on_host(size_t bytes) {
  const Tensor t = as_bytes(Storage::wrap(nullptr, bytes, Device::cpu(), {}));
  set_role(*t.storage(), Role::host);
  return t;
}

void Program::compact() {
  std::erase_if(launches, [](const auto& launch) { return !launch; });
}

std::vector<const Storage*> Program::storages() const {
  std::vector<const Storage*> list;
  std::unordered_map<const Storage*, bool> seen;
  for (const auto& launch : launches)
    for (const Operand& o : launch->operands())
      if (o.tensor->defined() && !std::exchange(seen[o.tensor->storage().get()], true))
        list.push_back(o.tensor->storage().get());
  return list;
}

Uses::Uses(const Program& program) {
  for (size_t i = 0; i < program.launches.size(); ++i)
    if (program.launches[i])
      for (const Operand& o : program.launches[i]->operands()) {
        if (!o.tensor->defined()) continue;
        Entry& entry = entries_[o.tensor->storage().get()];
        std::vector<int>& list = o.writes ? entry.writers : entry.readers;
        if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
      }
}

const std::vector<int>& Uses::writers(const Storage& storage) const {
  const auto found = entries_.find(&storage);
  return found == entries_.end() ? none_.writers : found->second.writers;
}

const std::vector<int>& Uses::readers(const Storage& storage) const {
  const auto found = entries_.find(&storage);
  return found == entries_.end() ? none_.readers : found->second.readers;
}

int Uses::writer(const Tensor& t) const {
  const std::vector<int>& list = writers(t);
  return list.size() == 1 ? list[0] : -1;
}

int Uses::reader(const Tensor& t) const {
  const std::vector<int>& list = readers(t);
  return list.size() == 1 ? list[0] : -1;
}

bool is(const Launch& launch, std::string_view name) { return launch.name() == name; }

std::string difference(const Program& a, const Program& b, const std::set<size_t>& without) {
  std::vector<const Launch*> launches;
  for (size_t i = 0; i < a.launches.size(); ++i)
    if (!without.contains(i)) launches.push_back(a.launches[i].get());
  if (launches.size() != b.launches.size())
    return fmt::format("it has {} launches, then {}", launches.size(), b.launches.size());
  std::unordered_map<const Storage*, size_t> index_a, index_b;
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch &la = *launches[i], &lb = *b.launches[i];
    if (std::string_view(la.name()) != lb.name())
      return fmt::format("launch {} is '{}', then '{}'", i, la.name(), lb.name());
    if (!la.same_options(lb) || la.operands().size() != lb.operands().size())
      return fmt::format("numbers given to '{}' (launch {}) change", la.name(), i);
    for (size_t k = 0; k < la.operands().size(); ++k) {
      const Tensor &ta = la.operand(k), &tb = lb.operand(k);
      if (ta.defined() != tb.defined())
        return fmt::format("an argument of '{}' (launch {}) is there only at times", la.name(), i);
      if (!ta.defined()) continue;
      const Role ra = a.role(*ta.storage()), rb = b.role(*tb.storage());
      const bool same_storage =
          ra == Role::external || rb == Role::external
              ? ta.storage() == tb.storage()
              : index_a.try_emplace(ta.storage().get(), index_a.size()).first->second ==
                    index_b.try_emplace(tb.storage().get(), index_b.size()).first->second;
      if (ra != rb || !same_storage)
        return fmt::format("'{}' (launch {}) works on other memory each time", la.name(), i);
      if (ta.shape() != tb.shape() || ta.strides() != tb.strides() || ta.offset() != tb.offset() ||
          ta.dtype() != tb.dtype())
        return fmt::format("'{}' (launch {}) gets a tensor of {}, then of {}", la.name(), i,
                           ta.shape().str(), tb.shape().str());
    }
  }
  if (a.outputs.size() != b.outputs.size()) return "it returns more tensors at times";
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const Tensor &x = a.outputs[i], &y = b.outputs[i];
    const auto known_x = index_a.find(x.storage().get()), known_y = index_b.find(y.storage().get());
    const bool same =
        known_x != index_a.end() && known_y != index_b.end()
            ? known_x->second == known_y->second
            : a.role(*x.storage()) == b.role(*y.storage()) &&
                  (a.role(*x.storage()) != Role::external || x.storage() == y.storage());
    if (!same || x.shape() != y.shape() || x.strides() != y.strides() || x.offset() != y.offset())
      return fmt::format("result {} is another tensor at times", i);
  }
  return {};
}

}  // namespace brim::plan
