// The table of networks by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>

#include <brim/nn/models.h>

#include "core/check.h"
#include "core/nearest.h"

namespace brim::nn {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, ModelFactory> factories;

  static Registry& instance() {
    static auto* registry = new Registry;
    return *registry;
  }
};

}  // namespace

bool register_model(const std::string& name, ModelFactory factory) {
  Registry& r = Registry::instance();
  const std::lock_guard lock(r.mutex);
  const bool added = r.factories.emplace(name, std::move(factory)).second;
  BRIM_CHECK(added, ValueError, "[models] there is a network '{}' already", name);
  return true;
}

std::vector<std::string> model_names() {
  Registry& r = Registry::instance();
  const std::lock_guard lock(r.mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : r.factories) names.push_back(name);
  return names;
}

std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
  const std::vector<std::string> names = model_names();
  Registry& r = Registry::instance();
  ModelFactory factory;
  {
    const std::lock_guard lock(r.mutex);
    const auto found = r.factories.find(name);
    BRIM_CHECK(found != r.factories.end(), ValueError,
               "[models] there is no network '{}'; did you mean '{}'? Known: {}", name,
               nearest_name(name, names), fmt::join(names, ", "));
    factory = found->second;
  }
  return factory(options);
}

}  // namespace brim::nn
