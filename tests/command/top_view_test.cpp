// The view as text, moments as JSON, and recordings.
#include <gtest/gtest.h>

#include <fstream>

#include "command/fake_run.h"
#include "command/top/hints.h"
#include "command/top/moments.h"
#include "command/top/recorder.h"
#include "command/top/view.h"
#include "core/json_text.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::top {
namespace {

Moment a_moment() {
  Moment m{.time = 1000, .hostname = "box", .process_count = 3};
  m.machine.seconds = 0.5;
  m.machine.cores = {{.index = 0, .user = 0.5, .system = 0.25}, {.index = 1, .mhz = 2400}};
  m.machine.memory = {.total = int64_t{16} << 30, .available = int64_t{12} << 30};
  m.machine.pressure.cpu = 0.03;
  m.machine.disks = {{.name = "sda", .read = 2048, .written = 0, .busy = 0.5}};
  m.machine.networks = {{.name = "eth0", .in = 1 << 20, .out = 10}};
  m.machine.limits = {.cpus = 1.5, .memory = int64_t{8} << 30, .memory_used = int64_t{1} << 30};
  m.machine.processes = {
      {.pid = 77,
       .uid = 1000,
       .name = "brim",
       .command = "brim train",
       .cores = 1,
       .threads = 4,
       .resident = 200 << 20,
       .read = 0,
       .written = 4096},
      {.pid = 5, .name = "kthread"},
      {.pid = 78, .name = "python3", .command = "python3 t.py", .cores = 0.99, .threads = 3},
      {.pid = 8, .uid = 7, .name = "x", .command = "evil \x1b[2J\xff", .cores = 0.5}};
  m.gpus = {{.device = "cuda:0",
             .uuid = "GPU-e0000000-0000-0000-0000-000000000000",
             .reading = {.utilisation = 0.35,
                         .memory_bandwidth = 0.25,
                         .memory_used = int64_t{4} << 30,
                         .memory_total = int64_t{80} << 30,
                         .power = 300,
                         .power_limit = 700,
                         .fan = 0.5,
                         .pcie_in = 1 << 30,
                         .pcie_out = 1 << 20,
                         .ecc_corrected = 3,
                         .ecc_uncorrected = 2},
             .processes = {{.pid = 77, .memory = int64_t{3} << 30, .utilisation = 0.3},
                           {.pid = 78, .memory = int64_t{1} << 30, .utilisation = 0.05}},
             .age = 0.1},
            {.device = "cuda:1", .age = 7, .answers = false}};
  m.runs = {run_from_json(parse_json<Json>(tests::run_document("tutorial-cnn", 10)))};
  m.runs[0].pid = 77;
  m.runs[0].socket = "77-0.sock";
  compare_accounts(m.runs[0], nullptr);
  return m;
}

std::vector<MomentPointer> one(Moment moment) {
  return {std::make_shared<const Moment>(std::move(moment))};
}

bool shows(const Canvas& canvas, const std::string& text) {
  return canvas.text().find(text) != std::string::npos;
}

TEST(TopMoment, GoesThroughJsonUnchanged) {
  const Json json = to_json(a_moment());
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto again = moment_from_json(parse_json<Json>(text));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again).dump(-1, ' ', false, Json::error_handler_t::replace), text);
  EXPECT_EQ(again->runs.at(0).devices.at(0).recent.wall, 10);
  EXPECT_FALSE(again->gpus.at(1).answers);
  EXPECT_FALSE(moment_from_json(parse_json<Json>("[1]")));
  EXPECT_FALSE(moment_from_json(Json(Json::value_t::discarded)));
}

