// `brim shrink`: searches within limits, stops and goes on, and says what is out of reach.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/trained_tutorial_cnn.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class Shrink : public TrainedTutorialCnn<Shrink> {
 protected:
  static Ran shrink(const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"shrink", "--data",        data(),      "--device", "cpu",
                                     "--out",  *folder() / out, "--samples", "16"};
    if (std::ranges::find(more, "--weights") == more.end())
      args.insert(args.end(), {"--weights", weights()});
    if (std::ranges::find(more, "--pattern") == more.end())
      args.insert(args.end(), {"--pattern", "vector:8"});
    if (std::ranges::find(more, "--finetune") == more.end())
      args.insert(args.end(), {"--finetune", "1"});
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
  /// Interrupted as soon as the first point is being trained.
  static Ran interrupted(const std::string& out, std::vector<std::string> args) {
    args.insert(args.begin(),
                {"shrink", "--weights", weights(), "--data", data(), "--device", "cpu", "--samples",
                 "16", "--pattern", "vector:8", "--out", *folder() / out});
    const std::string training = in_quotes(*folder() / (out + "/shrink/training"));
    return run_brim(args, signal_when("test -d " + training, "INT"));
  }
  static json read(const std::string& path) {
    std::ifstream file(path);
    return json::parse(file);
  }
};

