#include "train/task/open.h"

#include <brim/data/tables.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/check.h"
#include "data/dataset/get_sample.h"
#include "data/dataset/sample_access.h"
#include "data/keyed.h"
#include "data/permutation.h"
#include "data/source/subset.h"
#include "train/task/registry.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;

/// DIR/train.csv, or whatever there is of these.
std::string file_in(const std::string& folder, std::string_view stem,
                    std::initializer_list<std::string_view> extensions) {
  std::error_code ignored;
  for (const std::string_view extension : extensions) {
    const std::string path = fmt::format("{}/{}{}", folder, stem, extension);
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return "";
}

/// Three equal numbers, the default, serve any number of channels.
std::vector<float> by_channel(const std::vector<double>& values) {
  if (std::ranges::all_of(values, [&](double v) { return v == values[0]; }))
    return {static_cast<float>(values[0])};
  return {values.begin(), values.end()};
}

void apply_transforms(TaskData& data, const Recipe& recipe, bool training) {
  for (const std::string& name : recipe.input.transforms) {
    const SampleTransform transform = transform_factory(name)(recipe, training);
    if (!transform) continue;
    if (!data.samples) {
      const data::ImageShape shape = data.pictures->image_shape();
      data.samples = data::from_pictures(data.pictures, transform_of(recipe, shape, training));
      data.pictures.reset();
    }
    data.samples = data::map(data.samples, transform);
  }
}

}  // namespace

TaskData open_data(const Task& task, const Recipe& recipe, const DataRequest& request) {
  const size_t colon = recipe.data.find(':');
  const std::string name = recipe.data.substr(0, colon);
  const std::string parameters = colon == std::string::npos ? "" : recipe.data.substr(colon + 1);
  TaskData data =
      has_data(name) ? data_opener(name)(parameters, recipe, request) : task.open(recipe, request);
  BRIM_CHECK((data.samples != nullptr) != (data.pictures != nullptr), ValueError,
             "[recipe] {}: its opener must give samples, or pictures", recipe.data);
  BRIM_CHECK(data.outputs > 0, ValueError,
             "[recipe] {}: its opener must say how many outputs a network shall have "
             "(TaskData::outputs)",
             recipe.data);
  apply_transforms(data, recipe, request.training);
  return data;
}

data::Transform transform_of(const Recipe& recipe, const data::ImageShape& shape, bool training) {
  const InputRecipe& in = recipe.input;
  data::Transform transform;
  transform.normalize.mean.assign(in.mean.begin(), in.mean.end());
  transform.normalize.std.assign(in.std.begin(), in.std.end());
  data::ImageShape now = shape;
  if (in.size > 0) {
    const int size = static_cast<int>(in.size);
    if (training && in.random_resized_crop) {
      transform.steps.emplace_back(
          data::RandomResizedCrop{.height = size, .scaled_decode = in.scaled_decode});
    } else if (shape.height != size || shape.width != size) {
      transform.steps.emplace_back(data::Resize{.height = size});
      transform.steps.emplace_back(data::CenterCrop{.height = size});
    }
    now = {shape.channels, size, size};
  }
  if (training && in.crop_padding > 0) {
    BRIM_CHECK(
        now.height > 0, ValueError,
        "[recipe] {}: input.crop_padding needs pictures of one size, and {} has several; set "
        "input.size",
        recipe.name, recipe.data);
    transform.steps.emplace_back(data::RandomCrop{
        .height = now.height, .width = now.width, .padding = static_cast<int>(in.crop_padding)});
  }
  if (training && in.flip) transform.steps.emplace_back(data::HorizontalFlip{});
  return transform;
}

data::PictureOptions picture_options(const Recipe& recipe, bool training) {
  data::PictureOptions options{.transform = transform_of(recipe, {}, training),
                               .channels = static_cast<int>(recipe.input.channels)};
  options.transform.normalize = {by_channel(recipe.input.mean), by_channel(recipe.input.std)};
  return options;
}

TaskData picture_data(const data::PictureDataPtr& pictures) {
  return {.samples = pictures,
          .outputs = static_cast<int64_t>(pictures->names().size()),
          .names = pictures->names()};
}

bool has_split_file(const std::string& where, std::initializer_list<std::string_view> extensions) {
  return std::ranges::any_of(extensions, [&](std::string_view e) { return where.ends_with(e); }) ||
         !file_in(where, "train", extensions).empty();
}

