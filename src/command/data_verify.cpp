// The report of data::verify as text and as JSON.
#include "command/data_verify.h"

#include <brim/data/verify.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/progress.h"
#include "command/report.h"
#include "command/say.h"
#include "command/signals.h"
#include "core/check.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

double per_second(double amount, double seconds) { return amount / std::max(seconds, 1e-9); }

std::string where_in_split(const data::Damage& d) {
  return d.index < 0 ? fmt::format("{} split", to_string(d.split))
                     : fmt::format("{} {}", to_string(d.split), d.index);
}

void print_report(const std::string& input, const data::VerifyReport& r) {
  constexpr size_t kSizes = 5, kClasses = 100, kDamage = 20;
  std::string splits;
  for (const data::SplitReport& s : r.splits)
    splits += fmt::format("{}{} {}", splits.empty() ? "" : " and ", s.images,
                          s.split == data::Split::train ? "training" : "test");
  say(stdout, "{}: {} images of {} classes\n", input, splits, r.classes.size());
  if (r.classes.size() <= kClasses) {
    size_t width = 8;
    for (const std::string& name : r.classes) width = std::max(width, printable(name).size());
    for (size_t c = 0; c < r.classes.size(); ++c) {
      say(stdout, "  {:<{}}", r.classes[c], width);
      for (const data::SplitReport& s : r.splits) say(stdout, " {:>8}", s.per_class[c]);
      say(stdout, "\n");
    }
  }
  std::string sizes;
  for (size_t i = 0; i < std::min(kSizes, r.sizes.size()); ++i) {
    const auto& [shape, count] = r.sizes[i];
    sizes += fmt::format("{}{} x {} ({})", i > 0 ? ", " : "", shape.width, shape.height, count);
  }
  if (r.sizes.size() > kSizes) sizes += fmt::format(", {} others", r.sizes.size() - kSizes);
  say(stdout, "sizes, width x height: {}\n", sizes.empty() ? "none" : sizes);
  say(stdout, "read in {:.2f} s: {:.0f} images/s, {:.1f} MB/s of pixels\n", r.seconds,
      per_second(static_cast<double>(r.images), r.seconds),
      per_second(static_cast<double>(r.pixel_bytes) * 1e-6, r.seconds));
  if (r.sound()) {
    say(stdout, "no damage was found\n");
    return;
  }
  const size_t listed = std::min(kDamage, r.damage.size());
  for (size_t i = 0; i < listed; ++i)
    say(stdout, "damaged: {}: {}\n", where_in_split(r.damage[i]), r.damage[i].reason);
  const auto broken_splits = std::count_if(r.damage.begin(), r.damage.end(),
                                           [](const data::Damage& d) { return d.index < 0; });
  const int64_t more = r.damaged + broken_splits - static_cast<int64_t>(listed);
  if (more > 0) say(stdout, "... and {} more\n", more);
}

Json report_json(const std::string& input, const data::VerifyReport& r) {
  constexpr size_t kSizes = 100;
  Json splits = Json::object(), sizes = Json::array(), damage = Json::array();
  for (const data::SplitReport& s : r.splits)
    splits[to_string(s.split)] = {{"images", s.images}, {"per_class", s.per_class}};
  for (size_t i = 0; i < std::min(kSizes, r.sizes.size()); ++i) {
    const auto& [shape, count] = r.sizes[i];
    sizes.push_back({{"width", shape.width}, {"height", shape.height}, {"images", count}});
  }
  for (const data::Damage& d : r.damage)
    damage.push_back({{"split", to_string(d.split)},
                      {"index", d.index < 0 ? Json() : Json(d.index)},
                      {"reason", d.reason}});
  return {{"data", input},
          {"sound", r.sound()},
          {"images", r.images},
          {"damaged", r.damaged},
          {"classes", r.classes},
          {"splits", splits},
          {"sizes", sizes},
          {"different_sizes", r.sizes.size()},
          {"seconds", r.seconds},
          {"images_per_s", per_second(static_cast<double>(r.images), r.seconds)},
          {"mb_per_s", per_second(static_cast<double>(r.pixel_bytes) * 1e-6, r.seconds)},
          {"damage", damage}};
}

}  // namespace

int run_verify(const VerifyArguments& arguments) {
  check_json_path(arguments.json);
  check_outputs({{"--json", arguments.json}}, {{"the data", arguments.input}});
  const bool quiet = is_stdout(arguments.json);
  const std::atomic<int>& stop = watch_signals();
  ProgressDisplay display(quiet);
  data::VerifyReport report;
  try {
    report = data::verify(
        arguments.input,
        {.workers = arguments.workers, .progress = [&](const auto& p) {
           display.show(p.images > 0 ? fmt::format("{} {} images", p.stage, p.images) : p.stage,
                        p.fraction);
           return stop.load() == 0;
         }});
  } catch (const Error&) {
    display.finish();
    if (stop.load() == 0) throw;
    say(stderr, "brim: stopped before all of {} was read\n", arguments.input);
    return 128 + stop.load();
  }
  display.finish();
  if (!quiet) print_report(arguments.input, report);
  if (!arguments.json.empty()) write_json(report_json(arguments.input, report), arguments.json);
  for (const data::Damage& d : report.damage)
    BRIM_CHECK(d.index >= 0, FileError, "[data] {}: its {} split cannot be opened: {}",
               arguments.input, to_string(d.split), d.reason);
  BRIM_CHECK(report.damaged == 0, FileError,
             "[data] {}: {} of {} images are damaged; replace them, or let training leave them out "
             "with input.on_corrupt = \"skip\"",
             arguments.input, report.damaged, report.images);
  return 0;
}

}  // namespace brim::command
