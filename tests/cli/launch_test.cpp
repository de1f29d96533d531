// Several ranks of the command: their weights, what is named when they do not fit, what survives.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

class Launch : public testing::Test {
 protected:
  /// `brim launch -n RANKS [OPTIONS] train RECIPE ...` on a tiny data set.
  Ran train(int ranks, std::vector<std::string> more, std::vector<std::string> options = {},
            const std::string& before = "") const {
    std::vector<std::string> words;
    if (ranks > 1 || !options.empty()) {
      words = {"launch", "-n", std::to_string(ranks)};
      words.insert(words.end(), options.begin(), options.end());
    }
    for (const char* word : {"train", "tutorial-cnn", "--batch", "12", "--epochs", "1", "--monitor",
                             "0", "--compile", "on"})
      words.emplace_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return run_brim(words, before);
  }
  std::string weights(const std::string& out) const { return slurp(out + "/model.safetensors"); }
  bool has(const std::string& text, const std::string& part) const {
    return text.find(part) != std::string::npos;
  }
  TemporaryFolder folder_;
};

TEST_F(Launch, AnyNumberOfRanksTrainsTheSameWeights) {
  for (const std::string precision : {"fp32", "bf16"}) {
    std::string alone;
    for (const int ranks : {1, 2, 3}) {
      const std::string out = folder_ / (precision + std::to_string(ranks));
      const Ran ran = train(ranks, {"--virtual-ranks", "6", "--steps", "40", "--precision",
                                    precision, "--out", out, "--json", out + ".json"});
      ASSERT_EQ(ran.code, 0) << ran.err;
      if (ranks == 1) alone = weights(out);
      EXPECT_TRUE(weights(out) == alone) << ranks << " ranks in " << precision;
      const auto json = nlohmann::json::parse(slurp(out + ".json"));
      EXPECT_EQ(json["ranks"]["world_size"], ranks);
      EXPECT_EQ(json["ranks"]["virtual_ranks"], 6);
      EXPECT_EQ(json["total_images"], 480);
      if (ranks == 1) continue;
      EXPECT_EQ(json["ranks"]["rows"].size(), static_cast<size_t>(ranks));
      const auto& summary = json["ranks"]["summary"];
      const int slowest = summary["slowest_rank"];
      EXPECT_EQ(json["ranks"]["rows"][static_cast<size_t>(slowest)]["communication"],
                summary["communication"]["min"]);
      EXPECT_LE(summary["us_per_step"]["min"], summary["us_per_step"]["median"]);
      EXPECT_LE(summary["peak_memory"]["median"], summary["peak_memory"]["max"]);
    }
  }
}

TEST_F(Launch, TracesHoldAllRanks) {
  const std::string file = folder_ / "trace.json";
  const Ran ran = train(2, {"--steps", "20", "--trace", file});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "trace of 2 ranks in ")) << ran.out;
  std::map<std::string, std::pair<double, double>> trained;  // when, by process
  std::map<int, std::string> processes;
  const auto json = nlohmann::json::parse(slurp(file));
  for (const auto& e : json["traceEvents"]) {
    if (e["name"] == "process_name") processes[e["pid"]] = e["args"]["name"];
    if (e["name"] == "train")
      trained[processes[e["pid"]]] = {e["ts"], e["ts"].get<double>() + e["dur"].get<double>()};
  }
  ASSERT_EQ(trained.size(), 2u);
  const auto zero = trained.at("rank 0: host"), one = trained.at("rank 1: host");
  // Each waits for the other in each step: they end within one, on one clock.
  EXPECT_NEAR(zero.second, one.second, 0.5 * (zero.second - zero.first));
  EXPECT_LT(one.first, zero.second);
  // What cannot be written keeps no rank from its end.
  const Ran full = train(2, {"--steps", "5", "--trace", "/dev/full"});
  EXPECT_NE(full.code, 0);
  EXPECT_TRUE(has(full.err, "/dev/full")) << full.err;
}

