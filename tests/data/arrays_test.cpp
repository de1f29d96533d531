// Pictures and labels as arrays of a safetensors file.
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <brim/data/source.h>
#include <brim/io/safetensors.h>
#include <gtest/gtest.h>

#include <numeric>

#include "data/scratch.h"

namespace brim::data {
namespace {

using namespace tests;

// Bytes 0, 1, 2 ... of a shape.
Tensor counting(const Shape& shape) {
  Tensor t = Tensor::empty(shape, {.dtype = DType::u8});
  auto* bytes = static_cast<uint8_t*>(t.raw());
  std::iota(bytes, bytes + t.numel(), uint8_t{0});
  return t;
}

template <class T>
Tensor labels_of(DType dtype, const std::vector<T>& values) {
  Tensor t = Tensor::empty({static_cast<int64_t>(values.size())}, {.dtype = dtype});
  std::copy(values.begin(), values.end(), static_cast<T*>(t.raw()));
  return t;
}

class ArraysTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Source> open(const io::TensorMap& tensors, Split split = Split::train,
                                     const io::Metadata& metadata = {}) {
    io::save_safetensors(path, tensors, metadata);
    return Source::open(path, split);
  }
  std::string error_of(const io::TensorMap& tensors, const io::Metadata& metadata = {}) {
    return message_of<FileError>([&] { open(tensors, Split::train, metadata); });
  }
  TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  const Tensor two = labels_of<int64_t>(DType::i64, {1, 0});
};

TEST_F(ArraysTest, EveryLayoutIsRead) {
  const auto planes = open({{"images", counting({2, 3, 4, 5})}, {"labels", two}});
  EXPECT_TRUE(planes->in_memory());
  EXPECT_EQ(planes->image_shape(), (ImageShape{3, 4, 5}));
  EXPECT_EQ(planes->view(1).order, PixelOrder::chw);
  EXPECT_EQ(planes->view(1).at(2, 3, 4), 119);
  EXPECT_EQ(planes->classes(), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(planes->label(0), 1);
  EXPECT_EQ(planes->describe(1), path + ": images[1]");
  Image image;
  planes->read(1, image);
  EXPECT_EQ(ImageView(image).at(1, 2, 3), planes->view(1).at(1, 2, 3));

  const auto pixels =
      open({{"images", counting({2, 4, 5, 3})}, {"labels", labels_of<uint8_t>(DType::u8, {7, 2})}});
  EXPECT_EQ(pixels->view(0).order, PixelOrder::hwc);
  EXPECT_EQ(pixels->view(1).at(2, 3, 4), 119);
  EXPECT_EQ(pixels->classes().size(), 8u);

  for (const Shape& shape : {Shape{2, 4, 5}, Shape{2, 1, 4, 5}, Shape{2, 4, 5, 1}}) {
    const auto grey =
        open({{"images", counting(shape)}, {"labels", labels_of<int32_t>(DType::i32, {0, 1})}});
    EXPECT_FALSE(grey->in_memory());
    EXPECT_EQ(grey->image_shape(), (ImageShape{3, 4, 5}));
    grey->read(1, image);
    for (int c = 0; c < 3; ++c) EXPECT_EQ(ImageView(image).at(c, 3, 4), 39);
  }
}

TEST_F(ArraysTest, SplitsAndClassNames) {
  const io::TensorMap both = {{"train_images", counting({2, 3, 4, 4})},
                              {"train_labels", two},
                              {"test_images", counting({3, 3, 4, 4})},
                              {"test_labels", labels_of<uint8_t>(DType::u8, {0, 2, 1})}};
  const io::Metadata names = {{"classes", "cat\ndog\nfox\nowl"}};
  EXPECT_EQ(open(both, Split::train, names)->size(), 2);
  const auto test = open(both, Split::test, names);
  EXPECT_EQ(test->size(), 3);
  EXPECT_EQ(test->label(1), 2);
  EXPECT_EQ(test->classes(), (std::vector<std::string>{"cat", "dog", "fox", "owl"}));
  const auto all = open(both, Split::all);
  EXPECT_EQ(all->size(), 5);
  EXPECT_EQ(all->label(3), 2);
  EXPECT_EQ(all->classes().size(), 3u);
  EXPECT_EQ(open(both, Split::train)->classes().size(), 3u);  // a label means the same in each
  io::save_safetensors(path, {{"images", counting({2, 3, 4, 4})}, {"labels", two}});
  EXPECT_THROW(Source::open(path, Split::test), NoSuchSplit);
  EXPECT_EQ(Source::open(path, Split::all)->size(), 2);
}

TEST_F(ArraysTest, AnyNameWillDo) {
  io::save_safetensors(folder / "arrays.dat",
                       {{"images", counting({2, 3, 4, 4})}, {"labels", two}});
  EXPECT_EQ(Source::open(folder / "arrays.dat", Split::train)->size(), 2);
}

TEST_F(ArraysTest, TheLoaderTakesThem) {
  const Loader loader(open({{"images", counting({2, 4, 5, 3})}, {"labels", two}}), {},
                      {.batch = 2, .workers = 2, .shuffle = false});
  Epoch epoch = loader.epoch(0);
  const Batch* batch = epoch.next();
  EXPECT_EQ(batch->x.shape(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(batch->x.to_vector<float>()[119], (119 / 255.0f - 0.5f) / 0.5f);
}

TEST_F(ArraysTest, WhatDoesNotFitSaysSo) {
  const Tensor images = counting({2, 3, 4, 4});
  EXPECT_NE(error_of({{"weights", two}}).find("no pictures among its 1 arrays"), std::string::npos);
  EXPECT_NE(error_of({{"images", images}}).find("has no labels"), std::string::npos);
  EXPECT_NE(error_of({{"train_labels", two}, {"test_images", images}}).find("has no train_images"),
            std::string::npos);
  EXPECT_NE(error_of({{"images", two}, {"labels", two}}).find("images: is I64"), std::string::npos);
  EXPECT_NE(error_of({{"images", images}, {"labels", images}}).find("labels is U8 of shape"),
            std::string::npos);
  const Tensor three = labels_of<uint8_t>(DType::u8, {0, 1, 2});
  EXPECT_NE(error_of({{"images", images}, {"labels", three}}).find("2 pictures but labels has 3"),
            std::string::npos);
  for (const Shape& shape :
       {Shape{2, 4}, Shape{2, 4, 4, 2}, Shape{2, 3, 0, 4}, Shape{2, 2, 4, 4, 3}})
    EXPECT_NE(error_of({{"images", counting(shape)}, {"labels", two}}).find("has shape"),
              std::string::npos);
  const Tensor negative = labels_of<int64_t>(DType::i64, {0, -1});
  EXPECT_NE(error_of({{"images", images}, {"labels", negative}}).find("labels[1] is -1"),
            std::string::npos);
  const Tensor huge = labels_of<int64_t>(DType::i64, {0, int64_t{1} << 40});
  EXPECT_NE(error_of({{"images", images}, {"labels", huge}}).find("expected 0 to 99999"),
            std::string::npos);
  EXPECT_NE(error_of({{"images", images}, {"labels", two}}, {{"classes", "cat"}})
                .find("names 1 classes, but there is a label 1"),
            std::string::npos);
  const io::TensorMap good = {{"images", images}, {"labels", two}};
  EXPECT_NE(error_of(good, {{"classes", "cat\ndog\ncat"}})
                .find("labels 0 and 2 both name their class 'cat'; rename one"),
            std::string::npos);
  EXPECT_NE(error_of(good, {{"classes", "cat\n\ndog"}}).find("label 1 has an empty name; name it"),
            std::string::npos);
  write_bytes(path, {1, 2, 3});
  EXPECT_THROW(Source::open(path, Split::train), FileError);
}

}  // namespace
}  // namespace brim::data
