// The ops that include/brim/ops/*.h declare.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace brim::tests {

/// The folder of the sources: BRIM_SOURCE_DIR, or the current one.
inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("BRIM_SOURCE_DIR");
  return folder ? folder : ".";
}

/// The names of their functions, operators left out.
inline std::set<std::string> public_ops() {
  const std::regex declaration(
      R"(^(?:inline )?(?:Tensor|Extremum|Sorted|Unique|std::vector<Tensor>) (?!operator)(\w+)\()");
  std::set<std::string> names;
  for (const auto& header :
       std::filesystem::directory_iterator(source_folder() / "include/brim/ops")) {
    std::ifstream file(header.path());
    for (std::string line; std::getline(file, line);)
      if (std::smatch match; std::regex_search(line, match, declaration)) names.insert(match[1]);
  }
  return names;
}

}  // namespace brim::tests
