// Results as text and as JSON.
#include "command/report.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>

#include "command/command.h"
#include "core/check.h"
#include "core/printable.h"
#include "core/write_cure.h"
#include "data/loader/worker_parts.h"
#include "io/atomic_file.h"
#include "io/paths.h"
#include "train/run_folder.h"

namespace brim::command {

namespace {

using Json = nlohmann::ordered_json;

/// Whether writing to `path` would replace what `other` names. A device or pipe is not replaced.
bool replaces(const std::string& path, const std::string& other) {
  struct stat info {};
  if (path.empty() || other.empty() || is_stdout(path)) return false;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return false;
  return io::real_path(path) == io::real_path(other);
}

}  // namespace

std::string metrics_line(const train::Evaluation& e) {
  std::string line;
  for (const auto& metric : e.metrics)
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", printable(metric.name),
                        metric.is_fraction ? fmt::format("{:.2f} %", 100 * metric.value)
                                           : fmt::format("{:.4f}", metric.value));
  return line;
}

std::string left_out(const train::Evaluation& e) {
  return e.skipped > 0 ? fmt::format(" ({} corrupt ones left out)", e.skipped) : "";
}

namespace {

/// "most confused: cat for dog 31, ...", where there are more than two classes.
std::string confused_line(const train::Evaluation& e) {
  constexpr size_t kNamed = 3;
  if (e.confusion.size() < 3) return "";
  std::vector<std::tuple<int64_t, size_t, size_t>> pairs;
  for (size_t is = 0; is < e.confusion.size(); ++is)
    for (size_t said = 0; said < e.confusion.size(); ++said)
      if (said != is && e.confusion[is][said] > 0)
        pairs.emplace_back(-e.confusion[is][said], is, said);
  std::ranges::sort(pairs);
  if (pairs.size() > kNamed) pairs.resize(kNamed);
  std::string line;
  for (const auto& [count, is, said] : pairs)
    line += fmt::format("{}{} for {} {}", line.empty() ? "  most confused: " : ", ",
                        printable(e.classes[is].name), printable(e.classes[said].name), -count);
  return line.empty() ? "" : line + "\n";
}

}  // namespace

std::string evaluation_table(const train::Evaluation& e, const std::string& split) {
  const std::string of = split == "all" ? "" : split == "train" ? "training " : split + " ";
  std::string text;
  if (e.metrics.size() == 1 && e.metrics[0].name == "accuracy")
    text = fmt::format("accuracy on {} {}images{}: {:.2f} %, loss {:.4f}\n", e.samples, of,
                       left_out(e), 100 * e.accuracy(), e.loss);
  else
    text = fmt::format("on {} {}samples{}: {}{}loss {:.4f}\n", e.samples, of, left_out(e),
                       metrics_line(e), e.metrics.empty() ? "" : ", ", e.loss);
  const std::string confused = confused_line(e);
  if (e.classes.size() > 100) return text + confused;
  size_t width = 8;
  for (const auto& c : e.classes) width = std::max(width, printable(c.name).size());
  for (const auto& c : e.classes)
    text += fmt::format("  {:<{}} {:>6.1f} %  {:>6} of {}\n", printable(c.name), width,
                        100 * c.accuracy(), c.correct, c.samples);
  return text + confused;
}

std::string class_name(const train::Evaluation& e, int64_t number) {
  const auto at = static_cast<size_t>(number);
  return at < e.classes.size() ? e.classes[at].name : std::to_string(number);
}

Json to_json(const train::Evaluation& e) {
  Json json{{"samples", e.samples},      {"skipped", e.skipped},     {"loss", finite(e.loss)},
            {"metrics", Json::object()}, {"classes", Json::array()}, {"per_class", Json::object()}};
  for (const auto& value : e.metrics) json["metrics"][value.name] = finite(value.value);
  for (const auto& c : e.classes) {
    json["classes"].push_back(c.name);
    json["per_class"][c.name] = c.accuracy();
  }
  json["most_wrong"] = Json::array();
  for (const train::Evaluation::Wrong& wrong : e.most_wrong)
    json["most_wrong"].push_back({{"sample", wrong.sample},
                                  {"class", class_name(e, wrong.is)},
                                  {"predicted", class_name(e, wrong.said)},
                                  {"probability", finite(wrong.probability)},
                                  {"loss", finite(wrong.loss)}});
  json["confusion"] = e.confusion.empty() ? Json(nullptr) : Json(e.confusion);
  return json;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const diag::Account& account) {
  Json json = Json::object();
  for (int i = 0; i < diag::kCauseCount; ++i) {
    const auto cause = static_cast<diag::Cause>(i);
    std::string key(diag::name(cause));
    std::replace(key.begin(), key.end(), ' ', '_');
    json[key] = account.fraction(cause);
  }
  return json;
}

