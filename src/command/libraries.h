// The libraries that brim can be built with, and which of them this build has.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace brim::command {

struct Library {
  std::string name;
  bool found = false;
  std::string version;
  std::string purpose;
  std::string package;  ///< of Debian and Ubuntu
};

std::vector<Library> libraries();

/// {"brim": "0.1.0", "compiler": "gcc 12.2.0", "isa": "avx2", "onednn": "2.7", ...}: for --json.
nlohmann::ordered_json build_versions();

}  // namespace brim::command
