// Sizes and strides of a tensor: a short array that lives inside its owner, rank <= 8.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace brim {

inline constexpr int kMaxRank = 8;  ///< the most axes that a tensor has

/// A value of up to 8 integers; as a tensor's shape the sizes, as its strides the steps in
/// elements.
class Shape {
 public:
  Shape() = default;
  /// Sizes in order of the axes. Throws ShapeError for more than kMaxRank.
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);  ///< throws ShapeError beyond rank 8
  /// `rank` dimensions, all of size `value`.
  static Shape filled(int rank, int64_t value);

  int rank() const { return rank_; }         ///< number of axes
  bool empty() const { return rank_ == 0; }  ///< of rank 0, a single element
  ///@{
  /// Size of axis i in [0, rank), unchecked.
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  ///@}
  int64_t back() const { return dims_[rank_ - 1]; }  ///< size of the last axis; there must be one
  ///@{
  /// The sizes, in order.
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  int64_t* begin() { return dims_.data(); }
  int64_t* end() { return dims_.data() + rank_; }
  ///@}

  void push_back(int64_t dim);       ///< throws ShapeError beyond rank 8
  void insert(int at, int64_t dim);  ///< throws ShapeError beyond rank 8
  void erase(int at);                ///< takes axis `at` in [0, rank) out

  /// Product of all sizes; 1 for rank 0.
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  /// "(2, 3)"
  std::string str() const;

  /// Whether rank and all sizes are equal.
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

using Strides = Shape;  ///< How many elements lie between neighbours along each axis.

/// Row-major strides of `shape`.
Strides contiguous_strides(const Shape& shape);
/// The shape that `a` and `b` broadcast to (NumPy's rule). Throws ShapeError naming `op`.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);
/// Maps an axis in [-rank, rank) to [0, rank). Throws IndexError naming `op`.
int normalize_axis(int axis, int rank, const char* op);

}  // namespace brim