/// Memory layouts, which change the last bits, do not depend on how many parts a rank computes.
TEST_F(Launch, LargeConvolutionsHaveTheSameLayouts) {
  std::string alone;
  for (const int ranks : {1, 2}) {
    const std::string out = folder_ / std::to_string(ranks);
    const Ran ran = run_brim({"launch", "-n", std::to_string(ranks), "train", "shapes-masks",
                              "--virtual-ranks", "2", "--steps", "2", "--epochs", "1", "--monitor",
                              "0", "--explain", "--out", out});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(has(ran.out, "nhwc by rule")) << ran.out;
    if (ranks == 1) alone = weights(out);
    EXPECT_TRUE(weights(out) == alone);
  }
}

TEST_F(Launch, GoesOnWithAnotherNumberOfRanks) {
  const std::string whole = folder_ / "whole", out = folder_ / "out";
  ASSERT_EQ(train(1, {"--virtual-ranks", "4", "--steps", "60", "--out", whole}).code, 0);
  EXPECT_EQ(train(4, {"--steps", "20", "--out", out}).code, 0);
  EXPECT_EQ(train(2, {"--steps", "20", "--resume", out}).code, 0);
  const Ran last = train(1, {"--steps", "20", "--resume", out});
  EXPECT_EQ(last.code, 0) << last.err;
  const auto tensors = [](const std::string& file) {  // behind the recipe, which differs
    return file.substr(file.size() - 62006 * 4);
  };
  EXPECT_TRUE(tensors(weights(out)) == tensors(weights(whole)));
  const Ran three = train(3, {"--steps", "20", "--resume", out});
  EXPECT_EQ(three.code, 1);
  EXPECT_TRUE(has(three.err, "cannot be shared by 3 ranks")) << three.err;
}

TEST_F(Launch, NamesWhatDoesNotFit) {
  const auto says = [&](const Ran& ran, const std::string& part) {
    EXPECT_NE(ran.code, 0) << part;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
  };
  says(train(5, {}), "a batch of 12 has no 5 equal parts");
  says(train(2, {"--device", "sim:0,sim:1,sim:2"}), "3 devices for the 2 ranks");
  says(run_brim({"launch", "-n", "2"}), "which command?");
  says(run_brim({"launch", "-n", "2", "no-such-program"}), "'no-such-program' cannot be started");
  says(run_brim({"launch", "-n", "0", "env"}), "--ranks");
  const auto env = [](const std::string& variables) {
    return run_brim({"env", "--dist"}, "export " + variables + ";");
  };
  says(env("RANK=1"), "RANK is set and WORLD_SIZE is not");
  says(env("RANK=2 WORLD_SIZE=2"), "ranks are 0 to 1");
  says(env("RANK=x WORLD_SIZE=2"), "RANK='x'");
  says(env("RANK=0 WORLD_SIZE=2"), "MASTER_ADDR");
  says(env("RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=99999"), "MASTER_PORT");
  says(env("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2"),
       "-x MASTER_ADDR=HOST");
  const std::string two = "export WORLD_SIZE=2 MASTER_PORT=23456;";
  says(run_brim({"train", "tutorial-cnn"}, two + "export RANK=1 MASTER_ADDR=no.such.host.invalid;"),
       "does not resolve");
  says(env("RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=23456 BRIM_DIST_BACKEND=mpi"),
       "use mpirun without it, or tcp");
  says(env("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 BRIM_DIST_BACKEND=mpj"),
       "BRIM_DIST_BACKEND='mpj' is no backend");
  says(run_brim({"train", "tutorial-cnn"},
                two + "export RANK=1 MASTER_ADDR=localhost BRIM_JOIN_TIMEOUT=1;"),
       "within 1 s");
  const std::string mpi =
      "export OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
      "BRIM_DIST_BACKEND=mpi BRIM_MPI_LIBRARY=";
  says(run_brim({"train", "tutorial-cnn"}, mpi + "/nowhere/libmpi.so;"), "apt-get install");
  says(run_brim({"train", "tutorial-cnn"}, mpi + "libz.so.1;"), "no library of Open MPI");
  // Ranks with other settings, each started by hand.
  const Ran other =
      run_brim({"launch", "-n", "2", "sh", "-c",
                "exec " + brim_path() + " train tutorial-cnn --steps 3 --monitor 0 --seed $RANK"});
  says(other, "rank 0 has 'seed = 0', and rank 1 has 'seed = 1'");
}

