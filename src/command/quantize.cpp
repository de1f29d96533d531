// `brim quantize --weights F`: has layers compute in 8-bit integers, where wanted after some
// training with their rounding in sight, and tells what that costs of the metric and brings of the
// time.
#include <brim/compress/quantize.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "command/compressed_layers.h"
#include "command/compression_run.h"
#include "command/format.h"
#include "command/run_log.h"
#include "command/say.h"
#include "core/check.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

struct QuantizeArguments : CompressionArguments {
  std::string calibration = "mse";
  std::optional<double> percentile;
  int64_t samples = 512, finetune = 0;
  bool all = false, no_correction = false, overwrite = false;
  std::vector<std::string> keep;
};

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
        arguments_(o),
        how_{.calibration = compress::parse_calibration(o.calibration),
             .percentile = o.percentile.value_or(compress::QuantizeOptions().percentile),
             .correct_bias = !o.no_correction,
             .only_faster = !o.all,
             .keep = o.keep,
             .vector = pruned_vector(recipe_)},
        bytes_before_(std::filesystem::file_size(o.weights)) {
    check_layer_names("--keep", o.keep);
    if (!o.out.empty()) train::make_folder(o.out);  // or say at once that it cannot be
    json_["calibration"] = o.calibration;
    json_["finetune"] = o.finetune;
    for (const char* key : {"dense", "int8", "fine_tuned"}) json_[key] = nullptr;
  }

  int run() {
    const std::vector<Tensor> inputs = calibration_inputs(arguments_.samples);
    int64_t count = 0;
    for (const Tensor& x : inputs) count += x.size(0);
    json_["samples"] = count;
    at_once_ = inputs.empty() ? 0 : inputs[0].size(0);
    evaluate("dense", "dense");
    if (is_stopped()) return stopped("nothing was saved");
    nn::Module& network = trainer_->model();
    const auto run_all = [&] {
      for (size_t i = 0; i < inputs.size(); ++i) {
        show("calibrate", static_cast<double>(i) / static_cast<double>(inputs.size()));
        (void)network(inputs[i]);
      }
    };
    how_.progress = [&](double fraction) { show("measure", fraction); };
    how_.pass_seconds = [&] { return pass_seconds(inputs); };
    std::vector<compress::QuantizedLayer> layers;
    report_times("f32", "int8", [&] {
      layers = compress::quantize(network, run_all, how_);
      done();
    });
    warn_of_times();
    evaluate("int8", "int8");
    if (arguments_.finetune > 0 && !is_stopped()) {
      compress::FakeQuantizer rounding(network, layers, run_all);
      (void)train();
      layers = rounding.quantize();
      evaluate("fine-tuned", "fine_tuned");
      const auto loss = [this](const char* key) { return json_[key].value("loss", 0.0); };
      if (json_["fine_tuned"].is_object() && loss("fine_tuned") > loss("int8"))
        say(stderr,
            "brim: warning: the loss has risen by fine-tuning, from {:.4g} to {:.4g}; a lower "
            "--lr, or none of it, does better\n",
            loss("int8"), loss("fine_tuned"));
    }
    if (is_stopped()) return stopped("nothing was saved");
    tell_layers(layers);
    warn_of_none(layers);
    save(layers);
    write();
    return 0;
  }

 private:
  /// Of compiled passes of one sample and of up to 16, of the first inputs.
  std::vector<double> pass_seconds(const std::vector<Tensor>& inputs) {
    constexpr double kSeconds = 0.05;
    constexpr int kMost = 21;  // that are compared
    show("choose", std::min(1.0, static_cast<double>(compared_++) / kMost));
    std::vector<double> times;
    for (const int64_t samples : {1, 16}) {
      const int64_t count = std::min(samples, inputs[0].size(0));
      const double time = forward_seconds(inputs[0].slice(0, 0, count).contiguous(), kSeconds);
      times.push_back(is_stopped() ? 1 : time);  // nothing is faster, and that is soon over
    }
    return times;
  }

  /// Without --all the file may be what it was.
  void warn_of_none(const std::vector<compress::QuantizedLayer>& layers) {
    const auto is_f32 = [](const compress::QuantizedLayer& layer) { return !layer.why.empty(); };
    if (std::ranges::all_of(layers, is_f32))
      say(stderr, "brim: warning: no layer is in integers{}\n",
          arguments_.all ? "" : "; --all makes those integers, too, that are slower here");
  }

  /// No layer is chosen unless that is faster; but times change.
  void warn_of_times() {
    const auto& times = json_["times"];
    const auto is_slower = [](const Json& t) { return t["int8_s"] > t["f32_s"]; };
    if (times.is_array() && std::ranges::all_of(times, is_slower))
      say(stderr,
          "brim: warning: on this machine the network as a whole is slower in integers; {}\n",
          arguments_.all ? "leave out --all" : "--keep the layers that gain least");
  }

  void tell_layers(const std::vector<compress::QuantizedLayer>& layers) {
    json_["layers"] = Json::array();
    if (!quiet_)
      say(stdout, "layers, with the range of their inputs and what their outputs lose{}\n",
          arguments_.all ? "" : fmt::format("; how much faster for {} samples", at_once_));
    for (const compress::QuantizedLayer& layer : layers) {
      const bool is_int8 = layer.why.empty();
      Json entry = {{"name", layer.name},
                    {"shape", layer.shape.str()},
                    {"f32_because", is_int8 ? Json(nullptr) : Json(layer.why)}};
      if (is_int8) {
        entry["density"] = layer.is_sparse() ? Json(layer.sparse.density()) : Json(nullptr);
        entry["scale"] = layer.input.scale;
        entry["zero_point"] = layer.input.zero_point;
        entry["error"] = layer.error;
      }
      if (layer.f32_s > 0) {
        entry["f32_s"] = layer.f32_s;
        entry["int8_s"] = layer.int8_s;
        if (layer.sparse_int8_s > 0) entry["sparse_int8_s"] = layer.sparse_int8_s;
      }
      json_["layers"].push_back(entry);
      if (quiet_) continue;
      std::string what = "f32: " + layer.why;
      if (is_int8)
        what = fmt::format("inputs {:.3g} .. {:.3g}, error {:.2f} %", layer.input.min(),
                           layer.input.max(), 100 * layer.error);
      if (layer.is_sparse())
        what += fmt::format(", {:.0f} % of its columns", 100 * layer.sparse.density());
      if (is_int8 && layer.f32_s > 0)
        what += fmt::format(", {:.2f} x", layer.f32_s / layer.integers_s());
      say(stdout, "  {:<28} {:<18} {}\n", layer.name, layer.shape.str(), what);
    }
  }

  void save(const std::vector<compress::QuantizedLayer>& layers) {
    if (arguments_.out.empty()) return;
    const train::WeightsFile before(arguments_.weights);
    train::WeightsInfo info = train::read_weights_info(before);
    if (!info.recipe || !arguments_.recipe.empty()) info.recipe = recipe_;
    if (info.classes.empty()) info.classes = trainer_->data().names;
    const std::string path = (std::filesystem::path(arguments_.out) / "model.safetensors").string();
    train::save_int8_weights(path, trainer_->model(), compress::int8_layers(layers), info);
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    json_["bytes"] = bytes;
    if (!quiet_)
      say(stdout, "weights in {}, {} (before: {})\n", path, format_bytes(bytes),
          format_bytes(static_cast<int64_t>(bytes_before_)));
  }

  const QuantizeArguments& arguments_;
  compress::QuantizeOptions how_;
  const std::uintmax_t bytes_before_;
  int64_t at_once_ = 0;  // samples of the calibration
  int compared_ = 0;     // networks with other layers in integers
};

