#include "command/run_phases.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/start.h"

namespace brim::command {

double& RunPhases::of(const std::string& name) {
  for (auto& [known, seconds] : phases_)
    if (known == name) return seconds;
  return phases_.emplace_back(name, 0.0).second;
}

void RunPhases::end(const std::string& name) {
  const double now = milliseconds_since_start() * 1e-3;
  of(name) += now - at_;
  at_ = now;
}

void RunPhases::move(const std::string& from, const std::string& to, double seconds) {
  const double moved = std::clamp(seconds, 0.0, of(from));
  of(from) -= moved;
  of(to) += moved;
}

std::string RunPhases::line() const {
  std::string text;
  for (const auto& [name, seconds] : phases_)
    if (seconds >= 0.05)
      text += fmt::format("{} {} {:.1f}", text.empty() ? ":" : ",", name, seconds);
  return fmt::format("the run took {:.1f} s{}", at_, text);
}

nlohmann::ordered_json RunPhases::json() const {
  nlohmann::ordered_json json;
  for (const auto& [name, seconds] : phases_) json[name] = seconds;
  json["wall"] = at_;
  return json;
}

}  // namespace brim::command
