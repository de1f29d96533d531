#include "plan/traffic.h"

#include <algorithm>
#include <unordered_map>

namespace brim::plan {
namespace {

/// Of the elements that lie in memory: an axis without a stride repeats them.
int64_t bytes_in_memory(const Tensor& t) {
  int64_t elements = 1;
  for (int i = 0; i < t.rank(); ++i)
    if (t.strides()[i] != 0 || t.shape()[i] == 0) elements *= t.shape()[i];
  return elements * static_cast<int64_t>(size_of(t.dtype()));
}

}  // namespace

int64_t bytes_of(const Launch& launch) {
  std::unordered_multimap<const Storage*, const Operand*> counted;  // an optimizer has thousands
  int64_t bytes = 0;
  for (const Operand& o : launch.operands()) {
    if (!o.tensor->defined()) continue;
    const Storage* const storage = o.tensor->storage().get();
    const auto [begin, end] = counted.equal_range(storage);
    if (std::any_of(begin, end, [&](const auto& c) {
          return c.second->writes == o.writes && same_view(*c.second->tensor, *o.tensor);
        }))
      continue;
    counted.emplace(storage, &o);
    const bool updated = o.writes && launch.traits(o).reads;
    bytes += (updated ? 2 : 1) * bytes_in_memory(*o.tensor);
  }
  return bytes;
}

Traffic traffic_of(const Program& program) {
  Traffic traffic;
  for (const auto& launch : program.launches) {
    ++traffic.launches;
    traffic.bytes += bytes_of(*launch);
  }
  return traffic;
}

Traffic eager_traffic(const Step& step, std::span<const Tensor> inputs) {
  const Recording recording = record(step, inputs, false, nullptr, /*for_passes=*/false);
  return traffic_of(recording.program);
}

}  // namespace brim::plan
