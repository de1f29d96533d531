// What ranks compare of their data before they train.
#pragma once

#include <string>

#include <brim/train/task.h>

namespace brim::train {

/// Of 16 samples, the same on all hosts that have the same data: labels, and the pictures' files as
/// they are (pixels, where there are no files); of other samples whole numbers, and about what
/// fractions add up to, since hosts with other instruction sets may compute these otherwise. A
/// sample that cannot be read counts as such.
std::string fingerprint_of(const TaskData& data);

}  // namespace brim::train