TEST_F(Launch, NamesRanksWhoseDataDiffers) {
  // As many pictures, under the same name on each host; one time another pixel, one another label.
  const auto write = [&](const std::string& host, char pixel, char last_label) {
    const std::string data = folder_ / (host + "/data");
    std::filesystem::create_directories(data);
    const std::string labels = std::string("\0\0\x8\1\0\0\0\4\0\1\0", 11) + last_label;
    std::string images("\0\0\x8\3\0\0\0\4\0\0\0\x20\0\0\0\x20", 16);
    images.append(size_t{4} * 32 * 32, pixel);
    std::ofstream(data + "/train-labels-idx1-ubyte", std::ios::binary) << labels;
    std::ofstream(data + "/train-images-idx3-ubyte", std::ios::binary) << images;
  };
  const std::string command = "cd '" + folder_.path() + "'/$RANK && exec " + brim_path() +
                              " train tutorial-cnn --batch 2 --steps 1 --monitor 0 --data data";
  write("0", 1, 1);
  const std::pair<char, char> others[] = {{1, 1}, {2, 1}, {1, 0}};
  for (const auto& [pixel, label] : others) {
    write("1", pixel, label);
    const Ran ran = run_brim({"launch", "-n", "2", "sh", "-c", command});
    const bool differs = pixel != 1 || label != 1;
    EXPECT_EQ(has(ran.err, "rank 0 has 'hash of some samples = "), differs) << ran.err;
    EXPECT_EQ(ran.code != 0, differs) << ran.err;
  }
}

TEST_F(Launch, SlurmVariables) {
  const auto env = [](const std::string& variables) {
    return nlohmann::json::parse(
        run_brim({"env", "--dist", "--json"}, "export " + variables + ";").out);
  };
  const auto step = env(
      "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=1 SLURM_STEP_NUM_NODES=3 SLURM_NODEID=1 "
      "'SLURM_STEP_TASKS_PER_NODE=4,2,1' 'SLURM_STEP_NODELIST=gpu[07-08,11],x3' SLURM_JOB_ID=9 "
      "SLURM_STEP_ID=2");
  EXPECT_EQ(step["launcher"], "srun");
  EXPECT_EQ(step["rank"], 5);
  EXPECT_EQ(step["world_size"], 7);
  EXPECT_EQ(step["local_world_size"], 2);
  EXPECT_EQ(step["address"], "gpu07");
  // An sbatch script has these, and is no task of a step.
  EXPECT_EQ(env("SLURM_PROCID=0 SLURM_NTASKS=4")["launcher"], "none");
  // torchrun within srun.
  EXPECT_EQ(env("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 "
                "LOCAL_WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=29500 TORCHELASTIC_RUN_ID=x")["rank"],
            3);
}

