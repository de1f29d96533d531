#include "backend/rewrite.h"

#include <map>
#include <mutex>

#include "core/check.h"

namespace brim::backend {
namespace {

struct Rewrites {
  std::mutex mutex;
  std::map<std::string, Rewrite> by_name;
};
Rewrites& all_rewrites() {
  static auto* all = new Rewrites;
  return *all;
}

}  // namespace

void Match::missing_option(std::string_view label) {
  raise<Error>("[rewrite] the launch '{}' is missing, or has no options of that type", label);
}

bool register_rewrite(Rewrite rewrite) {
  const std::lock_guard lock(all_rewrites().mutex);
  std::string name = rewrite.name;
  BRIM_CHECK(all_rewrites().by_name.try_emplace(name, std::move(rewrite)).second, Error,
             "[rewrite] there are two of the name '{}'", name);
  return true;
}

std::vector<const Rewrite*> rewrites() {
  const std::lock_guard lock(all_rewrites().mutex);
  std::vector<const Rewrite*> all;
  for (const auto& [name, rewrite] : all_rewrites().by_name) all.push_back(&rewrite);
  return all;
}

}  // namespace brim::backend
