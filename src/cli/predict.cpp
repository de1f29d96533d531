// `brim predict --weights FILE IMAGE...`: class and probability of each picture.
#include <brim/autograd/autograd.h>
#include <brim/core/threads.h>
#include <brim/data/transform.h>
#include <brim/nn/models.h>
#include <brim/ops/softmax.h>
#include <brim/train/weights.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/command.h"
#include "cli/device_option.h"
#include "cli/libraries.h"
#include "cli/report.h"
#include "cli/say.h"
#include "core/check.h"

namespace brim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PredictOptions {
  std::string weights, recipe, device = "auto", json;
  std::vector<std::string> images;
  int top = 1;
  int threads = 0;
};

/// How the recipe prepares a picture, without anything random.
data::Transform transform_of(const train::Recipe& recipe) {
  data::Transform transform;
  transform.normalize.mean.assign(recipe.input.mean.begin(), recipe.input.mean.end());
  transform.normalize.std.assign(recipe.input.std.begin(), recipe.input.std.end());
  if (const int size = static_cast<int>(recipe.input.size); size > 0)
    transform.steps = {data::Resize{.height = size}, data::CenterCrop{.height = size}};
  return transform;
}

/// What the file says, or else the size that the network's number of classes sets in it.
int64_t class_count(const train::WeightsInfo& info, const train::WeightsFile& file,
                    const std::string& model) {
  if (!info.classes.empty()) return static_cast<int64_t>(info.classes.size());
  const NamedTensors two = nn::make_model(model, {.classes = 2})->named_parameters();
  const NamedTensors three = nn::make_model(model, {.classes = 3})->named_parameters();
  for (size_t i = 0; i < std::min(two.size(), three.size()); ++i) {
    const auto& [name, x] = two[i];
    const Shape &a = x.shape(), &b = three[i].second.shape();
    if (a == b || a.rank() != b.rank()) continue;
    const auto& names = file.names();
    BRIM_CHECK(std::find(names.begin(), names.end(), name) != names.end(), FileError,
               "[predict] {} holds no {}, which would tell how many classes it knows; name the "
               "recipe of its network, which is not {}, with --recipe",
               file.path(), name, model);
    const Shape& shape = file.info(name).shape;
    for (int d = 0; d < a.rank(); ++d)
      if (a[d] == 2 && b[d] == 3 && d < shape.rank() && shape[d] > 0) return shape[d];
  }
  raise<FileError>(
      "[predict] {} does not tell how many classes it knows; use weights that `brim train` wrote",
      file.path());
}

int predict(const PredictOptions& o, const ChosenDevices& chosen) {
  if (o.threads > 0) set_num_threads(o.threads);
  const Device device = chosen.devices[0];
  const train::WeightsFile file(o.weights);
  const train::WeightsInfo info = train::read_weights_info(file);
  BRIM_CHECK(info.recipe || !o.recipe.empty(), ValueError,
             "[predict] {} does not say which recipe made it; name one with --recipe", o.weights);
  const train::Recipe recipe = o.recipe.empty() ? *info.recipe : train::load_recipe(o.recipe);
  const auto model = nn::make_model(
      recipe.model, {.classes = class_count(info, file, recipe.model), .device = device});
  train::load_weights(file, *model);
  model->eval();

  const NoGrad guard;
  const data::Transform transform = transform_of(recipe);
  Json all = Json::array();
  for (const std::string& path : o.images) {
    const data::Image image = data::load_image(path);
    const Tensor x = data::to_tensor(image, transform).unsqueeze(0).to(device);
    const std::vector<float> p = softmax((*model)(x), 1).to_vector<float>();
    BRIM_CHECK(
        std::all_of(p.begin(), p.end(), [](float v) { return std::isfinite(v); }), ValueError,
        "[predict] {}: its probabilities are NaN: {} holds weights that are no numbers, or too "
        "large; use others",
        path, o.weights);
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    order.resize(std::min(order.size(), static_cast<size_t>(o.top)));
    std::string line;
    Json found = Json::array();
    for (const size_t i : order) {
      const std::string name = i < info.classes.size() ? info.classes[i] : std::to_string(i);
      line += fmt::format("{}{} {:.1f} %", line.empty() ? "" : ", ", name, 100.0 * p[i]);
      found.push_back({{"class", name}, {"probability", p[i]}});
    }
    if (!is_stdout(o.json)) say(stdout, "{}: {}\n", path, line);
    all.push_back({{"image", path}, {"classes", found}});
  }
  if (!o.json.empty())
    write_json({{"weights", o.weights},
                {"device", device.str()},
                {"device_choice", chosen.json()},
                {"images", all},
                {"versions", build_versions()}},
               o.json);
  return 0;
}

int run(const PredictOptions& o) {
  check_json_path(o.json);
  std::vector<NamedPath> inputs = {{"the recipe", o.recipe}, {"the weights", o.weights}};
  for (const std::string& path : o.images) inputs.push_back({"a picture", path});
  check_outputs({{"--json", o.json}}, inputs);
  const ChosenDevices chosen = choose_one(o.device);
  tell_choice(chosen, is_stdout(o.json));
  return on_chosen(chosen, [&] { return predict(o, chosen); });
}

const Register predict_command(
    {"predict", "tell the class of pictures", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<PredictOptions>();
       args.add("--weights", o->weights, "a .safetensors, .pth or .pt file").required();
       args.add("image", o->images, "JPEG or PNG files").required();
       args.add("--recipe", o->recipe, "for weights that do not name their recipe");
       args.add("--top", o->top, "how many classes to show").range(1, 1000);
       args.add("--device", o->device,
                "auto (the GPU with the most free memory, or the CPU), cpu, cuda:N or sim:N")
           .show_default();
       args.add("--threads", o->threads, "CPU threads per op").range(1, 4096);
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::cli
