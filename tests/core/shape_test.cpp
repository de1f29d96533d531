// Shape: a short array, strides, broadcasting, axes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <brim/core/error.h>
#include <brim/core/shape.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

TEST(Shape, IsAShortArray) {
  Shape s = {2, 3};
  EXPECT_EQ(s.rank(), 2);
  EXPECT_EQ(s.numel(), 6);
  EXPECT_EQ(s.str(), "(2, 3)");
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().str(), "()");
  EXPECT_TRUE(Shape().empty());
  s.insert(0, 5);
  s.push_back(7);
  EXPECT_EQ(s, (Shape{5, 2, 3, 7}));
  EXPECT_EQ(s.back(), 7);
  s.erase(1);
  EXPECT_EQ(s, (Shape{5, 3, 7}));
  EXPECT_NE(s, (Shape{5, 3}));
  EXPECT_NE(s, (Shape{5, 3, 8}));
  EXPECT_EQ((Shape{3, 0, 2}).numel(), 0);
  EXPECT_EQ(Shape::filled(3, 4), (Shape{4, 4, 4}));
  EXPECT_EQ(std::vector<int64_t>(s.begin(), s.end()), (std::vector<int64_t>{5, 3, 7}));
}

TEST(Shape, RankIsLimited) {
  Shape s = Shape::filled(kMaxRank, 1);
  EXPECT_THROW(s.push_back(1), ShapeError);
  EXPECT_THROW(s.insert(0, 1), ShapeError);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
  EXPECT_EQ(message_of([&] { s.push_back(1); }), "[shape] rank 9 is above the limit of 8");
}

TEST(Shape, ContiguousStrides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Strides{4, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), (Strides{}));
}

TEST(Shape, Broadcasting) {
  EXPECT_EQ(broadcast_shapes({2, 3}, {3}, "op"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes({3, 1}, {2, 1, 4}, "op"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {5}, "op"), (Shape{5}));
  EXPECT_EQ(broadcast_shapes({0, 3}, {1, 1}, "op"), (Shape{0, 3}));
  EXPECT_EQ(broadcast_shapes({1}, {0}, "op"), (Shape{0}));
  EXPECT_EQ(message_of([] {
              broadcast_shapes({2, 3}, {4, 2, 5}, "add");
            }),
            "[add] shapes (2, 3) and (4, 2, 5) do not broadcast: sizes 3 and 5 differ in axis 2");
  EXPECT_EQ(message_of([] {
              broadcast_shapes({4, 2, 5}, {2, 3}, "add");
            }),
            "[add] shapes (4, 2, 5) and (2, 3) do not broadcast: sizes 5 and 3 differ in axis 2");
  EXPECT_THROW(broadcast_shapes({0}, {2}, "op"), ShapeError);
}

TEST(Shape, Axes) {
  EXPECT_EQ(normalize_axis(-1, 3, "op"), 2);
  EXPECT_EQ(normalize_axis(2, 3, "op"), 2);
  EXPECT_EQ(message_of([] { normalize_axis(3, 3, "sum"); }),
            "[sum] axis 3 is out of range for rank 3");
  EXPECT_THROW(normalize_axis(-4, 3, "op"), IndexError);
  EXPECT_THROW(normalize_axis(0, 0, "op"), IndexError);
}

}  // namespace
}  // namespace brim