TEST(TopView, EightyColumns) {
  ViewState state{.unicode = false};
  const Canvas canvas = draw(one(a_moment()), state, {.rows = 24, .columns = 80});
  EXPECT_EQ(canvas.line(1).substr(0, 40), "  0 [##########++++     ] 75%           ");
  EXPECT_EQ(canvas.line(2), "memory   [###         ] 4.0G of 16.0G  cgroup 1.5 CPUs, 1.0G of 8.0G");
  EXPECT_EQ(canvas.line(3), "pressure cpu 3%");
  EXPECT_EQ(canvas.line(4),
            "disk     sda read 2.0K/s write 0B/s busy 50%  net eth0 in 1.0M/s out 10B/s");
  EXPECT_EQ(canvas.line(5), "cuda:0   [##    ] 35% 4.0G/80.0G 300/700W 2 memory errors");
  EXPECT_EQ(canvas.line(6), "cuda:1   does not answer for 7 s");
  EXPECT_EQ(canvas.line(7),
            " RUN             DEVICE  EPOCH         STEP   IMG/S    LOSS    LEFT QUEUE  RANK");
  EXPECT_EQ(canvas.line(8),
            " tutorial-cnn    cuda:0    1/2    100/25000    3100     2.1    1:02   5/8   1/1");
  EXPECT_EQ(canvas.line(9).substr(0, 27), "  [###############iiiiiii] ");
  EXPECT_TRUE(shows(canvas, "cuda:0 30 % input: more loader workers may help"));
  EXPECT_EQ(canvas.line(10),
            "    PID    UID   CPU MEMORY READ/S WRIT/S  THR   GPU GPU-MEM COMMAND");
  EXPECT_EQ(canvas.line(11),
            "     77   1000  100%   200M     0B   4.0K    4   30%    3.0G tutorial-cnn: brim");
  EXPECT_EQ(canvas.line(12).substr(55), " 1.0G one core at 100 %,");
  EXPECT_TRUE(shows(canvas, "evil ?[2J?"));
  EXPECT_EQ(canvas.text().find('\x1b'), std::string::npos);
  EXPECT_EQ(canvas.line(23).substr(0, 6), "q quit");
}

TEST(TopView, NoNumberLosesDigits) {
  Moment moment = a_moment();
  moment.runs[0].epoch = 10, moment.runs[0].epochs = 100000;
  moment.runs[0].loss = 1.234e-5;
  moment.runs[0].seconds_left = 123456;
  moment.machine.processes[0].uid = 1234567890;
  const Canvas canvas = draw(one(moment), {.unicode = false}, {.rows = 24, .columns = 80});
  EXPECT_EQ(canvas.line(8),
            " tutorial-cnn    cuda:0     11    100/25000    3100 1.2e-05    34 h   5/8   1/1");
  EXPECT_EQ(canvas.line(11).substr(0, 20), "     77 12345~  100%");
}

TEST(TopView, RoundsOfPruning) {
  Moment moment = a_moment();
  const Canvas without = draw(one(moment), {}, {.rows = 24, .columns = 80});
  EXPECT_FALSE(shows(without, "round"));
  moment.runs[0].round = 2, moment.runs[0].rounds = 5;
  EXPECT_TRUE(shows(draw(one(moment), {}, {.rows = 24, .columns = 80}), "round 2/5"));
  EXPECT_TRUE(
      shows(draw(one(moment), {.inside = true}, {.rows = 24, .columns = 80}), "round 2 of 5"));
  const Json json = to_json(moment.runs[0]);
  EXPECT_EQ(run_from_json(json).round, 2);
  EXPECT_EQ(run_from_json(json).rounds, 5);
}

TEST(TopView, WideAndTall) {
  Moment moment = a_moment();
  moment.machine.cores.assign(256, {.user = 1});
  moment.machine.limits.throttled = 0.3;
  const Canvas canvas = draw(one(moment), {.unicode = true}, {.rows = 60, .columns = 200});
  EXPECT_TRUE(shows(canvas, "\u2588\u2588\u2588\u2588"));
  EXPECT_EQ(canvas.line(1).substr(0, 5), "cores");
  EXPECT_TRUE(shows(canvas, "cgroup 1.5 CPUs, 0.3 more held back, 1.0G of 8.0G"));
  EXPECT_TRUE(shows(canvas, "the cgroup's quota holds back threads for 0.3 cores"));
  EXPECT_TRUE(shows(canvas, "compute 70%"));
  EXPECT_TRUE(shows(canvas, "the host is the limit"));
  EXPECT_TRUE(shows(canvas,
                    "memory bandwidth 25%  PCIe in 1.0G/s out 1.0M/s  fan 50%  "
                    "3 corrected memory errors"));
  EXPECT_TRUE(shows(canvas, "one core at 100 %, GPU at 5 %: the host is the limit python3 t.py"));
}

