#include "command/tensorboard_log.h"

#include <brim/core/random.h>
#include <brim/deploy/summary.h>
#include <brim/nn/init.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "command/report.h"
#include "command/wrong_pictures.h"
#include "core/device_names.h"
#include "io/event_file.h"
#include "train/task/open.h"

namespace brim::command {
namespace {

/// Whether the run goes on in a folder of which a file has the graph.
bool goes_on_with_graph(const std::string& folder, const train::Trainer& trainer) {
  if (trainer.resumed_from().empty()) return false;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().find("tfevents") != std::string::npos &&
        io::has_graph(at->path().string()))
      return true;
  return false;
}

/// Of a run that goes on, earlier files hold no more behind its checkpoint.
std::optional<int64_t> purge_from(const train::Trainer& trainer) {
  if (trainer.resumed_from().empty()) return {};
  return trainer.steps_before() + 1;
}

std::map<std::string, train::HyperParameter> hyper_parameters(const train::Recipe& r,
                                                              const std::vector<Device>& devices) {
  return {{"recipe", r.name},
          {"data", r.data},
          {"optimizer", r.optimizer.name},
          {"lr", r.optimizer.lr},
          {"batch", static_cast<double>(r.batch)},
          {"epochs", static_cast<double>(r.epochs)},
          {"seed", static_cast<double>(r.seed)},
          {"precision", r.precision},
          {"device", names_of(devices)}};
}

/// Of the network that is trained, over a batch. Draws no random number.
deploy::NetworkSummary network_of(const train::Recipe& recipe, const train::Trainer& trainer) {
  Generator own;
  const GeneratorScope scope(own);
  const nn::init::SkipInit no_values;
  Shape shape = train::input_shape(trainer.data(), recipe);
  shape.insert(0, recipe.batch);
  const DType dtype = recipe.task == "language" ? i64 : f32;
  const auto network = train::make_network(recipe, trainer.data(), Device::cpu());
  return deploy::summarize(*network, Tensor::empty(shape, dtype, Device::cpu()));
}

Tensor tensor_of(const data::Image& image) {
  const int planes[] = {2, 0, 1};
  return Tensor::from(std::span<const uint8_t>(image.pixels),
                      {image.height, image.width, image.channels})
      .permute(planes);
}

/// As Markdown has it.
std::string code_block(const std::string& text) {
  std::string block = "    ";
  for (const char c : text) {
    block += c;
    if (c == '\n') block += "    ";
  }
  return block;
}

/// A row for each class, from the first one down: dark where it was taken for the column's.
Tensor confusion_picture(const std::vector<std::vector<int64_t>>& counts) {
  constexpr size_t kSide = 480, kMostPixels = 24;  // of a cell
  const size_t classes = counts.size();
  const size_t cell = std::clamp<size_t>(kSide / classes, 2, kMostPixels), side = cell * classes;
  std::vector<float> light(side * side);
  for (size_t is = 0; is < classes; ++is) {
    const int64_t all = std::accumulate(counts[is].begin(), counts[is].end(), int64_t{0});
    for (size_t y = is * cell; y < (is + 1) * cell; ++y)
      for (size_t x = 0; x < side; ++x)
        light[y * side + x] = 1 - static_cast<float>(counts[is][x / cell]) /
                                      static_cast<float>(std::max<int64_t>(all, 1));
  }
  const auto pixels = static_cast<int64_t>(side);
  return Tensor::from(light, {1, pixels, pixels});
}

std::string account_table(const std::vector<train::TrainResult::DeviceAccount>& accounts) {
  std::string table = "| device | cause | seconds | share |\n| --- | --- | --- | --- |\n";
  for (const auto& [device, account, recorded] : accounts) {
    const std::array<double, diag::kCauseCount> percent = account.percent();
    for (size_t c = 0; c < percent.size(); ++c)
      if (percent[c] > 0)
        table +=
            fmt::format("| {} | {} | {:.3f} | {:.1f} % |\n", device.str(),
                        diag::name(static_cast<diag::Cause>(c)), account.seconds[c], percent[c]);
  }
  return table;
}

}  // namespace

TensorBoardLog::TensorBoardLog(const std::string& folder, const train::Recipe& recipe,
                               const std::vector<Device>& devices, const train::Trainer& trainer,
                               std::function<void(const std::string&)> warn)
    : steps_before_(trainer.steps_before()),
      warn_(std::move(warn)),
      step_(steps_before_),
      has_graph_(goes_on_with_graph(folder, trainer)),
      writer_(folder, purge_from(trainer)) {
  writer_.add_text("recipe", code_block(recipe.toml()), steps_before_);
  writer_.add_hparams(hyper_parameters(recipe, devices), {"train/loss", "test/loss"});
  if (!has_graph_) add_graph(recipe, trainer);
  writer_.flush();
}

