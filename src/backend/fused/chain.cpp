#include "backend/fused/chain.h"

#include <map>
#include <mutex>
#include <optional>

#include "backend/launch_policy.h"

namespace brim::backend {
namespace {

struct LinkTable {
  std::mutex mutex;
  std::map<std::string_view, LinkSlot> slots;
};

using Options = std::optional<formula::Params> (*)(const Launch& launch);

std::optional<formula::Params> along_last_axis(const Launch& launch) {
  const int* axis = launch.option<int>();
  if (!axis || *axis != launch.operand(0).rank() - 1) return std::nullopt;
  return formula::Params{};
}

std::optional<formula::Params> with_number(const Launch& launch) {
  const double* number = launch.option<double>();
  if (!number) return std::nullopt;
  return formula::Params{.a = *number};
}

std::optional<formula::Params> with_params(const Launch& launch) {
  const formula::Params* params = launch.option<formula::Params>();
  if (!params) return std::nullopt;
  return *params;
}

/// What is known of the kernels that work row by row.
struct RowKernel {
  std::string_view name;
  Options options;
  std::vector<RowPart> parts;
};
const std::vector<RowKernel>& row_kernels() {
  using enum RowPart;
  static const std::vector<RowKernel> all{
      {"softmax", along_last_axis, {row, row}},
      {"log_softmax", along_last_axis, {row, row}},
      {"softmax_grad", along_last_axis, {row, row, row}},
      {"log_softmax_grad", along_last_axis, {row, row, row}},
      {"layer_norm", with_number, {row, columns, columns, row, number, number}},
      {"rms_norm", with_number, {row, columns, row, number}},
  };
  return all;
}
const RowKernel* row_kernel(std::string_view name) {
  for (const RowKernel& kernel : row_kernels())
    if (kernel.name == name) return &kernel;
  return nullptr;
}

LinkTable& link_table() {
  static auto* table = [] {
    auto* made = new LinkTable;
    for (const RowKernel& kernel : row_kernels()) {
      LinkSlot& slot = made->slots[kernel.name];
      slot.kind = LinkSlot::Kind::rows;
      slot.parts = kernel.parts;
      slot.operands = static_cast<int>(kernel.parts.size());
    }
    LinkSlot& dropout = made->slots["dropout"];
    dropout.kind = LinkSlot::Kind::dropout;
    dropout.operands = 2;
    return made;
  }();
  return *table;
}

template <class Change>
bool change(std::string_view name, const Change& f) {
  const std::lock_guard lock(link_table().mutex);
  f(link_table().slots[name]);
  return true;
}

bool& known(LinkSlot& slot, DeviceKind kind, DType dtype) {
  return slot.known[static_cast<size_t>(kind)][static_cast<size_t>(dtype)];
}

}  // namespace

bool register_elementwise(std::string_view name, int inputs, DType dtype, DenseLoop loop) {
  return change(name, [&](LinkSlot& slot) {
    slot.operands = inputs + 1;
    slot.loops[static_cast<size_t>(dtype)] = loop;
    known(slot, DeviceKind::cpu, dtype) = true;
  });
}

bool register_dropout_link(DType dtype, DropoutLoop loop) {
  return change("dropout", [&](LinkSlot& slot) {
    slot.dropout_loops[static_cast<size_t>(dtype)] = loop;
    known(slot, DeviceKind::cpu, dtype) = true;
  });
}

bool register_row_link(std::string_view name, DType dtype, RowLoop loop) {
  return change(name, [&](LinkSlot& slot) {
    slot.row_loops[static_cast<size_t>(dtype)] = loop;
    known(slot, DeviceKind::cpu, dtype) = true;
    if (dtype == DType::f32)
      known(slot, DeviceKind::cpu, DType::f16) = known(slot, DeviceKind::cpu, DType::bf16) = true;
  });
}

bool register_in_chains(std::string_view name, DeviceKind kind, DType dtype) {
  return change(name, [&](LinkSlot& slot) { known(slot, kind, dtype) = true; });
}

LinkSlot& link_slot(std::string_view name) {
  const std::lock_guard lock(link_table().mutex);
  return link_table().slots[name];
}

const LinkSlot* find_elementwise(std::string_view name, DType dtype) {
  const std::lock_guard lock(link_table().mutex);
  const auto found = link_table().slots.find(name);
  if (found == link_table().slots.end() || !found->second.loops[static_cast<size_t>(dtype)])
    return nullptr;
  return &found->second;
}

std::string names_of_links(const Launch& launch) {
  const Chain* const chain = launch.option<Chain>();
  if (!chain) return {};
  const std::lock_guard lock(link_table().mutex);
  std::string names;
  for (const ChainLink& link : chain->links)
    for (const auto& [name, slot] : link_table().slots)
      if (&slot == link.slot) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

LinkOptions link_of(const Launch& launch) {
  const LinkSlot* slot = nullptr;
  {
    const std::lock_guard lock(link_table().mutex);
    const auto found = link_table().slots.find(launch.name());
    if (found == link_table().slots.end() ||
        !known(found->second, launch_policy(launch.device().kind).kernels, launch.dtype()) ||
        launch.operands().size() != static_cast<size_t>(found->second.operands))
      return {};
    slot = &found->second;
  }
  const RowKernel* rows = row_kernel(launch.name());
  const Options options = rows                                    ? rows->options
                          : slot->kind == LinkSlot::Kind::dropout ? with_number
                                                                  : with_params;
  const std::optional<formula::Params> params = options(launch);
  if (!params) return {};
  LinkOptions link{slot, *params, 0};
  if (rows) {
    int64_t count = 0;  // of rows
    for (size_t i = 0; i < slot->parts.size(); ++i)
      if (slot->parts[i] == RowPart::number) count = launch.operand(i).numel();
    const Tensor& x = launch.operand(0);
    link.row = count > 0 ? x.numel() / count : x.rank() > 0 ? x.size(x.rank() - 1) : 1;
    if (link.row == 0 || link.row > Chain::kMaxRow) return {};
  }
  return link;
}

}  // namespace brim::backend
