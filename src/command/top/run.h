// What a training tells of itself (schema brim.run/1), and what we found about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/top/gpu.h"

namespace brim::top {

/// Seconds of a device by cause; they add up to `wall`, but for what was not told.
struct RunAccount {
  double wall = 0;
  Named seconds;
};

/// What the thread of a device's rank is doing.
struct RunDoing {
  std::vector<std::string> spans;  ///< the outermost first
  std::string cause;
  double seconds = 0;
};

struct RunDevice {
  std::string name;  ///< as the run's process numbers it
  std::string uuid;  ///< of the card; "" where nothing names it
  std::optional<RunDoing> doing;
  RunAccount account;  ///< since the run's start
  RunAccount recent;   ///< between the last two of its accounts that we saw; before that, the whole
  std::optional<double> recorded, energy;              ///< seconds; joules
  std::optional<int64_t> live, peak, reserved, limit;  ///< bytes
};

struct RunStage {
  std::string name;
  double fraction = 0;
};

/// A training that waits before it goes on.
struct RunPause {
  std::string why;
  std::optional<double> seconds;
};

struct RunValidation {
  std::optional<int64_t> epoch;
  std::optional<double> loss;
  Named metrics;
};

struct RunLoader {
  std::optional<int64_t> workers, slots, ready;
};

/// A kernel, and what its calls took.
struct RunOp {
  std::string op, shapes;
  double calls = 0, seconds = 0;            ///< of all calls
  std::optional<double> operations, bytes;  ///< of one
  std::optional<double> share_of_roof;      ///< of what the device reaches at most
};

struct Run {
  std::string socket;   ///< its file's name, PID-N.sock
  std::string trouble;  ///< "does not answer", "silent for 12 s"; empty: all is well
  int64_t pid = 0;
  std::optional<double> time, updated, started;  ///< Unix seconds
  std::string hostname, command, recipe, task, data, precision, folder, state;
  std::optional<int64_t> batch;
  std::optional<RunStage> stage;
  std::optional<RunPause> pause;
  std::optional<int64_t> rank, ranks, epoch, epochs, round, rounds, point, points, step, steps,
      steps_before, images;
  std::optional<double> images_per_s, seconds_left, loss, learning_rate;
  std::optional<RunValidation> validation;
  std::optional<int64_t> skipped, checkpoints, checkpoint_failures;
  std::optional<RunLoader> loader;
  std::vector<RunDevice> devices;
  std::vector<RunOp> ops;  ///< the dearest of the first device
  std::optional<double> host_load, process_cores;
  std::optional<int64_t> resident;
  std::vector<Gpu> gpus;
};

/// Of any document: keys that are not known are ignored, any may be missing.
Run run_from_json(const Json& document);
/// As the training tells it, with "socket", "trouble" and each device's "recent" besides.
Json to_json(const Run& run);

/// "silent for 12 s in loader (input)" where the training has not published for more than 5 s
/// before it answered.
std::string silence(const Run& run);

/// Fills each device's `recent` from what the run told before; `before` may be null.
void compare_accounts(Run& run, const Run* before);

}  // namespace brim::top