void TensorBoardLog::add_graph(const train::Recipe& recipe, const train::Trainer& trainer) {
  try {
    writer_.add_graph(network_of(recipe, trainer));
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {  // of a network of one's own that cannot be recorded
    warn_(fmt::format("{}; TensorBoard is not shown the network's graph", e.what()));
  }
}

template <class F>
void TensorBoardLog::attempt(const F& action) {
  if (failed_) return;
  try {
    action();
  } catch (const Error& e) {
    const std::lock_guard lock(mutex_);
    if (!failed_) failure_ = e.what();
    failed_ = true;
  }
}

void TensorBoardLog::tell_failure() {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) warn_(failure_ + "; TensorBoard is told no more");
  failure_.clear();
}

void TensorBoardLog::add(const train::Progress& p, nn::Module& model) {
  step_ = steps_before_ + p.step;
  attempt([&] {
    if (p.report) {
      writer_.add_scalar("train/loss", p.loss, step_);
      writer_.add_scalar("train/learning_rate", p.learning_rate, step_);
      writer_.add_scalar("train/samples_per_s", p.images_per_s, step_);
      if (p.rounds > 0) writer_.add_scalar("train/round", static_cast<double>(p.round), step_);
    }
    if (!p.epoch_done) return;
    if (p.validation) add("validation", *p.validation);
    const auto add_all = [&](const char* what, const std::string& name, const Tensor& tensor) {
      if (!tensor.defined()) return;
      try {
        writer_.add_histogram(fmt::format("{}/{}", what, name), tensor, step_);
      } catch (
          const ValueError&) {  // it is empty, or has no finite value: there is nothing to show
      }
    };
    for (const auto& [name, parameter] : model.named_parameters()) {
      add_all("weights", name, parameter);
      add_all("gradients", name, parameter.grad());
    }
    writer_.flush();
  });
  tell_failure();
}

void TensorBoardLog::add(const char* split, const train::Evaluation& evaluation) {
  const auto add_value = [&](const std::string& name, double value) {
    writer_.add_scalar(fmt::format("{}/{}", split, name), value, step_);
  };
  add_value("loss", evaluation.loss);
  for (const train::Evaluation::Value& metric : evaluation.metrics)
    add_value(metric.name, metric.value);
  for (const train::Evaluation::Class& c : evaluation.classes)
    if (c.samples > 0) add_value("class/" + c.name, c.accuracy());
  if (evaluation.confusion.empty()) return;
  try {
    writer_.add_image(fmt::format("{}/confusion", split), confusion_picture(evaluation.confusion),
                      step_);
  } catch (const FileError&) {  // brim was built without libpng
  }
}

void TensorBoardLog::add(const diag::Reading& reading) {
  attempt([&] {
    const int64_t step = step_;
    writer_.add_scalar("host/load", reading.host.mean_load(), step);
    writer_.add_scalar("host/process_cores", reading.host.process_cores, step);
    writer_.add_scalar("host/resident_bytes", static_cast<double>(reading.host.resident), step);
    for (const auto& [device, gpu] : reading.gpus) {
      const std::string of_device = device.str() + "/";
      const auto add_known = [&](const char* name, const auto& value) {
        if (value) writer_.add_scalar(of_device + name, static_cast<double>(*value), step);
      };
      add_known("utilisation", gpu.utilisation);
      add_known("sm_active", gpu.sm_active);
      add_known("tensor_active", gpu.tensor_active);
      add_known("memory_used_bytes", gpu.memory_used);
      add_known("temperature_c", gpu.temperature);
      add_known("power_w", gpu.power);
      add_known("energy_j", gpu.energy);
      add_known("sm_clock_mhz", gpu.sm_clock);
    }
  });
}

void TensorBoardLog::add_most_wrong(const train::Evaluation& e, const data::Loader& loader) {
  std::vector<data::Image> pictures;
  try {
    pictures = wrong_thumbnails(e, loader);
  } catch (const Error& error) {  // the pictures are there no more
    return warn_(error.what() + std::string("; TensorBoard is not shown the most wrong pictures"));
  }
  std::string table =
      "| picture | sample | class | taken for | loss |\n| --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < pictures.size(); ++i) {
    const train::Evaluation::Wrong& wrong = e.most_wrong[i];
    table += fmt::format("| {} | {} | {} | {}, {:.1f} % sure | {:.3f} |\n", i, wrong.sample,
                         class_name(e, wrong.is), class_name(e, wrong.said),
                         100 * wrong.probability, wrong.loss);
    try {
      writer_.add_image(fmt::format("test/most_wrong/{:02}", i), tensor_of(pictures[i]), step_);
    } catch (const FileError&) {  // brim was built without libpng
    }
  }
  if (!pictures.empty()) writer_.add_text("test/most_wrong", table, step_);
}

void TensorBoardLog::add(const train::TrainResult& result, const data::Loader* tested) {
  attempt([&] {
    if (result.test) add("test", *result.test);
    if (result.test && tested) add_most_wrong(*result.test, *tested);
    if (!result.accounts.empty())
      writer_.add_text("account", account_table(result.accounts), step_);
    writer_.flush();
  });
  tell_failure();
}

}  // namespace brim::command
