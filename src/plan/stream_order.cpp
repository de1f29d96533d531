#include "plan/stream_order.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace brim::plan {
namespace {

template <class T>
using OfStreams = std::array<T, backend::kPlanStreams>;

/// Launches of a stream that nobody has waited for and that use a storage; -1 for none.
struct Pending {
  int writes = -1, uses = -1;
};

}  // namespace

StreamOrder::StreamOrder(const Program& program)
    : waits_for_(program.launches.size()), runs_beside_(program.launches.size()) {
  std::unordered_map<const Storage*, OfStreams<Pending>> pending;
  std::unordered_map<const Launch*, int> index;  // of those beside the main stream
  OfStreams<std::vector<int>> open;              // that nobody has waited for, in order
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    const int at = static_cast<int>(i);
    runs_beside_[i] = at;
    OfStreams<int> last;
    last.fill(-1);
    for (const Operand& o : launch.operands()) {
      if (!o.tensor->defined()) continue;
      const auto found = pending.find(o.tensor->storage().get());
      if (found == pending.end()) continue;
      for (size_t s = 0; s < last.size(); ++s)
        last[s] = std::max(last[s], o.writes ? found->second[s].uses : found->second[s].writes);
    }
    last[static_cast<size_t>(launch.stream)] = -1;  // each is in order
    for (const Launch* other : launch.waits_for) {
      int& of_stream = last[static_cast<size_t>(other->stream)];
      of_stream = std::max(of_stream, index.at(other));
    }
    for (size_t s = 0; s < last.size(); ++s) {
      if (open[s].empty() || last[s] < open[s].front()) continue;
      waits_for_[i].push_back(last[s]);
      const auto met = std::ranges::upper_bound(open[s], last[s]);
      for (auto o = open[s].begin(); o != met; ++o) runs_beside_[static_cast<size_t>(*o)] = at - 1;
      open[s].erase(open[s].begin(), met);
    }
    if (launch.stream == PlanStream::main) continue;
    has_side_streams_ = true;
    index[&launch] = at;
    open[static_cast<size_t>(launch.stream)].push_back(at);
    for (const Operand& o : launch.operands()) {
      if (!o.tensor->defined()) continue;
      Pending& p = pending[o.tensor->storage().get()][static_cast<size_t>(launch.stream)];
      p.uses = at;
      if (o.writes) p.writes = at;
    }
  }
  for (const std::vector<int>& list : open)
    for (const int i : list)
      runs_beside_[static_cast<size_t>(i)] = static_cast<int>(program.launches.size()) - 1;
}

}  // namespace brim::plan
