// States of iterable data sets: what they hold, which one is told, and which ones are refused.
#include <brim/data/iterable.h>

#include <gtest/gtest.h>

#include <algorithm>

#include "data/iterable/state_bytes.h"
#include "data/iterables.h"
#include "message_of.h"

namespace brim::data {
namespace {

using namespace brim::tests;

TEST(IterableState, HoldsTheBufferAndNoMoreThanThat) {
  const Loader loader(shuffled(walk(10'000), 100), options_of(1));
  Epoch epoch = loader.epoch(0);
  size_t largest = 0;
  for (int k = 0; k < 200; ++k) {
    ASSERT_NE(epoch.next(), nullptr);
    largest = std::max(largest, epoch.state().size());
  }
  EXPECT_GT(largest, 100U * 20);   // "x" and "y" of each
  EXPECT_LT(largest, 100U * 250);  // and their names and shapes
}

TEST(IterableState, OfAPlaceIsTheNewest) {
  struct Growing final : IterableDataset {  // each pass goes on where the one before was
    void begin(int64_t) override {}
    bool next(Sample& out) override {
      out.set("y", at++);
      return true;
    }
    std::string state() const override { return std::to_string(at); }
    void load_state(const std::string& state) override { at = std::stoll(state); }
    int64_t at = 0;
  };
  const Loader loader(std::make_shared<Growing>(), options_of(0));
  const auto behind_a_batch = [&] {
    Epoch epoch = loader.epoch(0);
    EXPECT_NE(epoch.next(), nullptr);
    return epoch.state();
  };
  const std::string first = behind_a_batch(), second = behind_a_batch();
  EXPECT_NE(first, second);
  EXPECT_EQ(loader.state(0, 1), second);
  loader.load_state(first);
  EXPECT_EQ(loader.state(0, 1), first);
  EXPECT_EQ(loader.epoch(0, 1).next()->y.to_vector<int64_t>(), range(4, 4));
}

TEST(IterableState, OfADamagedOneIsRefused) {
  const auto make = [] { return Loader(noisy(shuffled(take(walk(), 40), 5)), options_of(0)); };
  Epoch epoch = make().epoch(0);
  for (int k = 0; k < 2; ++k) ASSERT_NE(epoch.next(), nullptr);
  const std::string state = epoch.state();
  for (size_t length = 0; length < state.size(); ++length)
    EXPECT_THROW((void)make().epoch(0, state.substr(0, length)), ValueError) << length;
  EXPECT_THROW((void)make().epoch(0, state + "x"), ValueError);
  for (size_t at = 0; at < state.size(); ++at) {
    std::string other = state;
    other[at] = static_cast<char>(other[at] ^ 0x40);
    try {
      Epoch goes_on = make().epoch(0, other);
      for (int k = 0; k < 3; ++k) (void)goes_on.next();
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(message_of<ValueError>([&] { (void)make().epoch(1, state); }),
            "[loader] epoch 1 from a state of epoch 0; ask for that");
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)Loader(shuffled(take(walk(), 40), 6), options_of(0)).epoch(0, state);
            }),
            "[data] the state is of 'shuffled' whose buffer was 5, and now it is 6; build the "
            "data set as it was");
  EXPECT_NE(message_of<ValueError>([&] {
              (void)Loader(shuffled(take(walk(), 40), 5, 9), options_of(0)).epoch(0, state);
            }).find("another seed"),
            std::string::npos);
  EXPECT_EQ(message_of<ValueError>(
                [&] { (void)Loader(take(walk(), 40), options_of(0)).epoch(0, state); }),
            "[data] a state of 'shuffled', where 'take' is now; build the data set as it was");
  EXPECT_NE(message_of<ValueError>([&] {
              (void)Loader(shuffled(take(walk(), 40), 5), options_of(0, 5)).epoch(0, state);
            }).find("whose batch was 4, and now it is 5"),
            std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] {
              (void)Loader(table(), {.batch = 4}).epoch(0, state);
            }).find("of an iterable data set"),
            std::string::npos);
}

TEST(IterableState, WhoseNumbersContradictEachOtherIsRefused) {
  const auto state_of = [](int64_t batch, int64_t samples, int64_t ended, int64_t taken = 4) {
    StateWriter of_take("take"), of_epoch("epoch");
    of_take.number(40).number(taken).text("4");
    of_epoch.number(4).text("0").number(0).number(batch).number(1);
    of_epoch.number(4).text(of_take.take()).number(samples).number(ended).number(0);
    return of_epoch.take();
  };
  const auto told = [](const std::string& state) {
    const Loader loader(take(walk(), 40), options_of(0));
    return message_of<ValueError>([&] { (void)loader.epoch(0, state); });
  };
  EXPECT_EQ(told(state_of(1, 4, 0)), "no error");
  EXPECT_EQ(told(state_of(2, 5, 1)), "no error");  // the last batch has one sample
  EXPECT_NE(told(state_of(2, 5, 0)).find("a state of 5 samples before batch 2"), std::string::npos);
  EXPECT_NE(told(state_of(1, 5, 1)).find("a state of 5 samples before batch 1"), std::string::npos);
  EXPECT_NE(told(state_of(INT64_MAX / 3, 4, 1)).find("damaged"), std::string::npos);
  EXPECT_NE(told(state_of(INT64_MAX / 2 + 1, 4, 1)).find("a damaged one"), std::string::npos);
  EXPECT_NE(told(state_of(1, 4, 0, 41)).find("behind sample 41 of the first 40"),
            std::string::npos);
}

TEST(IterableState, OfMoreSamplesThanThereAreIsRefused) {
  struct Large final : IterableDataset {  // whose state is not asked for at each batch
    explicit Large(int64_t samples) : size(samples) {}
    void begin(int64_t) override { at = 0; }
    bool next(Sample& out) override {
      if (at == size) return false;
      out.set("y", at++);
      return true;
    }
    std::string state() const override { return std::to_string(at) + std::string(100'000, ' '); }
    void load_state(const std::string& state) override { at = std::stoll(state); }
    std::string describe() const override { return "large"; }
    const int64_t size;
    int64_t at = 0;
  };
  Epoch epoch = Loader(std::make_shared<Large>(40), options_of(1)).epoch(0);
  for (int k = 0; k < 3; ++k) ASSERT_NE(epoch.next(), nullptr);
  const std::string state = epoch.state();
  const Loader longer(std::make_shared<Large>(41), options_of(1));
  EXPECT_EQ(longer.epoch(0, state).next()->y.to_vector<int64_t>(), range(4, 12));
  EXPECT_EQ(message_of<ValueError>(
                [&] { (void)Loader(std::make_shared<Large>(9), options_of(1)).epoch(0, state); }),
            "[loader] the state is of 12 samples, and large ends after 9; give the data that it "
            "was of");
}

}  // namespace
}  // namespace brim::data
