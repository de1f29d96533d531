// The tables of tasks, data and transforms by name.
#include <brim/train/task.h>

#include "core/registry.h"
#include "train/task/registry.h"

namespace brim::train {
namespace {

Registry<TaskFactory>& tasks() {
  static auto* registry = new Registry<TaskFactory>("recipe", "task");
  return *registry;
}
Registry<DataOpener>& openers() {
  static auto* registry = new Registry<DataOpener>("recipe", "data set");
  return *registry;
}
Registry<SampleTransformFactory>& transforms() {
  static auto* registry = new Registry<SampleTransformFactory>("recipe", "transform");
  return *registry;
}

}  // namespace

bool register_task(const std::string& name, TaskFactory factory) {
  return tasks().add(name, std::move(factory));
}
std::vector<std::string> task_names() { return tasks().names(); }
std::unique_ptr<Task> make_task(const Recipe& recipe) { return tasks().get(recipe.task)(recipe); }

bool register_data(const std::string& name, DataOpener opener) {
  return openers().add(name, std::move(opener));
}
std::vector<std::string> data_names() { return openers().names(); }
bool has_data(const std::string& name) { return openers().has(name); }
DataOpener data_opener(const std::string& name) { return openers().get(name); }

bool register_transform(const std::string& name, SampleTransformFactory factory) {
  return transforms().add(name, std::move(factory));
}
std::vector<std::string> transform_names() { return transforms().names(); }
SampleTransformFactory transform_factory(const std::string& name) { return transforms().get(name); }

TaskData Task::open(const Recipe& recipe, const DataRequest&) const {
  raise<ValueError>(
      "[recipe] task '{}' takes data that was registered (train::register_data), and '{}' was not; "
      "known are {}",
      recipe.task, recipe.data, fmt::join(data_names(), ", "));
}

}  // namespace brim::train