std::string split_file(const std::string& where, data::Split split,
                       std::initializer_list<std::string_view> extensions) {
  std::error_code ignored;
  if (!fs::is_directory(where, ignored)) {
    if (split == data::Split::test)
      throw data::NoSuchSplit(fmt::format(
          "[data] {} is one file, all of which is for training; for a test split put train{} and "
          "test{} into a folder and give that",
          where, *extensions.begin(), *extensions.begin()));
    return where;
  }
  BRIM_CHECK(split != data::Split::all, ValueError,
             "[data] {}: its splits are files of their own; ask for one of them (train, test)",
             where);
  const bool train = split == data::Split::train;
  std::string path = file_in(where, train ? "train" : "test", extensions);
  if (path.empty() && !train) path = file_in(where, "val", extensions);
  BRIM_CHECK(!path.empty() || !train, FileError, "[data] {} holds no train file ({})", where,
             fmt::join(extensions, ", "));
  if (path.empty())
    throw data::NoSuchSplit(
        fmt::format("[data] {} holds no test file ({})", where, fmt::join(extensions, ", ")));
  return path;
}

TaskData open_table(const Recipe& recipe, const DataRequest& request, bool classes) {
  const InputRecipe& in = recipe.input;
  const std::string path = split_file(recipe.data, request.split, {".csv"});
  data::CsvOptions options{.columns = in.columns,
                           .targets = in.targets,
                           .target = classes ? data::Target::classes : data::Target::numbers};
  if (request.like && !request.like->columns.empty()) {
    options.columns = request.like->columns;
    options.targets = request.like->targets;
    if (classes) options.classes = request.like->names;
  }
  const auto table = data::open_csv(path, options);
  TaskData data{.samples = table, .targets = table->targets(), .columns = table->columns()};
  data.names = classes ? table->classes() : table->targets();
  data.outputs = static_cast<int64_t>(data.names.size());
  BRIM_CHECK(
      !classes || data.outputs > 1, FileError,
      "[data] {}: column '{}' has one class alone, so there is nothing to learn; name another "
      "in input.targets",
      path, data.targets[0]);
  return data;
}

Shape input_shape(const TaskData& data, const Recipe& recipe) {
  if (data.pictures) {
    const auto size = recipe.input.size;
    const data::ImageShape shape = data.pictures->image_shape();
    if (size > 0) return {3, size, size};
    if (shape == data::ImageShape{}) return {};
    return {shape.channels, shape.height, shape.width};
  }
  data::Sample sample;
  for (int64_t i = 0; i < data.samples->size(); ++i) {
    try {
      data::SampleAccess::begin(sample, 0);
      data::get_sample(*data.samples, i, sample);
      const data::SampleField* x = sample.find("x");
      return x ? x->shape : Shape();
    } catch (const FileError&) {
      if (recipe.input.on_corrupt != "skip") throw;
    }
  }
  return {};
}

ValidationParts split_off(const TaskData& data, const TaskData& same, const Task& task,
                          const Recipe& recipe) {
  const auto size_of = [](const TaskData& of) {
    return of.pictures ? of.pictures->size() : of.samples->size();
  };
  const int64_t size = size_of(data);
  BRIM_CHECK(
      size > 1 && size_of(same) == size, ValueError,
      "[recipe] {}: of {} samples none can be kept for validation; leave validation.fraction "
      "out",
      recipe.data, size);
  const int64_t kept = std::clamp<int64_t>(
      std::llround(recipe.validation.fraction * static_cast<double>(size)), 1, size - 1);
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!task.in_order()) {
    const data::Permutation drawn(size, data::key64(recipe.seed, 0x76616c69));
    for (int64_t& i : order) i = drawn[i];
  }
  const auto border = order.end() - kept;
  std::sort(order.begin(), border);  // read in order, where they are not shuffled
  std::sort(border, order.end());
  const auto part = [](const TaskData& of, std::vector<int64_t> samples) {
    TaskData some = of;
    if (of.pictures)
      some.pictures = std::make_shared<data::SourceSubset>(of.pictures, std::move(samples));
    else
      some.samples = data::subset(of.samples, std::move(samples));
    return some;
  };
  return {part(data, {order.begin(), border}), part(same, {border, order.end()})};
}

}  // namespace brim::train
