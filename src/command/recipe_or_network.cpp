#include "command/recipe_or_network.h"

#include <brim/nn/models.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/nearest.h"

namespace brim::command {

train::Recipe recipe_or_network(const std::string& name, const std::string& command) {
  const auto contains = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  const bool is_file = name.ends_with(".toml") || name.find('/') != std::string::npos;
  if (is_file || contains(train::recipe_names())) return train::load_recipe(name);
  BRIM_CHECK(contains(nn::model_names()), ValueError,
             "[{}] '{}' is neither a built-in recipe nor a network{}; a file ends in .toml",
             command, name, suggestion(name, nn::model_names()));
  train::Recipe recipe{.name = name};
  recipe.model = name;
  recipe.optimizer.momentum = 0.9;
  return recipe;
}

}  // namespace brim::command