TEST_F(Shrink, FindsASmallerNetworkThatOthersRead) {
  const std::string out = *folder() / "size";
  const Ran ran = shrink(
      "size", {"--size", "100k", "--points", "2", "--json", out + ".json", "--svg", out + ".svg"});
  ASSERT_EQ(ran.code, 0) << ran.err << ran.out;
  for (const char* part : {"layers alone, in us", "point 1", "smaller", "<- chosen", "weights in"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  const std::string file = out + "/model.safetensors";
  EXPECT_LE(std::filesystem::file_size(file), 100 * 1024U);
  const json found = read(out + ".json");
  ASSERT_GE(found["points"].size(), 2U);  // a gentler point may be the same
  const auto chosen = found["chosen"].get<size_t>();
  EXPECT_EQ(found["points"][chosen]["bytes"], std::filesystem::file_size(file));
  EXPECT_EQ(found["layers"].size(), 5U);
  EXPECT_GT(found["points"][chosen]["seconds"], 0);
  EXPECT_TRUE(found["points"][chosen]["evaluation"].contains("accuracy_difference"));
  EXPECT_EQ(slurp(out + ".svg").find("<svg"), 0U);
  EXPECT_FALSE(std::filesystem::exists(out + "/shrink/training"));

  const Ran eval = run_brim({"eval", "--weights", file, "--data", data(), "--device", "cpu",
                             "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(read(out + "-eval.json")["loss"].get<double>(),
              found["points"][chosen]["evaluation"]["loss"].get<double>(), 1e-4);

  // What is there is not lost, and not searched again.
  const Ran again = shrink("size", {"--size", "100k"});
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--resume"), std::string::npos) << again.err;
  const Ran resumed = shrink("size", {"--size", "100k", "--points", "2", "--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.out.find("point 1 of"), std::string::npos) << resumed.out;
  const Ran other = shrink("size", {"--size", "100k", "--resume", "--at-batch", "4"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("differs in at_batch"), std::string::npos) << other.err;
}

TEST_F(Shrink, TakesTheSmallestThatKeepsTheAccuracy) {
  const std::string out = *folder() / "accuracy";
  // Anything is good enough: the smallest one is made, and no other.
  const Ran ran =
      shrink("accuracy", {"--accuracy", "-100", "--finetune", "0", "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err << ran.out;
  const json found = read(out + ".json");
  EXPECT_EQ(found["points"].size(), 2U);
  EXPECT_FALSE(found["chosen"].is_null());
  EXPECT_DOUBLE_EQ(found["target"]["accuracy"].get<double>(), -1);
}

TEST_F(Shrink, LeavesOutChannels) {
  const std::string out = *folder() / "channels";
  const std::vector<std::string> args = {"--size",   "40k",       "--pattern", "channels",
                                         "--points", "1",         "--json",    out + ".json",
                                         "--svg",    out + ".svg"};
  const Ran ran = shrink("channels", args);
  ASSERT_EQ(ran.code, 0) << ran.err << ran.out;
  for (const char* part : {"channels that go together", "width 1:", ": width ", "<- chosen"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  const std::string file = out + "/model.safetensors";
  EXPECT_LE(std::filesystem::file_size(file), 40 * 1024U);
  const json found = read(out + ".json");
  ASSERT_EQ(found["points"].size(), 2U);
  EXPECT_GT(found["points"][1]["width"].get<int>(), 0);
  EXPECT_NE(slurp(out + ".svg").find("width "), std::string::npos);
  for (const json& layer : found["layers"])
    for (const json& form : layer["forms"]) EXPECT_EQ(form["sparsity"], 0.0);
  const Ran eval = run_brim({"eval", "--weights", file, "--data", data(), "--device", "cpu",
                             "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(read(out + "-eval.json")["loss"].get<double>(),
              found["points"][1]["evaluation"]["loss"].get<double>(), 1e-4);
  const Ran named =
      run_brim({"eval", "tutorial-cnn", "--weights", file, "--data", data(), "--device", "cpu"});
  EXPECT_EQ(named.code, 0) << named.err;

  // As a search that was stopped behind the measurements of channels, and of one width's layers.
  json state = read(out + "/shrink/search.json");
  const json groups = state["groups"], width = state["widths"][1]["layers"];
  ASSERT_GT(groups.size(), 1U);
  state["widths"].back()["layers"].erase(3), state["widths"].back()["layers"].erase(3);
  state["points"].erase(1);
  std::ofstream(out + "/shrink/search.json") << state;
  std::vector<std::string> again = args;
  again.emplace_back("--resume");
  ASSERT_EQ(shrink("channels", again).code, 0);
  state = read(out + "/shrink/search.json");
  EXPECT_EQ(state["groups"], groups);
  EXPECT_EQ(state["widths"].back()["layers"].size(), 5U);
  EXPECT_EQ(state["points"].size(), 2U);
  // A width whose file is gone is made again.
  const size_t widths = state["widths"].size();
  const std::string last = fmt::format("{}/shrink/width-{}.safetensors", out, widths - 1);
  std::filesystem::remove(last);
  EXPECT_EQ(shrink("channels", again).code, 0);
  EXPECT_TRUE(std::filesystem::exists(last));
}

TEST_F(Shrink, OthersReadChannelsVectorsAndIntegersTogether) {
  const std::string out = *folder() / "together";
  // Smaller than any width, and than integers alone.
  const Ran ran = shrink("together", {"--size", "8k", "--pattern", "channels", "--pattern",
                                      "vector:4", "--points", "1", "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err << ran.out;
  const json found = read(out + ".json");
  ASSERT_EQ(found["points"].size(), 2U);
  const json& point = found["points"][1];
  EXPECT_GT(point["width"].get<int>(), 0);
  const auto count = [&](auto is) {
    return std::ranges::count_if(point["forms"], [&](const json& form) { return is(form); });
  };
  EXPECT_GT(count([](const json& form) { return form["int8"].template get<bool>(); }), 0);
  EXPECT_GT(count([](const json& form) { return form["sparsity"].template get<double>() > 0; }), 0);

  const std::string file = out + "/model.safetensors", picture = *folder() / "pixel.png";
  write_pixel_png(picture);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"eval", "--data", data(), "--device", "cpu"},
        {"eval", "tutorial-cnn", "--data", data(), "--device", "cpu"},
        {"predict", picture},
        {"predict", picture, "--recipe", "tutorial-cnn"},
        {"quantize", "tutorial-cnn", "--data", data(), "--device", "cpu", "--samples", "32"},
        {"export", "-o", out + ".brim"},
        {"export", "-o", out + ".onnx", "--onnx"},
        {"train", "tutorial-cnn", "--data", data(), "--device", "cpu", "--epochs", "1"}}) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--weights", file});
    const Ran read_by = run_brim(all);
    EXPECT_EQ(read_by.code, 0) << args[0] << ": " << read_by.err;
  }
}

TEST_F(Shrink, RefusesAnotherFormat) {
  const std::string folder_of_search = *folder() / "former/shrink";
  std::filesystem::create_directories(folder_of_search);
  // As the first versions wrote it.
  const json former = {{"asked", json::object()},
                       {"target", json::object()},
                       {"layers", json::array()},
                       {"points", json::array()},
                       {"current", nullptr}};
  std::ofstream(folder_of_search + "/search.json") << former;
  const Ran ran = shrink("former", {"--size", "100k", "--resume"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("is of format 1, which another version of brim writes"), std::string::npos)
      << ran.err;
  EXPECT_EQ(ran.err.find("damaged"), std::string::npos) << ran.err;
}

TEST_F(Shrink, GoesOnWhereItWasStopped) {
  const std::string out = *folder() / "parts";
  std::filesystem::create_directories(out + "/shrink");
  std::ofstream(out + "/shrink/notes.txt") << "mine";
  const Ran refused = shrink("parts", {"--size", "100k", "--points", "1"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("is of no search"), std::string::npos) << refused.err;
  // What a search leaves that was killed at once is no hindrance.
  std::filesystem::rename(out + "/shrink/notes.txt", out + "/shrink/dense.safetensors");
  const Ran whole = shrink("parts", {"--size", "100k", "--points", "1"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  // As a search that was stopped while it measured.
  json state = read(out + "/shrink/search.json");
  const json layers = state["widths"][0]["layers"];
  state["widths"][0]["layers"].erase(3), state["widths"][0]["layers"].erase(3);
  state["points"].erase(1);
  std::ofstream(out + "/shrink/search.json") << state;
  std::filesystem::remove(out + "/model.safetensors");
  const Ran ran = shrink("parts", {"--size", "100k", "--points", "1", "--resume"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  state = read(out + "/shrink/search.json");
  ASSERT_EQ(state["widths"][0]["layers"].size(), 5U);
  EXPECT_EQ(state["widths"][0]["layers"][0], layers[0]);
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));

  // A layer without forms, and a point of another file.
  const std::string sound = slurp(out + "/shrink/search.json");
  state = json::parse(sound);
  state["widths"][0]["layers"][1]["forms"] = json::array();
  std::ofstream(out + "/shrink/search.json") << state;
  const Ran formless = shrink("parts", {"--size", "100k", "--resume"});
  EXPECT_EQ(formless.code, 1) << formless.out;
  EXPECT_NE(formless.err.find("no dense form"), std::string::npos) << formless.err;
  for (const char* damage : {"{\"asked\": ", "[]", "7", "{\"asked\": {}, \"format\": 2}"}) {
    std::ofstream(out + "/shrink/search.json") << damage;
    const Ran damaged = shrink("parts", {"--size", "100k", "--resume"});
    EXPECT_EQ(damaged.code, 1);
    EXPECT_NE(damaged.err.find("search.json is damaged (something is missing in it"),
              std::string::npos)
        << damaged.err;
    EXPECT_EQ(damaged.err.find("json.exception"), std::string::npos) << damaged.err;
  }
  state = json::parse(sound);
  state["points"][1]["bytes"] = -1;
  std::ofstream(out + "/shrink/search.json") << state;
  EXPECT_NE(shrink("parts", {"--size", "100k", "--resume"}).err.find("bytes are -1"),
            std::string::npos);
  state = json::parse(sound);
  state["points"][1]["forms"] = {{"conv9", {{"sparsity", 0.5}, {"int8", false}}}};
  std::ofstream(out + "/shrink/search.json") << state;
  const Ran unknown = shrink("parts", {"--size", "100k", "--resume"});
  EXPECT_NE(unknown.err.find("conv9"), std::string::npos) << unknown.err << unknown.out;
  std::ofstream(out + "/shrink/search.json") << sound;
  std::filesystem::resize_file(out + "/shrink/point-1.safetensors", 1000);
  const Ran again = shrink("parts", {"--size", "100k", "--points", "1", "--resume"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("point 1 of"), std::string::npos) << again.out;

  std::ofstream(out + "/shrink/search.json") << "{\"asked\": 3";
  const Ran damaged = shrink("parts", {"--size", "100k", "--resume"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find("damaged"), std::string::npos) << damaged.err;
}

TEST_F(Shrink, GoesOnAmidATraining) {
  const std::string out = *folder() / "amid";
  const std::vector<std::string> args = {"--size", "50k", "--points", "1", "--finetune", "100"};
  const Ran stopped = interrupted("amid", args);
  ASSERT_EQ(stopped.code, 130) << stopped.err << stopped.out;
  EXPECT_NE(stopped.err.find("the same command with --resume"), std::string::npos) << stopped.err;
  const json current = read(out + "/shrink/search.json")["current"];
  ASSERT_TRUE(current.is_object());
  std::vector<std::string> again = args;
  again.emplace_back("--resume");
  const Ran resumed = shrink("amid", again);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const json state = read(out + "/shrink/search.json");
  EXPECT_TRUE(state["current"].is_null());
  ASSERT_EQ(state["points"].size(), 2U);
  EXPECT_EQ(state["points"][1]["forms"], current);
  EXPECT_LE(std::filesystem::file_size(out + "/model.safetensors"), 50 * 1024U);
  EXPECT_FALSE(std::filesystem::exists(out + "/shrink/training"));
}

TEST_F(Shrink, PlansAnewForAnotherTarget) {
  const std::string out = *folder() / "targets";
  ASSERT_EQ(shrink("targets", {"--size", "150k", "--points", "1", "--finetune", "0"}).code, 0);
  const Ran smaller =
      shrink("targets", {"--size", "60k", "--points", "1", "--finetune", "0", "--resume"});
  ASSERT_EQ(smaller.code, 0) << smaller.err;
  EXPECT_NE(smaller.out.find("points are made anew"), std::string::npos) << smaller.out;
  EXPECT_LE(std::filesystem::file_size(out + "/model.safetensors"), 60 * 1024U);
}

TEST_F(Shrink, MeetsALatencyAsAWhole) {
  const std::string out = *folder() / "latency";
  // Met by the network as it is, and by none.
  const Ran slow = shrink("latency", {"--latency", "10s", "--json", out + ".json"});
  ASSERT_EQ(slow.code, 0) << slow.err;
  EXPECT_NE(slow.out.find("as it is meets"), std::string::npos) << slow.out;
  EXPECT_EQ(read(out + ".json")["points"].size(), 1U);
  const Ran fast = shrink("latency", {"--latency", "1ns", "--resume"});
  EXPECT_EQ(fast.code, 1);
  EXPECT_NE(fast.err.find("the nearest network that was tried takes 0.0"), std::string::npos)
      << fast.err;
}

TEST_F(Shrink, LeavesOthersFilesAlone) {
  const std::string out = *folder() / "shared", inside = out + "/shrink";
  std::filesystem::create_directories(inside);
  std::ofstream(inside + "/thesis.txt") << "mine";
  EXPECT_EQ(shrink("shared", {"--size", "100k", "--overwrite"}).code, 2);
  EXPECT_EQ(slurp(inside + "/thesis.txt"), "mine");
  const std::string copied = *folder() / "copied.safetensors";
  std::filesystem::copy_file(weights(), copied);
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--svg", copied},
                                               {"--svg", data() + "/test_batch.bin/x.svg"},
                                               {"--json", "x.out", "--svg", "x.out"}}) {
    std::vector<std::string> args = {"--size", "100k", "--weights", copied};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_NE(shrink("shared-too", args).code, 0) << more[1];
  }
  EXPECT_EQ(slurp(copied), slurp(weights()));
}

TEST_F(Shrink, SaysWhatCannotBeMeant) {
  const auto error_of = [&](const std::vector<std::string>& more, int code) {
    const Ran ran = shrink("wrong", more);
    EXPECT_EQ(ran.code, code) << ran.err << ran.out;
    return ran.err;
  };
  EXPECT_NE(error_of({}, 2).find("what is wanted?"), std::string::npos);
  EXPECT_NE(error_of({"--latency", "3"}, 2).find("3ms"), std::string::npos);
  EXPECT_NE(error_of({"--latency", "-3ms"}, 2).find("no time"), std::string::npos);
  EXPECT_NE(error_of({"--size", "much"}, 2).find("no size"), std::string::npos);
  EXPECT_NE(error_of({"--size", "100k", "--pattern", "2:4"}, 2).find("only channels and vectors"),
            std::string::npos);
  EXPECT_NE(error_of({"--size", "100k", "--resume", "--overwrite"}, 2).find("begins anew"),
            std::string::npos);
  std::filesystem::create_directories(*folder() / "other");
  std::ofstream(*folder() / "other/model.safetensors") << "of another";
  EXPECT_EQ(shrink("other", {"--size", "100k"}).code, 2);
  EXPECT_EQ(slurp(*folder() / "other/model.safetensors"), "of another");
  const std::string size = error_of({"--size", "1k"}, 1);
  EXPECT_NE(size.find("is the least"), std::string::npos) << size;
  EXPECT_NE(error_of({"--size", "100k", "--keep", "conv9", "--overwrite"}, 2).find("conv9"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(*folder() / "wrong/model.safetensors"));
}

}  // namespace
}  // namespace brim::tests
