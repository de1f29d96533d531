// Tests of commands that begin with trained weights.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cli/run_brim.h"

namespace brim::tests {

/// The tutorial's network, trained for an epoch on a few pictures: once for each suite that derives
/// from this (`Suite`).
template <class Suite>
class TrainedTutorialCnn : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = std::make_unique<TemporaryFolder>();
    write_tiny_cifar(*folder() / "data", 48);
    const Ran ran = run_brim({"train", "tutorial-cnn", "--device", "cpu", "--data", data(), "--out",
                              *folder() / "dense", "--epochs", "1"});
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  static void TearDownTestSuite() { folder().reset(); }
  static std::unique_ptr<TemporaryFolder>& folder() {
    static std::unique_ptr<TemporaryFolder> one;
    return one;
  }
  static std::string data() { return *folder() / "data"; }
  static std::string weights() { return *folder() / "dense/model.safetensors"; }
};

}  // namespace brim::tests
