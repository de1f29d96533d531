// What was registered by name.
#pragma once

#include <string>

#include <brim/train/task.h>

namespace brim::train {

bool has_data(const std::string& name);
/// Throw ValueError naming the nearest valid name.
DataOpener data_opener(const std::string& name);
SampleTransformFactory transform_factory(const std::string& name);

}  // namespace brim::train
