// See operands.h.
#include "bench/command/sweep/operands.h"

#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <cmath>

namespace brim::command {
namespace {

constexpr int64_t kMaxSide = 32;

int64_t root(int64_t n) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(static_cast<double>(n))));
}

/// 1000 of "rows-1000"; "columns" and "column" are those of a table 256 wide.
int64_t width_of(const std::string& layout) {
  const size_t dash = layout.rfind('-');
  return dash == std::string::npos ? 256 : std::stoll(layout.substr(dash + 1));
}

}  // namespace

Tensor values(const Shape& shape, DType dtype, Values kind) {
  if (dtype == bool_) return randint(0, 2, shape).to(bool_);
  if (is_integral(dtype)) return randint(0, 100, shape).to(dtype);
  switch (kind) {
    case Values::normal:
      return randn(shape).to(dtype);
    case Values::positive:
      return (rand(shape) + 0.05).to(dtype);
    case Values::near_one:
      return (rand(shape) * 1e-3 + 0.9995).to(dtype);
  }
  return {};
}

int64_t channels_for(int64_t elements) { return elements < 100'000 ? 16 : 64; }

Shape image_shape(int64_t elements, int64_t channels) {
  int64_t side = std::min(kMaxSide, root(elements / channels));
  if (side > 4) side -= side % 4;
  return {std::max<int64_t>(1, elements / (channels * side * side)), channels, side, side};
}

bool is_nhwc(const std::string& layout) { return layout.ends_with("nhwc"); }

Shape operand_shape(const std::string& layout, int64_t n) {
  if (layout == "dense" || layout == "strided" || layout == "all") return {n};
  if (layout == "transposed") return {root(n), n / root(n)};
  if (layout.ends_with("nchw") || is_nhwc(layout)) return image_shape(n, channels_for(n));
  const int64_t width = width_of(layout);
  return {std::max<int64_t>(1, n / width), width};
}

Tensor in_format(const Tensor& x, const std::string& layout) {
  return is_nhwc(layout) ? x.to(MemoryFormat::nhwc) : x;
}

Tensor operand(const SweepCase& c, Values kind) {
  const Shape shape = operand_shape(c.layout, c.elements);
  if (c.layout == "strided")
    return values({2 * shape[0]}, c.dtype, kind).slice(0, 0, 2 * shape[0], 2);
  if (c.layout == "transposed") return values({shape[1], shape[0]}, c.dtype, kind).t();
  return in_format(values(shape, c.dtype, kind), c.layout);
}

Tensor hashed(const Shape& shape, int64_t bound) {
  std::vector<int64_t> numbers(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < numbers.size(); ++i)  // Knuth's multiplicative hash
    numbers[i] = static_cast<int64_t>((i * 2654435761U) % (uint64_t{1} << 32) >> 7U) % bound;
  return Tensor::from(numbers, shape);
}

void add_with_training(std::vector<SweepOp>& ops, const std::string& name, const char* family,
                       const std::vector<std::string>& layouts, const MakeEither& make) {
  ops.push_back(
      {name, family, layouts, kFloats, [make](const SweepCase& c) { return make(c, false); }});
  ops.push_back({name + "-train", "train", layouts, kFloats,
                 [make](const SweepCase& c) { return make(c, true); }});
}

}  // namespace brim::command