Json to_json(const data::WorkerAccount& worker) {
  Json json;
  for (const auto& [name, part] : data::kWorkerParts) json[name] = worker.*part;
  return json;
}

Json to_json(const std::vector<data::WorkerAccount>& workers) {
  Json json{{"sum", to_json(data::sum(workers))}, {"each", Json::array()}};
  for (const data::WorkerAccount& worker : workers) json["each"].push_back(to_json(worker));
  return json;
}

Json to_json(const CompileStats& s) {
  Json json;
  json["mode"] = s.fell_back.empty() ? "compiled" : "eager";
  json["reason"] = s.fell_back.empty() ? Json(nullptr) : Json(s.fell_back);
  json["plans"] = s.plans;
  json["replays"] = s.replays;
  json["eager_steps"] = s.eager_steps;
  json["compile_ms"] = s.compile_ms;
  json["launches_recorded"] = s.recorded_launches;
  json["launches"] = s.launches;
  json["operand_bytes_recorded"] = s.recorded_operand_bytes;
  json["operand_bytes"] = s.operand_bytes;
  json["eager_bytes"] = s.eager_bytes;
  json["arena_bytes"] = s.arena_bytes;
  json["host_bytes"] = s.host_bytes;
  json["graph_replays"] = s.graph_replays;
  json["graph_nodes"] = s.graph_nodes;
  return json;
}

std::string how_steps_ran(const CompileStats& s) {
  if (!s.fell_back.empty()) return "eager steps (" + s.fell_back + ")";
  return fmt::format("compiled steps ({} launches became {})", s.recorded_launches, s.launches);
}

bool is_stdout(const std::string& path) { return path == "-" || path == "/dev/stdout"; }

void check_output_path(const char* option, const std::string& path) {
  if (path.empty()) return;
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  const std::string otherwise = fmt::format("give another name to --{}", option);
  BRIM_CHECK(!exists || !S_ISDIR(info.st_mode), FileError,
             "[{}] {} is a folder; give the name of a file to --{}", option, path, option);
  if (exists && !S_ISREG(info.st_mode)) {  // a device or pipe is written in place
    BRIM_CHECK(access(path.c_str(), W_OK) == 0, FileError, "[{}] {} cannot be written: {}", option,
               path, write_failure(errno, otherwise));
    return;
  }
  const std::string folder = io::parent_folder(io::without_links(path));
  BRIM_CHECK(access(folder.c_str(), W_OK | X_OK) == 0, FileError,
             "[{}] {} cannot be written: the folder {}: {}", option, path, folder,
             write_failure(errno, otherwise));
}

void check_json_path(const std::string& path) {
  if (!is_stdout(path)) check_output_path("json", path);
}

void check_outputs(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (auto other = outputs.begin(); other != output; ++other)
      if (replaces(output->path, other->path))
        throw UsageError(fmt::format("{} and {} both name {}; give each a file of its own",
                                     other->name, output->name, output->path));
    for (const NamedPath& input : inputs)
      if (replaces(output->path, input.path))
        throw UsageError(fmt::format("{} {} would replace {}; give it a file of its own",
                                     output->name, output->path, input.name));
  }
}

void check_beside_run(const std::vector<NamedPath>& outputs, const std::string& folder) {
  for (const NamedPath& output : outputs) {
    const bool has_events = output.name == "--tensorboard";
    if (!output.path.empty() && !folder.empty() &&
        train::belongs_to_run(folder, has_events ? output.path + "/events" : output.path))
      throw UsageError(
          fmt::format("{} {} is in the way of what the run keeps in {}; give another name",
                      output.name, output.path, folder));
  }
}

void write_json(const Json& json, const std::string& path) {
  // A class name from a folder may be no UTF-8.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (is_stdout(path))
    std::fputs(isatty(STDOUT_FILENO) == 1 ? printable(text, "\n").c_str() : text.c_str(), stdout);
  else
    io::write_file_atomically(path, text);
}

}  // namespace brim::command
