#include "command/program_diagnosis.h"

#include <brim/core/threads.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "command/cause_named.h"
#include "command/run_program.h"
#include "command/source_lines.h"
#include "command/top/fields.h"
#include "core/check.h"
#include "core/json_text.h"
#include "data/loader/loop_watch.h"
#include "data/loader/worker_parts.h"
#include "io/temporary.h"
#include "train/doctor/estimate.h"
#include "train/doctor/evidence.h"

namespace brim::command {
namespace {

using diag::Cause;
using top::Json;

constexpr size_t kLeast = 3;  // stretches; fewer have no interval worth the name
constexpr size_t kMostStretches = 4096, kMostWaits = 64, kMostFrames = 64;
constexpr size_t kShown = 4;  // calls of a stack
constexpr size_t kMostBytes = size_t{64} << 20;

Json read_file(const std::filesystem::path& path) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(path, none);
  if (none || bytes > kMostBytes) return Json(Json::value_t::discarded);
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return parse_json<Json>(text.str());
}

train::Measured stretch_of(const Json& json) {
  train::Measured m{.steps = std::max(top::number(json, "batches").value_or(0), 0.0)};
  m.account.wall = std::max(top::number(json, "wall").value_or(0), 0.0);
  for (const auto& [text, seconds] : top::numbers(top::member(json, "seconds")))
    if (const auto cause = cause_named(text))
      m.account.seconds[static_cast<size_t>(*cause)] = std::max(seconds, 0.0);
  return m;
}

std::vector<train::Measured> stretches_of(const Json& loop) {
  std::vector<train::Measured> stretches;
  for (const Json* stretch : top::objects(top::member(loop, "stretches"), kMostStretches)) {
    const train::Measured m = stretch_of(*stretch);
    if (m.account.wall > 0) stretches.push_back(m);
  }
  return stretches;
}

double seconds_of(const std::vector<train::Measured>& stretches) {
  double seconds = 0;
  for (const train::Measured& m : stretches) seconds += m.account.wall;
  return seconds;
}

/// Of all processes that the program was, the one whose loop ran longest; null where none had one.
Json read_loop(const std::filesystem::path& folder) {
  Json longest;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    Json loop = read_file(entry.path());
    if (!top::is_of(loop, data::kLoopSchema)) continue;
    if (longest.is_null() || seconds_of(stretches_of(loop)) > seconds_of(stretches_of(longest)))
      longest = std::move(loop);
  }
  return longest;
}

/// brim's own headers, and what a program begins with, say nothing of where it waits.
bool is_told(const std::string& function, const std::string& file) {
  return file.find("/include/brim/") == std::string::npos && !function.starts_with("__libc_") &&
         function != "_start";
}

std::string short_path(const std::string& path) {
  std::error_code error;
  const std::string near = std::filesystem::proximate(path, error).string();
  return error || near.empty() || near.starts_with("..") ? path : near;
}

std::string short_function(std::string name) {
  constexpr size_t kLongest = 80;
  if (name.size() > kLongest) name = name.substr(0, kLongest - 3) + "...";
  return name;
}

struct Frame {
  std::string file, function;
  uint64_t address = 0;
};

std::vector<Frame> frames_of(const Json& wait) {
  std::vector<Frame> frames;
  for (const Json* frame : top::objects(top::member(wait, "stack"), kMostFrames)) {
    const Json& file = top::member(*frame, "file");
    const Json& address = top::member(*frame, "address");
    frames.push_back({.file = file.is_string() ? file.get<std::string>() : "",
                      .function = top::text(*frame, "function"),
                      .address = address.is_number_unsigned() ? address.get<uint64_t>() : 0});
  }
  return frames;
}

std::vector<Wait> waits_of(const Json& loop) {
  std::vector<Wait> waits;
  std::vector<std::vector<Frame>> stacks;
  std::map<std::string, std::vector<uint64_t>> addresses;  // by file
  for (const Json* wait : top::objects(top::member(loop, "waits"), kMostWaits)) {
    const auto cause = cause_named(top::text(*wait, "cause"));
    if (!cause) continue;
    waits.push_back({.op = top::text(*wait, "op"),
                     .cause = *cause,
                     .count = top::integer(*wait, "count").value_or(0),
                     .seconds = top::number(*wait, "seconds").value_or(0)});
    for (const Frame& frame : stacks.emplace_back(frames_of(*wait)))
      addresses[frame.file].push_back(frame.address);
  }
  std::map<std::pair<std::string, uint64_t>, std::vector<SourceLine>> lines;
  for (const auto& [file, of_file] : addresses) {
    const auto found = source_lines(file, of_file);
    for (size_t i = 0; i < of_file.size(); ++i) lines[{file, of_file[i]}] = found[i];
  }
  for (size_t i = 0; i < waits.size(); ++i) {
    std::vector<std::string>& stack = waits[i].stack;
    for (const Frame& frame : stacks[i]) {
      bool has_line = false;
      for (const SourceLine& at : lines[{frame.file, frame.address}]) {
        has_line = has_line || at.line > 0;
        if (at.line > 0 && is_told(at.function, at.file))
          stack.push_back(fmt::format("{}:{} in {}", short_path(at.file), at.line,
                                      short_function(at.function)));
      }
      if (!has_line && !frame.function.empty() && is_told(frame.function, ""))
        stack.push_back(
            fmt::format("{} in {}", short_function(frame.function), short_path(frame.file)));
    }
    if (stack.empty() && !stacks[i].empty())
      stack.push_back(
          fmt::format("{} at {:#x}", short_path(stacks[i][0].file), stacks[i][0].address));
    if (stack.size() > kShown) stack.resize(kShown);
  }
  return waits;
}

