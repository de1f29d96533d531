// The stored draws, in every mode that is here: needs neither Python nor PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "differential/draw.h"
#include "public_ops.h"

namespace brim::differential {
namespace {

const std::vector<Draw>& stored_draws() {
  static const std::vector<Draw> draws =
      read_draws(tests::source_folder() / "tests/differential/stored.safetensors");
  return draws;
}

void check(const std::string& mode) {
  const std::vector<std::string> here = modes();
  if (std::find(here.begin(), here.end(), mode) == here.end()) GTEST_SKIP() << "no such device";
  ASSERT_GE(stored_draws().size(), 2000u);
  for (const Draw& draw : stored_draws())
    for (const Mismatch& m : run(draw, mode))
      ADD_FAILURE() << "draw " << draw.id << ", " << draw.op << " " << draw.attrs.dump() << ", "
                    << m.what << ": " << m.text;
}

TEST(StoredDraws, HaveEveryOp) {
  // What has no values to compare, draws random numbers, is another name of one that is there, or
  // has no twin in PyTorch.
  const std::set<std::string> left_out = {"bernoulli",
                                          "empty",
                                          "multinomial",
                                          "empty_like",
                                          "rand",
                                          "rand_like",
                                          "randint",
                                          "randn",
                                          "randn_like",
                                          "randperm",
                                          "swapaxes",
                                          "sparse_conv2d",
                                          "sparse_linear",
                                          "int8_linear",
                                          "int8_conv2d",
                                          "quantize",
                                          "dequantize",
                                          "fake_quantize",
                                          "fake_quantize_weight",
                                          "sparse_int8_linear",
                                          "sparse_int8_conv2d"};
  std::set<std::string> drawn;
  for (const Draw& draw : stored_draws()) drawn.insert(draw.op);
  for (const std::string& name : tests::public_ops())
    EXPECT_EQ(drawn.count(name) + left_out.count(name), 1u) << name;
  for (const auto& [name, function] : tests::op_table()) EXPECT_EQ(drawn.count(name), 1u) << name;
}

/// Whether there is an element that may not be anything.
bool compares(const Expected& e) {
  if (e.tolerance.empty()) return e.shape.numel() > 0;
  return std::any_of(e.tolerance.begin(), e.tolerance.end(),
                     [](double tolerance) { return std::isfinite(tolerance); });
}

TEST(StoredDraws, CompareGradientsOfEveryOp) {
  std::set<std::string> differentiated;
  std::map<std::string, std::set<char>> compared;  // op: 'g' and 'h', see Expected::name
  for (const Draw& draw : stored_draws()) {
    if (draw.order > 0) differentiated.insert(draw.op);
    for (const Expected& e : draw.expected)
      if (compares(e)) compared[draw.op].insert(e.name[0]);
  }
  for (const std::string& op : differentiated) {
    EXPECT_TRUE(compared[op].contains('g')) << op << ": any gradient would pass";
    EXPECT_TRUE(compared[op].contains('h')) << op << ": any second gradient would pass";
  }
}

TEST(StoredDraws, Eager) { check("eager"); }
TEST(StoredDraws, Compiled) { check("compiled"); }
TEST(StoredDraws, Sim) { check("sim"); }
TEST(StoredDraws, SimCompiled) { check("sim_compiled"); }
TEST(StoredDraws, Cuda) { check("cuda"); }
TEST(StoredDraws, CudaCompiled) { check("cuda_compiled"); }

}  // namespace
}  // namespace brim::differential
