#include "command/checkpoint_every.h"

#include <charconv>

#include "command/command.h"
#include "core/check.h"

namespace brim::command {

void parse_checkpoint_every(const std::string& text, train::CheckpointOptions& options) {
  options.every_steps = 0;
  options.every_seconds = 0;
  if (text == "epoch") return;
  const bool seconds = text.ends_with('s');
  const char* const end = text.data() + text.size() - (seconds ? 1 : 0);
  const auto [at, error] =
      seconds ? std::from_chars(text.data(), end, options.every_seconds, std::chars_format::fixed)
              : std::from_chars(text.data(), end, options.every_steps);
  const bool in_range =
      seconds ? options.every_seconds > 0 && options.every_seconds <= 1e9 : options.every_steps > 0;
  if (error != std::errc() || at != end || !in_range)
    throw UsageError(fmt::format(
        "--checkpoint-every '{}' is no interval; write steps (100), seconds (60s) or epoch", text));
}

}  // namespace brim::command
