#include "command/exported_port.h"

#include <fmt/ranges.h>

#include <brim_rt.hpp>

#include "command/say.h"

namespace brim::command {

void ExportedPort::print(const char* what) const {
  const std::string shape = fmt::format("{}", fmt::join(sizes, ", "));
  say(stdout, "{} ({}) {}, named {}\n", what, shape, dtype, name);
}

nlohmann::ordered_json ExportedPort::to_json() const {
  return {{"name", name}, {"sizes", sizes}, {"dtype", dtype}};
}

ExportedPort input_port(const Shape& input, DType dtype, const std::string& batch) {
  ExportedPort port{.name = "input", .sizes = {batch}, .dtype = std::string(brim::name(dtype))};
  for (const int64_t size : input) port.sizes.push_back(std::to_string(size));
  return port;
}

std::vector<ExportedPort> outputs_of_engine(const std::string& path, const std::string& batch) {
  constexpr const char* kTypes[] = {"f32", "i64", "u8", "i32"};  // by brim_rt_dtype
  const brim_rt::Model model(path);
  const brim_rt::Session session(
      model, {.batch = 0, .own_threads = 1, .threads = nullptr, .isa = nullptr});
  std::vector<ExportedPort> ports;
  for (const brim_rt_port& output : session.outputs()) {
    ports.push_back({.name = output.name, .sizes = {batch}, .dtype = kTypes[output.dtype]});
    for (int d = 1; d < output.rank; ++d)
      ports.back().sizes.push_back(std::to_string(output.shape[d]));
  }
  return ports;
}

nlohmann::ordered_json to_json(const std::vector<ExportedPort>& ports) {
  auto json = nlohmann::ordered_json::array();
  for (const ExportedPort& port : ports) json.push_back(port.to_json());
  return json;
}

}  // namespace brim::command
