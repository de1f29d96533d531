// include/brim_rt.hpp over fake_runtime.cpp.
#include <gtest/gtest.h>
#include <brim_rt.hpp>

#include <array>
#include <thread>
#include <type_traits>

extern "C" int fake_open_handles();

namespace brim::tests {
namespace {

alignas(64) constexpr char kGood[] = "fake engine 0";
alignas(64) constexpr char kWrong[] = "fake engine 9";
alignas(64) constexpr char kDamaged[] = "something else";

template <class Function>
brim_rt_code code_of(Function function, std::string* message = nullptr) {
  try {
    function();
  } catch (const brim_rt::Error& error) {
    if (message) *message = error.what();
    return error.code();
  }
  return BRIM_RT_OK;
}

class RtHpp : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(fake_open_handles(), 0); }
};

TEST_F(RtHpp, Runs) {
  const brim_rt::Model model(kGood, sizeof kGood);
  brim_rt::Session session(model);
  const std::array<float, 3> x = {1, 2, 3};
  std::array<float, 3> y = {};
  session.run({x.data()}, {y.data()});
  EXPECT_EQ(y, (std::array<float, 3>{2, 4, 6}));
  std::string message;
  EXPECT_EQ(code_of(
                [&] {
                  session.run({x.data(), x.data()}, {y.data()});
                },
                &message),
            BRIM_RT_INVALID_ARGUMENT);
  EXPECT_EQ(message, "the model has 1 inputs and 1 outputs, and was given 2 and 1");
}

TEST_F(RtHpp, Describes) {
  const brim_rt::Model model(kGood, sizeof kGood);
  EXPECT_EQ(model.batches(), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"cat", "dog", "한국어"}));
  EXPECT_EQ(model.label(1) + model.label(3), "dog3");
  EXPECT_EQ(model.metadata("model"), "doubler");
  EXPECT_FALSE(model.metadata("mean").has_value());
  brim_rt_session_options options{};
  options.batch = 4;
  options.isa = "avx2";
  brim_rt::Session session(model, options);
  ASSERT_EQ(session.inputs().size(), 1U);
  EXPECT_STREQ(session.outputs().at(0).name, "doubled");
  EXPECT_EQ(session.inputs()[0].shape[0], 4);
  EXPECT_EQ(session.isa(), "avx2");
  EXPECT_EQ(session.memory(), 4096U);
  EXPECT_EQ(session.steps(), (std::vector<std::string>{"double, of layer", "", "end"}));
  EXPECT_DOUBLE_EQ(session.verify(), 1e-7);
}

TEST_F(RtHpp, ThrowsWhatTheLibraryReports) {
  EXPECT_EQ(code_of([] { brim_rt::Model("/nowhere"); }), BRIM_RT_FILE);
  EXPECT_EQ(code_of([] { brim_rt::Model(kDamaged, sizeof kDamaged); }), BRIM_RT_DAMAGED);
  const brim_rt::Model model(kWrong, sizeof kWrong);
  brim_rt_session_options options{};
  options.batch = 3;
  std::string message;
  EXPECT_EQ(code_of([&] { brim_rt::Session(model, options); }, &message), BRIM_RT_INVALID_ARGUMENT);
  EXPECT_EQ(message, "batch: 1 or 4");
  brim_rt::Session session(model);
  EXPECT_EQ(code_of([&] { session.verify(); }), BRIM_RT_NOT_EQUAL);
  std::thread([&] { session.cancel(); }).join();
  const float x[3] = {};
  float y[3];
  EXPECT_EQ(code_of([&] { session.run({x}, {y}); }), BRIM_RT_CANCELLED);
}

TEST_F(RtHpp, MovesHandles) {
  static_assert(!std::is_copy_constructible_v<brim_rt::Model>);
  static_assert(!std::is_copy_constructible_v<brim_rt::Session>);
  brim_rt::Model first(kGood, sizeof kGood), second(kWrong, sizeof kWrong);
  second = std::move(first);
  brim_rt::Session session(second), other(second);
  brim_rt::Session moved(std::move(session));
  other = std::move(moved);
  EXPECT_EQ(other.verify(), 1e-7);
}

}  // namespace
}  // namespace brim::tests
