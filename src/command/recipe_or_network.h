// What commands take where a recipe's network alone matters.
#pragma once

#include <string>

#include <brim/train/recipe.h>

namespace brim::command {

/// The recipe of that name or file; else, for a network of that name, one that trains it by SGD
/// with momentum. `command` stands in messages. Throws ValueError, FileError.
train::Recipe recipe_or_network(const std::string& name, const std::string& command);

}  // namespace brim::command
