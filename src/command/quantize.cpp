// `brim quantize --weights F`: has layers compute in 8-bit integers, where wanted after some
// training with their rounding in sight, and tells what that costs of the metric and brings of the
// time.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/data/device_loader.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "command/compression_run.h"
#include "command/format.h"
#include "command/say.h"
#include "core/check.h"

namespace brim::command {
namespace {

struct QuantizeArguments : CompressionArguments {
  std::string calibration = "mse";
  double percentile = 99.99;
  int64_t samples = 512, finetune = 0;
  bool all = false, no_correction = false;
  std::vector<std::string> keep;
};

constexpr int64_t kMostAtOnce = 64;  // samples of a batch of the calibration

train::Recipe quantized_recipe(const QuantizeArguments& o) {
  train::Recipe r = recipe_of(o, "quantize");
  r.epochs = std::max<int64_t>(o.finetune, 1);
  train::check_recipe(r);
  return r;
}

/// From the network of floats to that of integers.
class QuantizeRun : CompressionRun {
 public:
  QuantizeRun(const QuantizeArguments& o, Device device)
      : CompressionRun(o, "quantize", device, quantized_recipe(o), ""),
        o_(o),
        how_{.calibration = compress::parse_calibration(o.calibration),
             .percentile = o.percentile,
             .correct_bias = !o.no_correction,
             .only_faster = !o.all,
             .keep = o.keep} {
    json_["calibration"] = o.calibration;
    json_["finetune"] = o.finetune;
    for (const char* key : {"dense", "int8", "fine_tuned"}) json_[key] = nullptr;
  }

  int run() {
    const std::vector<Tensor> inputs = calibration_data();
    evaluate("dense", "dense");
    if (is_stopped()) return stopped("nothing was saved");
    nn::Module& network = trainer_.model();
    const auto run_all = [&] {
      for (size_t i = 0; i < inputs.size(); ++i) {
        display_.show("calibrate", static_cast<double>(i) / static_cast<double>(inputs.size()));
        (void)network(inputs[i]);
      }
    };
    std::vector<compress::QuantizedLayer> layers;
    tell_times("f32", "int8", [&] {
      layers = compress::quantize(network, run_all, how_);
      display_.finish();
    });
    evaluate("int8", "int8");
    if (o_.finetune > 0 && !is_stopped()) {
      compress::FakeQuantizer rounding(network, run_all, how_);
      display_.finish();
      trainer_.train();
      display_.finish();
      layers = rounding.quantize();
      evaluate("fine-tuned", "fine_tuned");
    }
    if (is_stopped()) return stopped("nothing was saved");
    tell_layers(layers);
    save(layers);
    write();
    return 0;
  }

 private:
  /// Of the training split, in a drawn order and without augmentation.
  std::vector<Tensor> calibration_data() {
    train::Recipe r = recipe_;
    r.batch = std::min(o_.samples, kMostAtOnce);
    r.input.crop_padding = 0;
    r.input.random_resized_crop = r.input.flip = false;
    const train::OpenSplit split = train::open_split(
        r, data::Split::train, true, -1,
        [this](double fraction) { return display_.show("open", fraction), true; },
        {device_, train::AugmentOn::automatic}, &trainer_.data());
    data::DeviceLoader feed(split.loader, device_);
    std::vector<Tensor> inputs;
    int64_t count = 0;
    for (const data::Batch& batch : feed) {
      if (count >= o_.samples || is_stopped()) break;
      inputs.push_back(batch.x.clone());
      count += batch.x.size(0);
    }
    display_.finish();
    json_["samples"] = count;
    return inputs;
  }

  void tell_layers(const std::vector<compress::QuantizedLayer>& layers) {
    json_["layers"] = Json::array();
    for (const compress::QuantizedLayer& layer : layers) {
      const bool is_int8 = layer.why.empty();
      Json entry = {{"name", layer.name},
                    {"shape", layer.shape.str()},
                    {"f32_because", is_int8 ? Json(nullptr) : Json(layer.why)}};
      if (is_int8) {
        entry["scale"] = layer.input.scale;
        entry["zero_point"] = layer.input.zero_point;
        entry["error"] = layer.error;
      }
      if (layer.f32_s > 0) {
        entry["f32_s"] = layer.f32_s;
        entry["int8_s"] = layer.int8_s;
      }
      json_["layers"].push_back(entry);
      if (quiet_) continue;
      std::string what = "f32: " + layer.why;
      if (is_int8)
        what = fmt::format("inputs {:.3g} .. {:.3g}, error {:.2f} %", layer.input.least(),
                           layer.input.most(), 100 * layer.error);
      if (is_int8 && layer.f32_s > 0) what += fmt::format(", {:.2f} x", layer.f32_s / layer.int8_s);
      say(stdout, "  {:<28} {:<18} {}\n", layer.name, layer.shape.str(), what);
    }
  }

  void save(const std::vector<compress::QuantizedLayer>& layers) {
    if (o_.out.empty()) return;
    compress::Int8Layers in_file;
    for (const compress::QuantizedLayer& layer : layers)
      if (layer.why.empty())
        in_file[layer.name.empty() ? "weight" : layer.name + ".weight"] = {layer.weight,
                                                                           layer.input};
    const train::WeightsFile before(o_.weights);
    train::WeightsInfo info = train::read_weights_info(before);
    if (!info.recipe) {
      info.recipe = recipe_;
      info.classes = trainer_.data().names;
    }
    std::filesystem::create_directories(o_.out);
    const std::string path = (std::filesystem::path(o_.out) / "model.safetensors").string();
    train::save_int8_weights(path, trainer_.model(), in_file, info);
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    json_["bytes"] = bytes;
    if (!quiet_)
      say(stdout, "weights in {}, {} (before: {})\n", path, format_bytes(bytes),
          format_bytes(static_cast<int64_t>(std::filesystem::file_size(o_.weights))));
  }

  const QuantizeArguments& o_;
  const compress::QuantizeOptions how_;
};

int run_quantize(const QuantizeArguments& o) {
  (void)compress::parse_calibration(o.calibration);
  if (o.percentile <= 50 || o.percentile > 100)
    throw UsageError(fmt::format("--percentile {}: it is above 50, and at most 100", o.percentile));
  return run_compression(o, "quantize",
                         [&](Device device) { return QuantizeRun(o, device).run(); });
}

const Register quantize_command(
    {"quantize", "have layers compute in 8-bit integers, and measure what that costs and brings",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<QuantizeArguments>();
       o->add_to(args);
       args.add("--calibration", o->calibration,
                "how ranges of inputs are chosen: min-max, percentile, entropy or mse")
           .one_of({"min-max", "percentile", "entropy", "mse"})
           .show_default();
       args.add("--percentile", o->percentile,
                "of --calibration percentile: of the values at each end")
           .show_default();
       args.add("--samples", o->samples, "of the training split that the ranges are chosen by")
           .range(int64_t{1}, int64_t{1'000'000})
           .show_default();
       args.add("--keep", o->keep, "a layer that stays f32, as conv1; may be given again");
       args.flag("--all", o->all, "also layers that are slower in integers on this machine");
       args.flag("--no-correction", o->no_correction,
                 "do not add to outputs what rounding takes off them on average");
       args.add("--finetune", o->finetune,
                "epochs of training with the rounding in sight, where integers alone lose too much")
           .range(int64_t{0}, int64_t{1'000'000})
           .show_default();
       args.add("--out", o->out, "folder for model.safetensors, with the weights in integers");
       return [o] { return run_quantize(*o); };
     }});

}  // namespace
}  // namespace brim::command
