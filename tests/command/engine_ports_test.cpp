// What --pictures, --bgr and --output of `brim export` are for a network.
#include "command/engine_ports.h"

#include <gtest/gtest.h>

#include "message_of.h"

namespace brim::command {
namespace {

using tests::message_of;

TrainedNetwork network_of(const std::string& task, int64_t size) {
  TrainedNetwork net;
  net.path = "w.safetensors";
  net.recipe.task = task;
  net.recipe.input.size = size;
  net.info.classes = {"a", "b", "c"};
  return net;
}

TEST(EnginePorts, PreparePicturesAsTheRecipeDoes) {
  const TrainedNetwork net = network_of("classify", 32);
  EXPECT_FALSE(pictures_of({}, net, {3, 32, 32}));
  const auto pictures = pictures_of({.pictures = "48x60", .bgr = true}, net, {3, 32, 32});
  ASSERT_TRUE(pictures);
  EXPECT_EQ(pictures->height, 48);
  EXPECT_EQ(pictures->width, 60);
  EXPECT_EQ(pictures->transform.steps.size(), 2U);
  EXPECT_EQ(metadata_of(*pictures, 3).at("pictures"), "BGR");
  EXPECT_EQ(metadata_of(*pictures, 1).at("pictures"), "channels: 1");
  EXPECT_TRUE(pictures_of({.pictures = "64x64"}, network_of("segment", 0), {3, 64, 64})
                  ->transform.steps.empty());
}

TEST(EnginePorts, RefusePicturesThatANetworkDoesNotRead) {
  const auto refused = [](const EnginePorts& ports, const TrainedNetwork& net, const Shape& input) {
    return message_of([&] { (void)pictures_of(ports, net, input); });
  };
  const TrainedNetwork net = network_of("classify", 0);
  EXPECT_NE(refused({.pictures = "48x60"}, net, {3, 32, 32})
                .find("the network reads 32x32: give --pictures 32x32"),
            std::string::npos);
  EXPECT_NE(refused({.pictures = "48x60"}, net, {7}).find("no network of pictures"),
            std::string::npos);
  EXPECT_NE(refused({.pictures = "48x60"}, net, {5, 48, 60}).find("no network of pictures"),
            std::string::npos);
  EXPECT_NE(refused({.pictures = "48x60"}, network_of("language", 0), {3, 48, 60})
                .find("no network of pictures"),
            std::string::npos);
  EXPECT_NE(refused({.pictures = "48x60", .bgr = true}, net, {1, 48, 60}).find("reads 1"),
            std::string::npos);
  EXPECT_NE(refused({.bgr = true}, net, {3, 48, 60}).find("it is for --pictures"),
            std::string::npos);
}

TEST(EnginePorts, ChooseClassesOfTasksThatHaveThem) {
  deploy::EngineOptions options;
  choose_output({.output = "top:3"}, network_of("classify", 0), options);
  EXPECT_EQ(options.output, deploy::EngineOutput::top);
  EXPECT_EQ(options.top, 3);
  EXPECT_EQ(options.outputs, std::vector<std::string>{"probabilities"});
  EXPECT_EQ(options.metadata.at("output"), "top:3");
  choose_output({.output = "classes"}, network_of("segment", 0), options);
  EXPECT_EQ(options.output, deploy::EngineOutput::classes);
  EXPECT_EQ(options.outputs, std::vector<std::string>{"classes"});
  for (const char* task : {"regress", "multilabel"})
    EXPECT_NE(message_of([&] {
                choose_output({.output = "softmax"}, network_of(task, 0), options);
              }).find("no one class of several"),
              std::string::npos);
  for (const char* output : {"top:4", "top:0", "top:-1", "top:", "top:2 ", "argmax"})
    EXPECT_NE(message_of([&] {
                choose_output({.output = output}, network_of("classify", 0), options);
              }).find("--output "),
              std::string::npos);
}

}  // namespace
}  // namespace brim::command