/// "train.cpp:42 in main, from train.cpp:60 in ...: 1000 waits, 1.20 s".
std::string wait_line(const Wait& wait) {
  std::string line;
  for (const std::string& call : wait.stack) line += (line.empty() ? "" : ", from ") + call;
  return fmt::format("{}: {} wait{}, {:.3f} s", line.empty() ? wait.op : line, wait.count,
                     wait.count == 1 ? "" : "s", wait.seconds);
}

/// What its author may do against a cause; "" where brim has no advice.
std::string advice(Cause cause) {
  switch (cause) {
    case Cause::input:
      return "give LoaderOptions::workers more, or leave it at -1; pictures that fit stay on the "
             "device with DeviceLoaderOptions::resident";
    case Cause::dispatch:
      return "compile() the step: its launches become one";
    case Cause::host_read:
      return "keep sums on the device and read them every some hundred steps";
    case Cause::synchronize:
      return "queue the next step before waiting for this one";
    case Cause::copy_to_device:
    case Cause::staging:
      return "take batches from data::DeviceLoader, which copies the next one meanwhile; pictures "
             "that fit stay on the device with DeviceLoaderOptions::resident";
    case Cause::copy_to_host:
      return "copy what is needed alone, and less often";
    case Cause::allocator:
      return "compile() the step: its temporaries get one piece of memory";
    case Cause::user:
    case Cause::host_compute:
      return "do it in a loader's worker or between epochs, or queue the next step first";
    case Cause::evaluation:
      return "evaluate less often, or on fewer samples";
    case Cause::checkpoint:
    case Cause::file_write:
      return "write less often";
    case Cause::full_queue:
    case Cause::file_read:
    case Cause::communication:
    case Cause::peer:
    case Cause::compile:
    case Cause::throttle:
    case Cause::stolen:
    case Cause::other:
    case Cause::compute:
      break;
  }
  return "";
}

}  // namespace

ProgramDiagnosis diagnose_program(const std::vector<std::string>& words, double least_share,
                                  bool prints_to_errors) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const io::ScratchFolder scratch(folder, "brim-doctor");
  ProgramDiagnosis found{
      .exit_code = run_program(words, {std::string(data::kLoopVariable), scratch / "loop"},
                               prints_to_errors)};
  const Json loop = read_loop(std::filesystem::path(scratch / "loop").parent_path());
  BRIM_CHECK(!loop.is_null(), Error,
             "[doctor] '{}' took no batches from a loader of brim's, so there is no loop to "
             "examine (exit code {}); the doctor needs a program with data::DeviceLoader or "
             "data::Loader, built with the brim of this command",
             words[0], found.exit_code);
  found.device = top::text(loop, "device");
  const std::vector<train::Measured> stretches = stretches_of(loop);
  found.seconds = seconds_of(stretches);
  for (const train::Measured& m : stretches) found.batches += static_cast<int64_t>(m.steps);
  BRIM_CHECK(stretches.size() >= kLeast && found.batches > 0, Error,
             "[doctor] the loop of '{}' took {:.1f} s, which is too short to say anything; let it "
             "take batches for a second or more",
             words[0], found.seconds);
  found.diagnosis = train::diagnosis_of(stretches, least_share);
  const Json& workers = top::member(loop, "workers");
  train::Evidence& e = found.diagnosis.evidence;
  for (const auto& [name, part] : data::kWorkerParts)
    e.workers.*part = top::number(workers, name).value_or(0);
  e.worker_count = top::number(loop, "worker_count").value_or(0);
  e.cpus = available_cpus();
  found.waits = waits_of(loop);
  for (train::CauseCost& cost : found.diagnosis.causes) {
    cost.because = train::reasons(e, cost.cause, cost.share.value);
    for (const Wait& wait : found.waits)
      if (wait.cause == cost.cause) cost.because.push_back(wait_line(wait));
    if (const std::string text = advice(cost.cause); !text.empty())
      cost.because.push_back("what helps: " + text);
  }
  return found;
}

}  // namespace brim::command
