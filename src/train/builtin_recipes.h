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
    // torchvision's reference training of ResNet-18 on ImageNet.
    {"resnet18", R"(
model = "resnet18"
epochs = 90
batch = 256

[input]
size = 224
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
random_resized_crop = true
flip = true

[optimizer]
name = "sgd"
lr = 0.1
momentum = 0.9
weight_decay = 1e-4

[schedule]
name = "step"
step_size = 30
gamma = 0.1
)"},
    // The same network with a stem for 32x32 pictures, trained as is usual on CIFAR-10.
    {"resnet18-cifar", R"(
model = "resnet18-cifar"
epochs = 30
batch = 128

[input]
size = 32
mean = [0.4914, 0.4822, 0.4465]
std = [0.2470, 0.2435, 0.2616]
crop_padding = 4
flip = true

[optimizer]
name = "sgd"
lr = 0.1
momentum = 0.9
nesterov = true
weight_decay = 5e-4

[schedule]
name = "cosine"
warmup = 1
)"},
    // Numbers from rows of a table: Friedman's function, drawn. No regression has an RMSE below 1.
    {"friedman1", R"(
task = "regress"
model = "mlp"
data = "friedman1"
epochs = 40
batch = 128

[validation]
fraction = 0.1

[optimizer]
name = "adam"
lr = 0.003

[schedule]
name = "cosine"
)"},
    // Several labels for a picture: which drawn shapes there are.
    {"shapes-labels", R"(
task = "multilabel"
model = "tutorial-cnn"
data = "shapes-labels"
epochs = 20
batch = 32

[optimizer]
name = "adam"
lr = 0.001

[schedule]
name = "cosine"
)"},
    // A class for each pixel: which drawn shape it belongs to.
    {"shapes-masks", R"(
task = "segment"
model = "unet-small"
data = "shapes-masks"
epochs = 5
batch = 16

[optimizer]
name = "adam"
lr = 0.01

[schedule]
name = "one-cycle"
max_lr = 0.02
pct_start = 0.2
)"},
    // What comes next in a text, byte by byte: give any text as --data.
    {"text", R"(
task = "language"
model = "transformer-small"
data = "text.txt"
epochs = 3
batch = 16

[input]
window = 128

[validation]
fraction = 0.1

[optimizer]
name = "adamw"
lr = 0.002
weight_decay = 0.01
clip_norm = 1.0

[schedule]
name = "cosine"
warmup = 0.1
)"},
};

}  // namespace brim::train
