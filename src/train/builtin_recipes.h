// The built-in recipes, as a user would write them.
#pragma once

#include <string_view>

namespace brim::train {

struct BuiltinRecipe {
  std::string_view name;
  std::string_view toml;
};

inline constexpr BuiltinRecipe kBuiltinRecipes[] = {
    // "Training a classifier", the PyTorch CIFAR-10 tutorial.
    {"tutorial-cnn", R"(
model = "tutorial-cnn"
data = "shapes10"
epochs = 2
batch = 4

[input]
size = 32
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]

[optimizer]
name = "sgd"
lr = 0.001
momentum = 0.9
)"},
};

}  // namespace brim::train