int run_quantize(const QuantizeArguments& o) {
  (void)compress::parse_calibration(o.calibration);
  if (o.percentile && o.calibration != "percentile")
    throw UsageError(
        fmt::format("--percentile is of --calibration percentile, and it is {}", o.calibration));
  if (o.percentile && (*o.percentile <= 50 || *o.percentile > 100))
    throw UsageError(
        fmt::format("--percentile {}: it is above 50, and at most 100", *o.percentile));
  if (o.finetune == 0 && (o.lr || o.batch))
    throw UsageError("--lr and --batch are of the training that --finetune asks for");
  check_finetune(o, o.finetune);
  std::error_code error;
  const std::string path = o.out + "/model.safetensors";
  if (!o.out.empty() && !o.overwrite && exists(std::filesystem::symlink_status(path, error)))
    throw UsageError(fmt::format("--out: {} exists; give --overwrite to replace it", path));
  return run_compression(o, "quantize", {}, [&](Device device) {
    if (o.overwrite) remove_logs(o.out);
    return QuantizeRun(o, device).run();
  });
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
                "of --calibration percentile: of the values at each end (default: 99.99)");
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
       args.flag("--overwrite", o->overwrite, "replace the file that is there");
       return [o] { return run_quantize(*o); };
     }});

}  // namespace
}  // namespace brim::command
