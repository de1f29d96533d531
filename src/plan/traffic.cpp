#include "plan/traffic.h"

#include <algorithm>
#include <vector>

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
  std::vector<const Operand*> counted;
  int64_t bytes = 0;
  for (const Operand& o : launch.operands()) {
    if (!o.tensor->defined() || std::any_of(counted.begin(), counted.end(), [&](const Operand* c) {
          return c->writes == o.writes && same_view(*c->tensor, *o.tensor);
        }))
      continue;
    counted.push_back(&o);
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