TEST_F(Launch, AllOutputComes) {
  const Ran ran = run_brim({"launch", "-n", "2", "--", "sh", "-c",
                            "[ $RANK = 0 ] || { sleep 0.2; seq 12000; printf last; exit 3; }"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(has(ran.err, "[rank 1] 12000\n[rank 1] last\n")) << ran.err.size();
  EXPECT_TRUE(has(ran.err, "ended with exit code 3"));
}

TEST_F(Launch, RanksThatStayStoppedHaveFailed) {
  const Ran ran = run_brim(
      {"launch", "-n", "2", "--", "sh", "-c", "[ $RANK = 0 ] || kill -STOP $$; exec sleep 20"});
  EXPECT_EQ(ran.code, 128 + SIGSTOP) << ran.err;  // though it was told to go on and to end
  EXPECT_TRUE(has(ran.err, "was stopped by signal 19")) << ran.err;
}

TEST_F(Launch, ARankThatIsStoppedWhenAllOthersHaveEndedHasFailed) {
  const Ran ran = run_brim({"launch", "-n", "2", "--", "sh", "-c",
                            "[ $RANK = 0 ] || { sleep 0.5; kill -STOP $$; exec sleep 60; }"});
  EXPECT_EQ(ran.code, 128 + SIGSTOP) << ran.err;
  EXPECT_TRUE(has(ran.err, "rank 1 (")) << ran.err;
  EXPECT_TRUE(has(ran.err, "was stopped by signal 19")) << ran.err;
}

/// As brim's own commands end when they are told to: that is not why the rank failed.
TEST_F(Launch, AStoppedRankThatEndsAsItIsToldIsStartedAgain) {
  const Ran ran =
      run_brim({"launch", "-n", "2", "--restarts", "1", "--", "sh", "-c",
                "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; trap 'exit 143' TERM; "
                "[ $RANK = 0 ] || kill -STOP $$; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "was stopped by signal 19")) << ran.err;
  EXPECT_TRUE(has(ran.err, "starting all 2 ranks again")) << ran.err;
}

/// One after the other.
TEST_F(Launch, RanksThatAreAllPausedGoOn) {
  const Ran ran = run_brim({"launch", "-n", "2", "--", "sh", "-c",
                            "( sleep 5.$RANK; kill -CONT $$ ) & kill -STOP $$; echo on"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "[rank 1] on")) << ran.err;
}

TEST_F(Launch, StopsWithACheckpoint) {
  const std::string out = folder_ / "out";
  const Ran ran = train(3, {"--virtual-ranks", "3", "--checkpoint-every", "50", "--out", out}, {},
                        signal_when("ls -d " + out + "/checkpoint-* >/dev/null 2>&1", "TERM"));
  EXPECT_EQ(ran.code, 143) << ran.err;
  EXPECT_TRUE(has(ran.err, "--resume " + out)) << ran.err;
  const Ran last = train(1, {"--resume", out});
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_TRUE(has(last.out, "going on from")) << last.out;
}

/// The processes of one rank of this test's run.
std::string process_of(const std::string& out, int rank) {
  return "$(grep -lsz '^RANK=" + std::to_string(rank) + "$' $(grep -lsz " + in_quotes(out) +
         " /proc/[0-9]*/cmdline | grep -v self | sed s/cmdline/environ/) | tail -1 | cut -d/ -f3)";
}

TEST_F(Launch, KilledRanksAreNamedAndTheRunGoesOn) {
  const std::string whole = folder_ / "whole", out = folder_ / "out";
  const auto with = [](const std::string& folder) {
    return std::vector<std::string>{"--virtual-ranks",    "3",   "--threads", "1",
                                    "--checkpoint-every", "50",  "--out",     folder,
                                    "--resume",           folder};
  };
  const Ran planned = train(1, with(whole));
  ASSERT_EQ(planned.code, 0) << planned.err;
  const Ran ran = train(3, with(out), {"--restarts", "1"},
                        "( for i in $(seq 900); do ls -d " + out +
                            "/checkpoint-* >/dev/null 2>&1 && break; sleep 0.02; done; kill -9 " +
                            process_of(out, 2) + " ) & ");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "was killed by signal 9")) << ran.err;
  EXPECT_TRUE(has(ran.err, "starting all 3 ranks again, 1 of 1")) << ran.err;
  EXPECT_TRUE(has(ran.err, "rank 2 (127.0.0.1) has ended without a word")) << ran.err;
  EXPECT_TRUE(has(ran.out, "going on from")) << ran.out;
  EXPECT_TRUE(weights(out) == weights(whole));
  const std::string record = slurp(out + "/failures/rank-0.json");
  ASSERT_FALSE(record.empty());
  const auto json = nlohmann::json::parse(record);
  EXPECT_TRUE(has(json["error"], "rank 2"));
  EXPECT_GT(json["calls"].size(), 3u);
}

}  // namespace
}  // namespace brim::tests
