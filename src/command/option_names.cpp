#include "command/option_names.h"

#include <string_view>

namespace brim::command {
namespace {

struct OptionName {
  std::string_view api, option;
};

constexpr OptionName kOptionNames[] = {
    {" (TrainOptions::change_precision)", ""},  // which naming --precision means
    {"Allocator::set_limit", "--memory-limit"},
    {"ConvertOptions::overwrite", "--overwrite"},
    {"ConvertOptions::side", "--size"},
    {"DeviceLoaderOptions::resident", "--data-on-device"},
    {"HeatGuardOptions::limit", "--max-temperature"},
    {"GetOptions::mirror", "--mirror"},
    {"LoaderOptions::workers", "--workers"},
    {"set_pinned_limit", "--host-limit"},
    {"OptimizerRecipe::lr", "--lr"},
    {"PictureOptions::channels", "channels in the recipe's [input]"},
    {"Recipe::batch", "--batch"},
    {"Recipe::data", "--data"},
    {"Recipe::epochs", "--epochs"},
    {"Recipe::metrics", "the recipe's metrics"},
    {"Recipe::precision", "--precision"},
    {"Recipe::sync_batch_norm", "--sync-batch-norm"},
    {"CheckpointOptions::sharded", "--shard-checkpoints"},
    {"Recipe::virtual_ranks", "--virtual-ranks"},
    {"Split::all", "--split all"},
    {"Targets::regression", "task regress"},
    {"TrainOptions::augment_on", "--augment-on"},
    {"TrainOptions::compile", "--compile"},
    {"TrainOptions::data_on_device", "--data-on-device"},
    {"TrainOptions::devices", "--device"},
    {"TrainOptions::out", "--out"},
    {"TrainOptions::passes", "--passes"},
    {"TrainOptions::resume", "--resume"},
    {"TrainOptions::steps_per_graph", "--steps-per-graph"},
    {"best_device()", "--device auto"},
    {"set_num_threads", "--threads"},
};

}  // namespace

std::string with_option_names(std::string text) {
  for (const auto& [api, option] : kOptionNames)
    for (size_t at = text.find(api); at != std::string::npos; at = text.find(api, at)) {
      const size_t end = at + api.size();
      const bool has_value = end < text.size() && text[end] == '=';
      text.replace(at, api.size() + has_value, std::string(option) + (has_value ? " " : ""));
      at += option.size();
    }
  return text;
}

}  // namespace brim::command
