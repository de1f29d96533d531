// What the names of a source's classes must be.
#pragma once

#include <string>
#include <vector>

namespace brim::data {

/// What is wrong with the names of classes, by label, and what to do; "" where each is there once
/// and none is empty. Results and folders go by names: two of one name would become one class.
std::string wrong_class_names(const std::vector<std::string>& classes);

}  // namespace brim::data
