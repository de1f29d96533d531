// The table of networks by name.
#include <brim/nn/models.h>

#include "core/registry.h"

namespace brim::nn {
namespace {

Registry<ModelFactory>& models() {
  static auto* registry = new Registry<ModelFactory>("models", "network");
  return *registry;
}

}  // namespace

bool register_model(const std::string& name, ModelFactory factory) {
  return models().add(name, std::move(factory));
}

std::vector<std::string> model_names() { return models().names(); }

std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
  return models().get(name)(options);
}

}  // namespace brim::nn
