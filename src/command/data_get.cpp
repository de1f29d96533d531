// Downloads with a bar (see brim/data/get.h).
#include "command/data_get.h"

#include <brim/data/get.h>

#include "command/format.h"
#include "command/progress.h"
#include "command/say.h"
#include "command/signals.h"

namespace brim::command {

int run_get(const GetArguments& arguments) {
  const std::string folder = arguments.out.empty() ? arguments.name : arguments.out;
  ProgressDisplay display;
  const std::atomic<int>& stop = watch_signals();
  const data::GetOptions options{
      .mirror = arguments.mirror,
      .progress =
          [&](const data::GetProgress& p) {
            if (p.done > 0)
              display.show(
                  fmt::format("{} {}", p.file, format_bytes(p.done)),
                  p.total > 0 ? static_cast<double>(p.done) / static_cast<double>(p.total) : 0);
            return stop.load() == 0;
          },
      .warn =
          [&](const std::string& reason) {
            display.finish();
            say(stderr, "brim: {}\n", reason);
          }};
  try {
    const auto files = data::get_data_set(arguments.name, folder, options);
    display.finish();
    say(stdout, "{}: {} files of {}\n", folder, files.size(), arguments.name);
  } catch (const Error&) {
    display.finish();
    if (stop.load() == 0) throw;
    say(stderr, "brim: stopped; `brim data get {} {}` goes on where it ended\n",
        shell_word(arguments.name), shell_word(folder));
    return 128 + stop.load();
  }
  return 0;
}

}  // namespace brim::command
