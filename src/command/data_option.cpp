#include "command/data_option.h"

#include <brim/train/task.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace brim::command {

void add_data_option(Arguments args, std::string& value) {
  // With those that a program of one's own registered.
  const std::string help = fmt::format(
      "instead of the recipe's: drawn sets (shapes10, {}; NAME:SEED draws others); a folder or "
      "file "
      "of CIFAR-10 binary; a folder of MNIST's IDX files, of pictures by class, of pictures with "
      "labels.csv, or with images/ and masks/; a tar of pictures by class; WebDataset shards "
      "('train-{{000000..000009}}.tar'); a safetensors file; a CSV table; a text, or a file of "
      "tokens",
      fmt::join(train::data_names(), ", "));
  args.add("--data", value, help.c_str());
}

}  // namespace brim::command
