#include "dist/own_devices.h"

#include <map>

#include "core/check.h"
#include "dist/text_field.h"

namespace brim::dist {
namespace {

/// As it lies on the wire.
struct Row {
  char identity[64] = {}, device[32] = {}, host[64] = {};
};

}  // namespace

std::string shared_device(const std::vector<RankDevice>& ranks) {
  std::map<std::string, size_t> first;  // rank by identity
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankDevice& own = ranks[rank];
    if (own.identity.empty()) continue;
    const auto [found, is_new] = first.try_emplace(own.identity, rank);
    if (is_new) continue;
    const RankDevice& other = ranks[found->second];
    return fmt::format(
        "ranks {} and {} share the device {} ({} of {}, and {} of {}); give each rank one of its "
        "own, by --device cuda:all, CUDA_VISIBLE_DEVICES or the launcher's GPUs per task",
        found->second, rank, own.identity, other.device, other.host, own.device, own.host);
  }
  return {};
}

void check_own_device(Transport& transport, const Call& call, const RankDevice& own) {
  const auto size = static_cast<size_t>(transport.size());
  const auto rank = static_cast<size_t>(transport.rank());
  std::vector<Row> rows(size);
  put_text(rows[rank].identity, own.identity);
  put_text(rows[rank].device, own.device);
  put_text(rows[rank].host, own.host);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (size_t r = 0; r < size; ++r) {
    if (r == rank) continue;
    out.push_back({static_cast<int>(r), &rows[rank], sizeof(Row)});
    in.push_back({static_cast<int>(r), &rows[r], sizeof(Row)});
  }
  transport.exchange(call, out, in);
  std::vector<RankDevice> ranks;
  for (const Row& row : rows)
    ranks.push_back({.identity = take_text(row.identity),
                     .device = take_text(row.device),
                     .host = take_text(row.host)});
  const std::string why = shared_device(ranks);
  BRIM_CHECK(why.empty(), DistError, "[dist] {}", why);
}

}  // namespace brim::dist