TEST(TopView, TheBusiestThreadDecidesWhetherTheHostIsTheLimit) {
  Moment moment = a_moment();
  diag::ProcessReading& other = *std::ranges::find_if(
      moment.machine.processes, [](const auto& p) { return p.command.starts_with("python3"); });
  other.cores = 1.6;  // of several threads
  EXPECT_EQ(hint(moment, other), "");
  other.busiest = {.tid = other.pid, .name = "main", .cores = 0.98};
  EXPECT_EQ(hint(moment, other), "one core at 100 %, GPU at 5 %: the host is the limit");
  EXPECT_TRUE(shows(draw(one(moment), {}, {.rows = 24, .columns = 100}), " 98%"));
  other.busiest->cores = 0.5;
  EXPECT_EQ(hint(moment, other), "");
  other.cores = 8.2;
  other.busiest = {.tid = other.pid + 3, .name = "loader", .cores = 0.98};
  EXPECT_EQ(hint(moment, other), "");
}

TEST(TopView, TheAccountGoesBeforeABusyThread) {
  Moment moment = a_moment();
  auto& run = moment.runs[0];
  EXPECT_EQ(hint(moment, run), "cuda:0 30 % input: more loader workers may help");
  run.devices[0].recent.seconds = {{"compute", 9}, {"input", 1}};
  EXPECT_EQ(hint(moment, run), "one core at 100 %, GPU at 35 %: the host is the limit");
}

TEST(TopView, CardsAreToldApartByTheirUuid) {
  Moment moment = a_moment();
  moment.runs[0].gpus.clear();  // a run without sensors
  moment.runs[0].devices[0].recent = {};
  EXPECT_EQ(hint(moment, moment.runs[0]).find("the host is the limit"), std::string::npos);
  moment.runs[0].devices[0].name = "cuda:3";
  moment.runs[0].devices[0].uuid = moment.gpus[0].uuid;
  EXPECT_NE(hint(moment, moment.runs[0]).find("GPU at 35 %"), std::string::npos);
}

TEST(TopView, AnySize) {
  for (const bool inside : {false, true})
    for (const int rows : {0, 1, 2, 5, 24, 200})
      for (const int columns : {0, 1, 7, 40, 80, 300}) {
        const Canvas canvas = draw(one(a_moment()), {.inside = inside}, {rows, columns});
        EXPECT_EQ(canvas.size().rows, rows);
        (void)draw(one(Moment()), {.inside = inside}, {rows, columns});
        (void)draw(one(a_moment()), {.help = true}, {rows, columns});
      }
}

TEST(TopView, ARunAloneHasItsHistory) {
  Moment before = a_moment();
  before.runs[0].devices[0].recent = {.wall = 1, .seconds = {{"input", 1}}};
  std::vector<MomentPointer> moments = one(before);
  moments.push_back(one(a_moment())[0]);
  const Canvas canvas =
      draw(moments, {.inside = true, .unicode = false}, {.rows = 30, .columns = 80});
  EXPECT_TRUE(shows(canvas, "tutorial-cnn  training"));
  EXPECT_TRUE(
      shows(canvas, " compute           70%   70%  *"));  // not at all, then most of the time
  EXPECT_TRUE(shows(canvas, " input             30%   30% #:"));
  EXPECT_TRUE(shows(canvas, "memory 1.0M  peak 2.0M  reserved 3.0M  limit none"));
}

TEST(TopView, ARunAloneHasItsKernelsAndWhereItIs) {
  Moment moment = a_moment();
  moment.runs[0].devices[0].doing = {
      .spans = {"train", "step", "loader"}, .cause = "input", .seconds = 12};
  moment.runs[0].ops = {
      {.op = "matmul",
       .shapes = "(2, 3) (3, 4)",
       .calls = 2000,
       .seconds = 0.03,
       .operations = 1.5e6,
       .bytes = 3e3},
      {.op = "a_kernel", .shapes = "", .calls = 1, .seconds = 0.01, .operations = {}, .bytes = {}},
      {.op = "none", .shapes = "", .calls = 0, .seconds = 0, .operations = 1, .bytes = 1}};
  const Canvas canvas =
      draw(one(moment), {.inside = true, .unicode = false}, {.rows = 30, .columns = 80});
  EXPECT_TRUE(shows(canvas, "in train > step > loader, input, for 0:12"));
  EXPECT_TRUE(
      shows(canvas, " matmul                         75%     15.0     100G     200M   (2, 3)"));
  EXPECT_TRUE(shows(canvas, " a_kernel                       25%  10000.0        -        -"));
  EXPECT_TRUE(shows(canvas, " none                            0%        -        -        -"));
  moment.runs[0].ops[0].share_of_roof = 0.42;
  EXPECT_TRUE(shows(draw(one(moment), {.inside = true}, {.rows = 30, .columns = 80}),
                    "100G     200M   42%   (2, 3)"));
  EXPECT_EQ(run_from_json(to_json(moment.runs[0])).ops[0].share_of_roof, 0.42);
  moment.runs[0].devices[0].doing->spans.clear();
  EXPECT_FALSE(shows(draw(one(moment), {.inside = true}, {.rows = 30, .columns = 80}), " > "));
}

