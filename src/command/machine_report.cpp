// What `brim env --check` found, for people and for programs (machine_check.h).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/machine_check.h"
#include "command/say.h"

namespace brim::command {
namespace {

const char* finding_word(Finding::State state) {
  return state == Finding::State::ok ? "ok" : state == Finding::State::slow ? "slow" : "FAILED";
}

}  // namespace

void print_findings(const std::vector<Finding>& findings, const CheckRequest& request) {
  size_t width = 0;
  for (const Finding& f : findings) width = std::max(width, f.name.size());
  for (const Finding& f : findings)
    say(stdout, "{:<6}  {:<{}}  {}{}{}\n", finding_word(f.state), f.name, width, f.what,
        f.cure.empty() ? "" : "; ", f.cure);
  say(stdout, "{} for --device {} --precision {}\n", is_ready(findings) ? "ready" : "not ready",
      request.device, request.precision);
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings, const CheckRequest& request) {
  nlohmann::ordered_json json = {{"ready", is_ready(findings)},
                                 {"device", request.device},
                                 {"precision", request.precision},
                                 {"checks", nlohmann::ordered_json::array()}};
  for (const Finding& f : findings)
    json["checks"].push_back(
        {{"name", f.name},
         {"state", f.state == Finding::State::failed ? "failed" : finding_word(f.state)},
         {"what", f.what},
         {"cure",
          f.cure.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(f.cure)}});
  return json;
}

}  // namespace brim::command
