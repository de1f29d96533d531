#include "plan/stream_order.h"

#include <unordered_map>

namespace brim::plan {

StreamOrder::StreamOrder(const Program& program)
    : waits_for_(program.launches.size(), -1), joined_by_(program.launches.size()) {
  struct Pending {  // launches of the side stream that nobody has waited for; -1 for none
    int writes = -1, uses = -1;
  };
  std::unordered_map<const Storage*, Pending> pending;
  std::vector<size_t> open;  // in order
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    const int at = static_cast<int>(i);
    joined_by_[i] = at;
    if (launch.on_side_stream) {
      has_side_stream_ = true;
      open.push_back(i);
      for (const Operand& o : launch.operands()) {
        if (!o.tensor->defined()) continue;
        Pending& p = pending[o.tensor->storage().get()];
        p.uses = at;
        if (o.writes) p.writes = at;
      }
      continue;
    }
    if (open.empty()) continue;
    int last = -1;
    for (const Operand& o : launch.operands()) {
      if (!o.tensor->defined()) continue;
      const auto found = pending.find(o.tensor->storage().get());
      if (found == pending.end()) continue;
      last = std::max(last, o.writes ? found->second.uses : found->second.writes);
    }
    if (last < static_cast<int>(open.front())) continue;
    waits_for_[i] = last;
    size_t met = 0;
    while (met < open.size() && static_cast<int>(open[met]) <= last) joined_by_[open[met++]] = at;
    open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(met));
  }
  for (const size_t i : open) joined_by_[i] = static_cast<int>(program.launches.size());
}

}  // namespace brim::plan
