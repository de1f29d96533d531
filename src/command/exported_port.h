// What a program gives to an exported network and takes from it, as `brim export` reports it.
#pragma once

#include <brim/core/dtype.h>
#include <brim/core/shape.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace brim::command {

struct ExportedPort {
  std::string name;
  std::vector<std::string> sizes;  ///< of its axes, as "batch", "3"
  std::string dtype;

  /// As a line that begins with `what`.
  void print(const char* what) const;
  nlohmann::ordered_json to_json() const;
};

/// Of one input of these sizes. `batch`: what stands before them.
ExportedPort input_port(const Shape& input, DType dtype, const std::string& batch);
/// As an engine has them, in all of its programs but for the batch.
std::vector<ExportedPort> outputs_of_engine(const std::string& path, const std::string& batch);
nlohmann::ordered_json to_json(const std::vector<ExportedPort>& ports);

}  // namespace brim::command
