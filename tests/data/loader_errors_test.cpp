// Samples that cannot be read, pictures that are not what they should be, and impossible options.
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <gtest/gtest.h>

#include <climits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/fake_source.h"

namespace brim::data {
namespace {

using namespace tests;

TEST(LoaderErrors, ErrorsComeInOrderAndEndTheEpoch) {
  const auto source = std::make_shared<FakeSource>(40, std::set<int64_t>{17, 30});
  for (const int workers : {0, 1, 3}) {
    const Loader loader(source, {}, {.batch = 4, .workers = workers, .shuffle = false});
    Epoch epoch = loader.epoch(0);
    for (int i = 0; i < 4; ++i) ASSERT_NE(epoch.next(), nullptr);
    EXPECT_EQ(message_of<FileError>([&] { epoch.next(); }), "fake 17: broken");
    EXPECT_EQ(epoch.next(), nullptr);
  }
}

TEST(LoaderErrors, SkipLeavesBrokenSamplesOutAndCounts) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{0, 4, 5, 6, 7, 9});
  Pass expected;
  for (const int workers : {0, 1, 3}) {
    const Loader loader(
        source, {}, {.batch = 4, .workers = workers, .shuffle = false, .on_error = OnError::skip});
    std::vector<int64_t> samples;
    std::vector<int64_t> indices;
    for (Batch& b : loader.epoch(0)) {
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
      indices.push_back(b.index);
      EXPECT_EQ(b.x.size(0), static_cast<int64_t>(b.samples.size()));
    }
    EXPECT_EQ(samples, (std::vector<int64_t>{1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(indices, (std::vector<int64_t>{0, 2}));  // all of batch 1 is broken
    EXPECT_EQ(loader.skipped(), 6);
  }
}

TEST(LoaderErrors, ReplacePutsTheNextSampleInPlaceOfABrokenOne) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{0, 4, 5, 6, 7, 9, 11});
  const std::vector<int64_t> expected = {1, 1, 2, 3, 8, 8, 8, 8, 8, 10, 10, 1};
  for (const int workers : {0, 1, 3}) {
    LoaderOptions options{
        .batch = 4, .workers = workers, .shuffle = false, .on_error = OnError::replace};
    const Loader loader(source, {}, options);
    const Pass whole = run_loader(loader, 0);
    std::vector<int64_t> samples;
    for (Batch& b : loader.epoch(1)) {
      EXPECT_EQ(b.x.size(0), 4);
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
    }
    EXPECT_EQ(samples, expected);
    EXPECT_EQ(loader.skipped(), 14);
    std::vector<int64_t> of_ranks(12);  // they have the same ones, each its part of a batch
    options.batch = 2, options.world_size = 2;
    int64_t replaced = 0;
    for (options.rank = 0; options.rank < 2; ++options.rank) {
      const Loader part(source, {}, options);
      for (Batch& b : part.epoch(1))
        for (int64_t i = 0; i < 2; ++i)
          of_ranks[static_cast<size_t>(4 * b.index + 2 * options.rank + i)] =
              b.samples[static_cast<size_t>(i)];
      replaced += part.skipped();
    }
    EXPECT_EQ(of_ranks, expected);
    EXPECT_EQ(replaced, 7);
  }
  const auto broken = std::make_shared<FakeSource>(3, std::set<int64_t>{0, 1, 2});
  EXPECT_THROW(run_loader(Loader(broken, {}, {.batch = 1, .on_error = OnError::replace}), 0),
               FileError);
}

/// Every other sample: the others are held out.
class EvenSamples final : public Sampler {
 public:
  explicit EvenSamples(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  int64_t sample(int64_t epoch, int64_t position) const override {
    return 2 * ((position + epoch) % size_);
  }

 private:
  int64_t size_;
};

TEST(LoaderErrors, ReplaceTakesWhatTheSamplerDraws) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{4, 6, 10});
  const std::vector<int64_t> expected = {2, 8, 8, 8, 0, 0};  // of 2, 4, 6, 8, 10, 0
  for (const int workers : {0, 2}) {
    LoaderOptions options{.batch = 4,
                          .workers = workers,
                          .on_error = OnError::replace,
                          .sampler = std::make_shared<EvenSamples>(6)};
    EXPECT_EQ(run_loader(Loader(source, {}, options), 1).samples, expected);
    std::vector<int64_t> of_ranks(6);
    options.batch = 2, options.world_size = 2;
    for (options.rank = 0; options.rank < 2; ++options.rank) {
      const Loader part(source, {}, options);
      for (Batch& b : part.epoch(1)) {
        const size_t n = b.samples.size(), first = static_cast<size_t>(4 * b.index);
        for (size_t i = 0; i < n; ++i)
          of_ranks[first + static_cast<size_t>(options.rank) * n + i] = b.samples[i];
      }
    }
    EXPECT_EQ(of_ranks, expected);
  }
  const auto broken = std::make_shared<FakeSource>(5, std::set<int64_t>{0, 2, 4});
  const Loader none(
      broken, {},
      {.batch = 3, .on_error = OnError::replace, .sampler = std::make_shared<EvenSamples>(3)});
  EXPECT_THROW(run_loader(none, 0), FileError);
}

