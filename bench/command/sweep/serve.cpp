// See serve.h.
#include "bench/command/sweep/serve.h"

#include <brim/core/threads.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/command/measure.h"
#include "core/check.h"
#include "core/nearest.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

const SweepOp& find_op(const std::vector<SweepOp>& ops, const std::string& name) {
  std::vector<std::string> names;
  for (const SweepOp& op : ops) {
    if (op.name == name) return op;
    names.push_back(op.name);
  }
  raise<ValueError>("[bench] no op '{}'{}", name, suggestion(name, names));
}

SweepRun make_run(const SweepOp& op, const SweepCase& c) {
  const auto has = [](const auto& all, const auto& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  BRIM_CHECK(has(op.layouts, c.layout), ValueError, "[bench] {} has no layout '{}'; it has {}",
             op.name, c.layout, fmt::join(op.layouts, ", "));
  BRIM_CHECK(has(op.dtypes, c.dtype), ValueError, "[bench] {} is not swept in {}", op.name,
             name(c.dtype));
  BRIM_CHECK(c.elements > 0, ValueError, "[bench] {} elements; at least 1", c.elements);
  return op.make(c);
}

}  // namespace

SweepServer::SweepServer() : ops_(sweep_ops()) {}

Json SweepServer::list() const {
  Json all = Json::array();
  for (const SweepOp& op : ops_) {
    Json dtypes = Json::array();
    for (const DType dtype : op.dtypes) dtypes.push_back(name(dtype));
    all.push_back(
        {{"op", op.name}, {"family", op.family}, {"layouts", op.layouts}, {"dtypes", dtypes}});
  }
  return {{"ops", all}};
}

Json SweepServer::time(const nlohmann::json& request) {
  const SweepOp& op = find_op(ops_, request.at("op").get<std::string>());
  const SweepCase c{.layout = request.at("layout").get<std::string>(),
                    .dtype = parse_dtype(request.at("dtype").get<std::string>()),
                    .elements = request.at("elements").get<int64_t>()};
  set_num_threads(request.at("threads").get<int>());
  const auto seconds = request.at("seconds").get<double>();
  const std::string key = fmt::format("{} {} {} {}", op.name, c.layout, name(c.dtype), c.elements);
  if (key != current_) {
    current_.clear();
    run_ = {};  // its memory first
    run_ = make_run(op, c);
    results_.clear();
    for (const Tensor& x : run_.results())
      results_.push_back(fmt::format("{} {}", name(x.dtype()), x.shape().str()));
    current_ = key;
  }
  const Timing timing = measure(
      run_.step, {.seconds = seconds, .warm_up = seconds / 3, .warm_up_steps = 1, .blocks = 1});
  return {{"us", timing.median}, {"cpu_us", timing.cpu}, {"results", results_}};
}

std::string SweepServer::answer(const std::string& line) {
  Json answer;
  try {
    const auto request = nlohmann::json::parse(line);
    answer = request.contains("list") ? list() : time(request);
  } catch (const std::exception& error) {
    answer = {{"error", error.what()}};
  }
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace brim::command
