// What tasks and the trainer open a recipe's data with.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <brim/data/pictures.h>
#include <brim/data/transform.h>
#include <brim/train/task.h>

namespace brim::train {

/// The data of a recipe: of a registered name, or as the task opens it, with
/// InputRecipe::transforms behind it. Throws what those throw.
TaskData open_data(const Task& task, const Recipe& recipe, const DataRequest& request);

/// How [input] prepares pictures of `shape`, whose parts are 0 where they differ or are unknown.
data::Transform transform_of(const Recipe& recipe, const data::ImageShape& shape, bool training);

/// The same for pictures that are a data set of their own.
data::PictureOptions picture_options(const Recipe& recipe, bool training);
TaskData picture_data(const data::PictureDataPtr& pictures);

/// Recipe::data for a split: that file, all of which is train, or in a folder train.EXT, test.EXT
/// (or val.EXT), of these extensions. Throws data::NoSuchSplit.
std::string split_file(const std::string& where, data::Split split,
                       std::initializer_list<std::string_view> extensions);

/// Whether it is a file of one of these extensions, or a folder that holds train.EXT.
bool has_split_file(const std::string& where, std::initializer_list<std::string_view> extensions);

/// A table of a CSV file. `classes`: whether its target is one.
TaskData open_table(const Recipe& recipe, const DataRequest& request, bool classes);

/// How long one x of the data is, and so on, read from its first sample.
Shape input_shape(const TaskData& data, const Recipe& recipe);

/// The samples that a validation split has, and those that are left.
struct ValidationParts {
  TaskData train, validation;
};
/// `same`: the same data without what is random, for the validation. Throws ValueError where there
/// is but one sample.
ValidationParts split_off(const TaskData& data, const TaskData& same, const Task& task,
                          const Recipe& recipe);

}  // namespace brim::train
