#include "compress/prunable.h"

#include <utility>
#include <vector>

namespace brim::compress {
namespace {

void collect(nn::Module& module, const std::string& name, std::vector<Prunable>& all) {
  Prunable layer{.name = name};
  layer.linear = dynamic_cast<nn::Linear*>(&module);
  layer.conv = dynamic_cast<nn::Conv2d*>(&module);
  if (layer.linear || layer.conv) all.push_back(std::move(layer));
  for (const auto& [child_name, child] : module.named_children())
    collect(*child, name.empty() ? child_name : name + "." + child_name, all);
}

}  // namespace

std::vector<Prunable> prunable_layers(nn::Module& network) {
  std::vector<Prunable> all;
  collect(network, "", all);
  return all;
}

}  // namespace brim::compress
