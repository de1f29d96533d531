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
  std::vector<Row> rows(static_cast<size_t>(transport.size()));
  Row& row = rows[static_cast<size_t>(transport.rank())];
  put_text(row.identity, own.identity);
  put_text(row.device, own.device);
  put_text(row.host, own.host);
  exchange_rows(transport, call, rows.data(), sizeof(Row));
  std::vector<RankDevice> ranks;
  for (const Row& r : rows)
    ranks.push_back({.identity = take_text(r.identity),
                     .device = take_text(r.device),
                     .host = take_text(r.host)});
  const std::string why = shared_device(ranks);
  BRIM_CHECK(why.empty(), DistError, "[dist] {}", why);
}

}  // namespace brim::dist