TEST(TopView, Keys) {
  Moment moment = a_moment();
  moment.runs.push_back(moment.runs[0]);
  moment.runs[1].socket = "78-0.sock";
  ViewState state;
  const auto type = [&](Key key, char c = 0) { press(state, {key, c}, moment, 3); };
  type(Key::down);
  EXPECT_EQ(state.selected, "78-0.sock");
  type(Key::down);
  EXPECT_EQ(state.selected, "78-0.sock");  // the last one
  type(Key::enter);
  EXPECT_TRUE(state.inside);
  type(Key::escape);
  EXPECT_FALSE(state.inside);
  type(Key::left);
  type(Key::left);
  type(Key::left);
  EXPECT_EQ(state.back, 2u);  // of three moments
  moments_added(state, 1, 4);
  EXPECT_EQ(state.back, 3u);  // the same moment is shown
  type(Key::character, ' ');
  EXPECT_EQ(state.back, 0u);
  for (const char c : std::string("/brim")) type(Key::character, c);
  EXPECT_TRUE(state.typing);
  EXPECT_EQ(state.filter, "brim");
  type(Key::enter);
  EXPECT_FALSE(passes(state, moment.machine.processes[1]));
  EXPECT_TRUE(passes(state, moment.machine.processes[0]));
  type(Key::character, 's');
  EXPECT_EQ(state.sort, Sort::memory);
  type(Key::character, 'q');
  EXPECT_TRUE(state.quit);
}

TEST(TopRecording, DamagedLinesAreLeftOut) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "moments.jsonl";
  Recorder(path).add(a_moment());
  std::ofstream(path, std::ios::app)
      << "\n{\"schema\": \"brim.top/1\", \"mach\n\xff\xff\n[]\n{\"cut";
  Moment second = a_moment();
  second.hostname = "other";
  Recorder(path).add(second);  // ends the line that was cut short
  Recording recording(path);
  ASSERT_EQ(recording.size(), 2u);
  EXPECT_EQ(recording.damaged(), 4u);
  EXPECT_EQ(recording.at(0)->hostname, "box");
  EXPECT_EQ(recording.at(1)->hostname, "other");
  EXPECT_EQ(recording.until(1, 10).size(), 2u);
  std::ofstream(folder / "bad") << "nothing\n";
  EXPECT_NE(tests::message_of([&] { Recording bad(folder / "bad"); }).find("holds no moment"),
            std::string::npos);
}

TEST(TopMoments, OneWithoutSharesStaysUntilTheNext) {
  RecentMoments recent;
  Moment first = a_moment();
  first.machine.seconds = 0;
  EXPECT_TRUE(shows(draw(one(first), {}, {.rows = 24, .columns = 80}), "first shares follow"));
  EXPECT_FALSE(shows(draw(one(a_moment()), {}, {.rows = 24, .columns = 80}), "first shares"));
  recent.add(first);
  EXPECT_EQ(recent.size(), 1u);
  for (int i = 0; i < 3; ++i) recent.add(a_moment());
  EXPECT_EQ(recent.size(), 3u);
  EXPECT_TRUE(recent.at(0)->has_rates());
}

TEST(TopMoments, TheNewestAreKept) {
  RecentMoments recent;
  for (int i = 0; i < 2000; ++i) {
    Moment moment = a_moment();
    moment.time = i;
    moment.machine.processes.resize(200);
    recent.add(std::move(moment));
  }
  EXPECT_LE(recent.size(), 600u);
  EXPECT_GT(recent.size(), 100u);
  EXPECT_EQ(recent.at(recent.size() - 1)->time, 1999);
  EXPECT_EQ(recent.at(0)->machine.processes.size(), 40u);
}

}  // namespace
}  // namespace brim::top
