// One timeline of all ranks.
#include <brim/diag/account.h>
#include <brim/dist/trace.h>

#include <map>
#include <nlohmann/json.hpp>

#include "diag/span.h"
#include "dist/clock_difference.h"
#include "dist/run_ranks.h"

namespace brim::dist {
namespace {

TEST(MergedTrace, HasTheEventsOfAllRanks) {
  const diag::Trace trace;
  {
    const diag::Accountant accountant;
    const diag::Span span("one", diag::Cause::user);
  }
  std::string text;
  const std::vector<std::string> failures = failures_of(tcp_groups(3), [&](ProcessGroup& group) {
    const bool first = group.rank() == 0;
    const auto sink = [&](std::string_view piece) { text += piece; };
    EXPECT_EQ(
        write_trace(group, group.rank() == 1 ? nullptr : &trace, first ? sink : diag::TraceSink()),
        0);
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  const nlohmann::json json = nlohmann::json::parse(text);
  std::map<int, std::string> processes;
  std::map<int, double> begins;
  for (const auto& e : json["traceEvents"]) {
    if (e["name"] == "process_name") processes[e["pid"]] = e["args"]["name"];
    if (e["name"] == "one") begins[e["pid"]] = e["ts"];
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0: host"}, {20000, "rank 2: host"}}));
  ASSERT_EQ(begins.size(), 2u);
  EXPECT_NEAR(begins[0], begins[20000], 20);  // microseconds: one clock, calibrated twice
}

TEST(MergedTrace, MayBeOfOtherRanksAlone) {
  const diag::Trace trace;
  {
    const diag::Accountant accountant;
    const diag::Span span("one", diag::Cause::user);
  }
  std::string text;
  run_ranks(local_groups(2), [&](ProcessGroup& group) {
    write_trace(group, group.rank() == 0 ? nullptr : &trace,
                [&](std::string_view piece) { text += piece; });
  });
  EXPECT_EQ(nlohmann::json::parse(text)["traceEvents"].back()["pid"], 10000);
  text.clear();
  run_ranks(local_groups(2), [&](ProcessGroup& group) {
    write_trace(group, nullptr, [&](std::string_view piece) { text += piece; });
  });
  EXPECT_TRUE(nlohmann::json::parse(text)["traceEvents"].empty());
}

TEST(MergedTrace, FindsHowClocksDiffer) {
  double difference = 1;
  const std::vector<std::string> failures = failures_of(tcp_groups(3), [&](ProcessGroup& group) {
    if (group.rank() == 1) return;
    const double found = clock_difference(group, 2);
    if (group.rank() == 2) difference = found;
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  EXPECT_NEAR(difference, 0, 0.01);  // of one clock
}

}  // namespace
}  // namespace brim::dist
