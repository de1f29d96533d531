// See class_names.h.
#include "data/source/class_names.h"

#include <fmt/core.h>

#include <string_view>
#include <unordered_map>

#include "core/printable.h"

namespace brim::data {

std::string wrong_class_names(const std::vector<std::string>& classes) {
  std::unordered_map<std::string_view, size_t> labels;
  for (size_t label = 0; label < classes.size(); ++label) {
    if (classes[label].empty())
      return fmt::format("the class of label {} has an empty name; name it", label);
    const auto [first, added] = labels.emplace(classes[label], label);
    if (!added)
      return fmt::format(
          "labels {} and {} both name their class '{}'; rename one, or give both "
          "the same label",
          first->second, label, printable(classes[label]));
  }
  return "";
}

}  // namespace brim::data
