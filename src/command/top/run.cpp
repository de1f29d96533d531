#include "command/top/run.h"

#include <fmt/core.h>

#include <algorithm>

namespace brim::top {
namespace {

constexpr size_t kMaxDevices = 64, kMaxOps = 16, kMaxSpans = 16;
constexpr double kSilentSeconds = 5;

RunAccount account_from_json(const Json& object) {
  return {.wall = std::max(number(object, "wall").value_or(0), 0.0),
          .seconds = numbers(member(object, "seconds"))};
}
Json account_json(const RunAccount& account) {
  return {{"wall", account.wall}, {"seconds", to_json(account.seconds)}};
}

std::optional<RunDoing> doing_from_json(const Json& object) {
  if (!object.is_object()) return {};
  return RunDoing{.spans = texts(member(object, "spans"), kMaxSpans),
                  .cause = text(object, "cause"),
                  .seconds = std::max(number(object, "seconds").value_or(0), 0.0)};
}
Json doing_json(const std::optional<RunDoing>& doing) {
  if (!doing) return nullptr;
  return {{"spans", doing->spans}, {"cause", doing->cause}, {"seconds", doing->seconds}};
}

RunOp op_from_json(const Json& object) {
  return {.op = text(object, "op"),
          .shapes = text(object, "shapes"),
          .calls = std::max(number(object, "calls").value_or(0), 0.0),
          .seconds = std::max(number(object, "seconds").value_or(0), 0.0),
          .operations = number(object, "operations"),
          .bytes = number(object, "bytes"),
          .share_of_roof = number(object, "share_of_roof")};
}
Json op_json(const RunOp& op) {
  return {{"op", op.op},
          {"shapes", op.shapes},
          {"calls", op.calls},
          {"seconds", op.seconds},
          {"operations", known(op.operations)},
          {"bytes", known(op.bytes)},
          {"share_of_roof", known(op.share_of_roof)}};
}

RunDevice device_from_json(const Json& object) {
  const Json& memory = member(object, "memory");
  return {.name = text(object, "device"),
          .uuid = text(object, "uuid"),
          .doing = doing_from_json(member(object, "doing")),
          .account = account_from_json(member(object, "account")),
          .recent = account_from_json(member(object, "recent")),
          .recorded = number(object, "recorded"),
          .energy = number(object, "energy_j"),
          .live = integer(memory, "live"),
          .peak = integer(memory, "peak"),
          .reserved = integer(memory, "reserved"),
          .limit = integer(memory, "limit")};
}
Json device_json(const RunDevice& device) {
  return {{"device", device.name},
          {"uuid", device.uuid},
          {"doing", doing_json(device.doing)},
          {"account", account_json(device.account)},
          {"recent", account_json(device.recent)},
          {"recorded", known(device.recorded)},
          {"memory",
           {{"live", known(device.live)},
            {"peak", known(device.peak)},
            {"reserved", known(device.reserved)},
            {"limit", known(device.limit)}}},
          {"energy_j", known(device.energy)}};
}

Json stage_json(const std::optional<RunStage>& stage) {
  if (!stage) return nullptr;
  return {{"name", stage->name}, {"fraction", stage->fraction}};
}
Json pause_json(const std::optional<RunPause>& pause) {
  if (!pause) return nullptr;
  return {{"why", pause->why}, {"seconds", known(pause->seconds)}};
}
Json validation_json(const std::optional<RunValidation>& v) {
  if (!v) return nullptr;
  return {{"epoch", known(v->epoch)}, {"loss", known(v->loss)}, {"metrics", to_json(v->metrics)}};
}
Json loader_json(const std::optional<RunLoader>& l) {
  if (!l) return nullptr;
  return {{"workers", known(l->workers)}, {"slots", known(l->slots)}, {"ready", known(l->ready)}};
}
Json host_json(const Run& run) {
  if (!run.host_load && !run.process_cores && !run.resident) return nullptr;
  return {{"load", known(run.host_load)},
          {"process_cores", known(run.process_cores)},
          {"resident", known(run.resident)}};
}

double seconds_of(const Named& seconds, const std::string& cause) {
  const auto found = std::ranges::find(seconds, cause, &Named::value_type::first);
  return found == seconds.end() ? 0 : found->second;
}

}  // namespace

Run run_from_json(const Json& d) {
  Run run{.socket = text(d, "socket"),
          .trouble = text(d, "trouble"),
          .pid = integer(d, "pid").value_or(0),
          .time = number(d, "time"),
          .updated = number(d, "updated"),
          .started = number(d, "started"),
          .hostname = text(d, "hostname"),
          .command = text(d, "command"),
          .recipe = text(d, "recipe"),
          .task = text(d, "task"),
          .data = text(d, "data"),
          .precision = text(d, "precision"),
          .folder = text(d, "folder"),
          .state = text(d, "state"),
          .batch = integer(d, "batch"),
          .rank = integer(d, "rank"),
          .ranks = integer(d, "ranks"),
          .epoch = integer(d, "epoch"),
          .epochs = integer(d, "epochs"),
          .round = integer(d, "round"),
          .rounds = integer(d, "rounds"),
          .point = integer(d, "point"),
          .points = integer(d, "points"),
          .step = integer(d, "step"),
          .steps = integer(d, "steps"),
          .steps_before = integer(d, "steps_before"),
          .images = integer(d, "images"),
          .images_per_s = number(d, "images_per_s"),
          .seconds_left = number(d, "seconds_left"),
          .loss = number(d, "loss"),
          .learning_rate = number(d, "learning_rate"),
          .skipped = integer(d, "skipped"),
          .checkpoints = integer(d, "checkpoints"),
          .checkpoint_failures = integer(d, "checkpoint_failures")};
  if (const Json& stage = member(d, "stage"); stage.is_object())
    run.stage = {.name = text(stage, "name"),
                 .fraction = std::clamp(number(stage, "fraction").value_or(0), 0.0, 1.0)};
  if (const Json& pause = member(d, "paused"); pause.is_object())
    run.pause = {.why = text(pause, "why"), .seconds = number(pause, "seconds")};
  if (const Json& v = member(d, "validation"); v.is_object())
    run.validation = {.epoch = integer(v, "epoch"),
                      .loss = number(v, "loss"),
                      .metrics = numbers(member(v, "metrics"))};
  if (const Json& l = member(d, "loader"); l.is_object())
    run.loader = {.workers = integer(l, "workers"),
                  .slots = integer(l, "slots"),
                  .ready = integer(l, "ready")};
  for (const Json* device : objects(member(d, "devices"), kMaxDevices))
    run.devices.push_back(device_from_json(*device));
  for (const Json* op : objects(member(d, "ops"), kMaxOps)) run.ops.push_back(op_from_json(*op));
  const Json& host = member(d, "host");
  run.host_load = number(host, "load");
  run.process_cores = number(host, "process_cores");
  run.resident = integer(host, "resident");
  run.gpus = gpus_by_name(member(d, "gpus"));
  return run;
}

Json to_json(const Run& r) {
  Json devices = Json::array();
  for (const RunDevice& device : r.devices) devices.push_back(device_json(device));
  Json ops = Json::array();
  for (const RunOp& op : r.ops) ops.push_back(op_json(op));
  return {{"schema", "brim.run/1"},
          {"socket", r.socket},
          {"trouble", r.trouble},
          {"time", known(r.time)},
          {"updated", known(r.updated)},
          {"started", known(r.started)},
          {"pid", r.pid},
          {"hostname", r.hostname},
          {"command", r.command},
          {"recipe", r.recipe},
          {"task", r.task},
          {"data", r.data},
          {"batch", known(r.batch)},
          {"precision", r.precision},
          {"folder", r.folder},
          {"state", r.state},
          {"stage", stage_json(r.stage)},
          {"paused", pause_json(r.pause)},
          {"rank", known(r.rank)},
          {"ranks", known(r.ranks)},
          {"epoch", known(r.epoch)},
          {"epochs", known(r.epochs)},
          {"round", known(r.round)},
          {"rounds", known(r.rounds)},
          {"point", known(r.point)},
          {"points", known(r.points)},
          {"step", known(r.step)},
          {"steps", known(r.steps)},
          {"steps_before", known(r.steps_before)},
          {"images", known(r.images)},
          {"images_per_s", known(r.images_per_s)},
          {"seconds_left", known(r.seconds_left)},
          {"loss", known(r.loss)},
          {"learning_rate", known(r.learning_rate)},
          {"validation", validation_json(r.validation)},
          {"skipped", known(r.skipped)},
          {"checkpoints", known(r.checkpoints)},
          {"checkpoint_failures", known(r.checkpoint_failures)},
          {"loader", loader_json(r.loader)},
          {"devices", devices},
          {"ops", ops},
          {"host", host_json(r)},
          {"gpus", by_name(r.gpus)}};
}

std::string silence(const Run& run) {
  const bool is_over = run.state == "finished" || run.state == "stopped" || run.state == "failed";
  if (is_over || !run.time || !run.updated || *run.time - *run.updated <= kSilentSeconds) return "";
  const double seconds = std::min(*run.time - *run.updated, 1e9);  // or it is told nonsense
  const std::string silent = fmt::format("silent for {:.0f} s", seconds);
  const RunDoing* const doing =
      run.devices.empty() || !run.devices[0].doing ? nullptr : &*run.devices[0].doing;
  if (!doing || doing->spans.empty()) return silent;
  return fmt::format("{} in {} ({})", silent, doing->spans.back(), doing->cause);
}

void compare_accounts(Run& run, const Run* before) {
  for (RunDevice& device : run.devices) {
    device.recent = device.account;
    if (!before || before->started != run.started) continue;
    const auto found = std::ranges::find(before->devices, device.name, &RunDevice::name);
    if (found == before->devices.end()) continue;
    const double passed = device.account.wall - found->account.wall;
    if (passed == 0) device.recent = found->recent;  // the training has read no account since
    if (passed <= 0) continue;
    device.recent = {.wall = passed, .seconds = {}};
    for (const auto& [cause, seconds] : device.account.seconds)
      if (const double gained = seconds - seconds_of(found->account.seconds, cause); gained > 0)
        device.recent.seconds.emplace_back(cause, gained);
  }
}

}  // namespace brim::top