TEST(LoaderErrors, AnotherSizeIsNamed) {
  const auto source = std::make_shared<FakeSource>(12);
  source->odd_one = 9;
  const Loader loader(source, {}, {.batch = 4, .workers = 1, .on_error = OnError::skip});
  const auto text = message_of<ShapeError>([&] { run_loader(loader, 0); });
  EXPECT_EQ(
      text,
      "fake 9: the picture is 3 x 5 x 7 but the batch holds 3 x 5 x 6; add a Resize or CenterCrop");
  run_loader(Loader(source, {.steps = {Resize{4, 4}}}, {.batch = 4}), 0);
}

TEST(LoaderErrors, PicturesThatAreNotWhatTheyDeclareAreNamed) {
  const auto source = std::make_shared<FakeSource>(12);
  const auto text = [&](const Transform& transform, const auto& change) {
    source->change = [&](int64_t i, Image& image) {
      if (i == 9) change(image);
    };
    const LoaderOptions options{.batch = 4, .workers = 1, .on_error = OnError::skip};
    return message_of<ShapeError>([&] { run_loader(Loader(source, transform, options), 0); });
  };
  for (const Transform& transform : {Transform{}, Transform{.steps = {Resize{4}}}, kAugment}) {
    for (const size_t bytes : {size_t{0}, size_t{89}, size_t{91}, size_t{1} << 20}) {
      EXPECT_EQ(text(transform, [&](Image& image) { image.pixels.resize(bytes); }),
                "fake 9: an Image of width 6, height 5 and 3 channels with " +
                    std::to_string(bytes) + " bytes of pixels; expected 90");
    }
    EXPECT_TRUE(has(text(transform, [](Image& image) { image.channels = 4; }), "expected 120"));
    EXPECT_TRUE(has(text(transform, [](Image& image) { image.width = 4096, image.height = 4096; }),
                    "expected 50331648"));
    EXPECT_TRUE(has(text(transform, [](Image& image) { image = {}; }), "fake 9: a picture of"));
    EXPECT_TRUE(has(text(transform, [](Image& image) { image.width = -6, image.height = -5; }),
                    "fake 9: a picture of width -6"));
  }
  Image image{8, 8, 3, std::vector<uint8_t>(100)};
  EXPECT_THROW((void)to_tensor(image), ShapeError);
}

TEST(LoaderErrors, BadOptionsSayWhatIsWrong) {
  const auto source = std::make_shared<FakeSource>(3);
  const auto text = [&](const LoaderOptions& o) {
    return message_of<ValueError>([&] { Loader(source, {}, o); });
  };
  EXPECT_EQ(text({.batch = 0}).rfind("[loader] batch 0", 0), 0u);
  EXPECT_EQ(text({.workers = -2}).rfind("[loader] workers -2", 0), 0u);
  EXPECT_EQ(text({.ahead = -2}).rfind("[loader] ahead -2", 0), 0u);
  EXPECT_EQ(text({.rank = 2, .world_size = 2}).rfind("[loader] rank 2", 0), 0u);
  EXPECT_EQ(
      text({.batch = 4, .drop_last = true}).rfind("[loader] 3 samples make no full batch of 4", 0),
      0u);
  EXPECT_THROW(Loader(std::shared_ptr<const Source>()), ValueError);
  EXPECT_THROW(Loader(std::make_shared<FakeSource>(2, std::set<int64_t>{0, 1})), FileError);
}

TEST(LoaderErrors, ClassesOfOneNameAreRefused) {
  const auto source = std::make_shared<FakeSource>(3);
  source->names = {"a", "b", "a"};
  EXPECT_EQ(message_of<ValueError>([&] { Loader{source}; }),
            "[loader] the source's classes: labels 0 and 2 both name their class 'a'; rename one, "
            "or give both the same label");
}

TEST(LoaderErrors, ShapesThatNoMemoryHoldsAreRefused) {
  const auto source = std::make_shared<FakeSource>(3);
  for (const auto& [height, width] : {std::pair{1 << 30, 1 << 30}, {INT_MAX, INT_MAX}, {8, -1}}) {
    source->shape = {3, height, width};
    for (const bool raw : {false, true})
      EXPECT_EQ(message_of<ShapeError>([&] { Loader(source, {}, {.raw = raw}); }),
                "[loader] batches of 3 pictures of " + std::to_string(width) + " x " +
                    std::to_string(height) +
                    " pixels fit no memory; is the shape that the source "
                    "tells right?");
  }
  source->shape = {};
  EXPECT_EQ(run_loader(Loader(source, {}, {.batch = INT64_MAX, .workers = 0}), 0).samples.size(),
            3u);
}

TEST(LoaderErrors, OblongPictureIsNamed) {
  const TemporaryFolder folder;
  write_bytes(folder / "a/wide.png", encode_png(gradient(200'000, 1, 3, 1), 200'000, 1, 3));
  const auto source = Source::open(folder.path(), Split::train);
  const auto text = message_of<FileError>(
      [&] { Loader(source, {.steps = {Resize{.height = 32}}}, {.workers = 0}); });
  EXPECT_NE(text.find("a/wide.png: resized to 6400000 x 32"), std::string::npos) << text;
}

}  // namespace
}  // namespace brim::data
