#include "command/engine_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "command/command.h"
#include "command/format.h"
#include "train/task/open.h"

namespace brim::command {

std::optional<deploy::EnginePictures> pictures_of(const EnginePorts& ports,
                                                  const TrainedNetwork& net, const Shape& input) {
  if (ports.pictures.empty()) {
    if (ports.bgr) throw UsageError("--bgr: it is for --pictures");
    return {};
  }
  constexpr int64_t kMaxSide = 32768;
  const std::string form = fmt::format(
      "height and width of the pictures that come are written as 480x640, each from 1 to {}",
      kMaxSide);
  const Shape sizes = parse_shape(ports.pictures, "--pictures", form);
  if (sizes.rank() != 2 || sizes[0] > kMaxSide || sizes[1] > kMaxSide)
    throw UsageError(fmt::format("--pictures {}: {}", ports.pictures, form));
  if (net.recipe.task == "language" || input.rank() != 3 || input[0] > 4)
    throw UsageError(
        fmt::format("--pictures: {} is no network of pictures of 1 to 4 channels", net.path));
  if (!net.recipe.input.transforms.empty())
    throw UsageError(
        fmt::format("--pictures: the recipe of {} has transforms of its own (input.transforms), "
                    "which an engine cannot hold; prepare pictures as they do, and export without",
                    net.path));
  if (ports.bgr && input[0] != 3)
    throw UsageError(
        fmt::format("--bgr: it is an order of 3 channels, and {} reads {}", net.path, input[0]));
  deploy::EnginePictures pictures{
      .height = sizes[0],
      .width = sizes[1],
      .transform = train::picture_options(net.recipe, /*training=*/false).transform,
      .bgr = ports.bgr};
  if (pictures.transform.steps.empty() && (sizes[0] != input[1] || sizes[1] != input[2]))
    throw UsageError(fmt::format(
        "--pictures {0}: the recipe of {1} resizes no pictures (no input.size), and the "
        "network reads {2}x{3}: give --pictures {2}x{3}, or --input {4}x{0} where the "
        "network takes pictures of any size",
        ports.pictures, net.path, input[1], input[2], input[0]));
  return pictures;
}

void choose_output(const EnginePorts& ports, const TrainedNetwork& net,
                   deploy::EngineOptions& options) {
  const std::string& output = ports.output;
  if (output.empty()) return;
  if (const std::string& task = net.recipe.task; task == "multilabel" || task == "regress")
    throw UsageError(fmt::format("--output {}: the task of {} is '{}', and no one class of several",
                                 output, net.path, task));
  const std::string_view top = "top:";
  if (output == "softmax") {
    options.output = deploy::EngineOutput::softmax;
  } else if (output == "classes") {
    options.output = deploy::EngineOutput::classes;
  } else if (output.starts_with(top)) {
    const char* const end = output.data() + output.size();
    const auto [last, error] = std::from_chars(output.data() + top.size(), end, options.top);
    const auto classes = static_cast<int64_t>(net.info.classes.size());
    const int64_t most = std::min<int64_t>(classes > 0 ? classes : 1000, 1000);
    if (error != std::errc() || last != end || options.top < 1 || options.top > most)
      throw UsageError(
          fmt::format("--output {}: how many of the likeliest classes is written as top:5, and is "
                      "from 1 to {}",
                      output, most));
    options.output = deploy::EngineOutput::top;
  } else {
    throw UsageError(fmt::format("--output {}: it is none of softmax, top:K, classes", output));
  }
  options.outputs = {output == "classes" ? "classes" : "probabilities"};
  options.metadata["output"] = output;
}

std::map<std::string, std::string> metadata_of(const deploy::EnginePictures& pictures,
                                               int64_t channels) {
  const std::string order = channels != 3  ? fmt::format("channels: {}", channels)
                            : pictures.bgr ? "BGR"
                                           : "RGB";
  return {{"pictures", order},
          {"input",
           "pictures as they come, u8 (height, width, channels); the engine resizes and "
           "normalises them"}};
}

}  // namespace brim::command
