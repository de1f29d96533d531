// What the poolings share. A thread makes one element of the result, or, in nhwc, as many channels
// of a pixel as 16 bytes hold; threads come in the order of the result's memory. Positions are
// counted in 32 bits wherever the tensors and windows allow it, and divided by multiplying.
#pragma once

#include <brim/core/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "backend/cuda/device/divisor.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/number.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/options/geometry.h"

namespace brim::cuda {

/// Images (n, c, y, x) by their strides, in elements.
template <class T, class Index>
struct Images {
  T* data;
  Index n, c, y, x;

  explicit Images(const Tensor& t)
      : data(static_cast<T*>(t.raw())),
        n(static_cast<Index>(t.strides()[0])),
        c(static_cast<Index>(t.strides()[1])),
        y(static_cast<Index>(t.strides()[2])),
        x(static_cast<Index>(t.strides()[3])) {}
  /// The first element of a channel of an image.
  __device__ T* plane(Index image, Index channel) const { return data + (image * n + channel * c); }
  __device__ T* at(Index image, Index channel, Index row, Index column) const {
    return data + (image * n + channel * c + row * y + column * x);
  }
};

template <class Index>
struct PlaceInImages {
  Index n, c, y, x;
};

/// Elements of images, or packs of `width` channels, in an order in which neighbours are neighbours
/// in memory.
template <class Index>
struct Walk {
  int64_t count;
  int width;
  bool channels_last;
  DivideBy<Index> packs, rows, columns;

  Walk(const Tensor& t, int pack_width)
      : count(t.numel() / pack_width),
        width(pack_width),
        channels_last(width > 1 || t.strides()[1] < t.strides()[3]),
        packs(t.shape()[1] / width),
        rows(t.shape()[2]),
        columns(t.shape()[3]) {}

  __device__ PlaceInImages<Index> operator()(Index i) const {
    Index c = 0;
    if (channels_last) c = next(packs, i) * width;
    const Index x = next(columns, i), y = next(rows, i);
    if (!channels_last) c = next(packs, i);
    return {i, c, y, x};
  }

 private:
  /// What is left of i, which becomes its quotient.
  __device__ static Index next(const DivideBy<Index>& by, Index& i) {
    const Split<Index> split(i, by);
    i = split.quotient;
    return split.rest;
  }
};

/// A range of indices.
template <class Index>
struct Range {
  Index begin, end;
};

template <class Index>
__device__ Index larger(Index a, Index b) {
  return a > b ? a : b;
}
template <class Index>
__device__ Index smaller(Index a, Index b) {
  return a < b ? a : b;
}

/// One axis of a pooling: `out` windows over `in` elements, one each `stride`. A window's elements
/// are `dilation` apart, the last of them `reach` behind its first.
template <class Index>
struct Windows {
  Index in, out, stride, padding, dilation, reach;
  DivideBy<Index> by_stride, by_dilation;

  Windows(int64_t in_size, int64_t out_size, int64_t kernel, int64_t step, int64_t pad,
          int64_t spread)
      : in(static_cast<Index>(in_size)),
        out(static_cast<Index>(out_size)),
        stride(static_cast<Index>(step)),
        padding(static_cast<Index>(pad)),
        dilation(static_cast<Index>(spread)),
        reach(static_cast<Index>((kernel - 1) * spread)),
        by_stride(step),
        by_dilation(spread) {}

  /// The elements of window o, each `dilation`; those that are padding are left out.
  __device__ Range<Index> elements(Index o) const {
    Index begin = o * stride - padding;
    const Index end = smaller(begin + reach + 1, in);
    if (begin < 0) begin += by_dilation.quotient(dilation - 1 - begin) * dilation;
    return {begin, end};
  }
  /// Element i of window o, by its index there, and the other way round.
  __device__ Index element(Index o, Index index) const {
    return o * stride - padding + index * dilation;
  }
  __device__ Index index(Index o, Index i) const {
    return by_dilation.quotient(i + padding - o * stride);
  }
  /// Whether element i lies in a gap of window o, which reaches over it.
  __device__ bool skips(Index o, Index i) const {
    return dilation > 1 && element(o, index(o, i)) != i;
  }
  /// The windows that reach over element i. Of a dilated one it may lie in a gap.
  __device__ Range<Index> over(Index i) const {
    const Index past = i + padding - reach - 1;  // windows that begin here end before i
    return {past < 0 ? 0 : by_stride.quotient(past) + 1,
            smaller(by_stride.quotient(i + padding) + 1, out)};
  }
};

/// Whether positions of such windows can be counted in 32 bits.
inline bool windows_fit_32_bits(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                                int64_t dilation) {
  for (const int64_t n : {in, kernel, stride, padding, dilation})
    if (n > kMaxIn32Bits) return false;
  return in + 2 * padding + stride + kernel * dilation <= kMaxIn32Bits;
}
inline bool windows_fit_32_bits(const backend::PoolGeometry& g) {
  return windows_fit_32_bits(g.h, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h) &&
         windows_fit_32_bits(g.w, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w);
}

/// `Width` neighbours in memory.
template <int Width, class T>
__device__ Pack<std::remove_const_t<T>, Width> load(const T* at) {
  return *reinterpret_cast<const Pack<std::remove_const_t<T>, Width>*>(at);
}
template <int Width, class T>
__device__ void store(T* at, const Pack<T, Width>& pack) {
  *reinterpret_cast<Pack<T, Width>*>(at) = pack;
}

/// Blocks that a multiprocessor should hold at once; 0: as the compiler thinks best, which spills
/// registers around the divisions of means.
template <class F>
constexpr int blocks_at_once() {
  if constexpr (requires { F::kBlocksAtOnce; })
    return F::kBlocksAtOnce;
  else
    return 0;
}

/// Calls f(place) for each element, or pack, of `walk`.
template <class Index, class F>
__global__ void __launch_bounds__(kThreads, blocks_at_once<F>())
    for_each_kernel(Walk<Index> walk, F f) {
  begin_kernel();
  for (int64_t i = first_index(); i < walk.count; i += grid_size()) f(walk(static_cast<Index>(i)));
}

/// Queues make<Index, Width>(), a function of places, for all of `result`: Width channels at a time
/// where all of `operands` allow it. `fits`: whether what is counted besides their elements fits 32
/// bits.
template <class T, class Make>
void for_each_pack(const Context& context, const Tensor& result,
                   std::initializer_list<const Tensor*> operands, bool fits, const Make& make) {
  if (result.numel() == 0) return;
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  bool small = fits, packs = result.shape()[1] % kWidth == 0;
  for (const Tensor* t : operands) {
    const Shape& size = t->shape();
    const Strides& stride = t->strides();
    small = small && fits_32_bits({size[0], size[1], size[2], size[3]},
                                  {stride[0], stride[1], stride[2], stride[3]});
    packs = packs && t->is_contiguous(MemoryFormat::nhwc) &&
            is_aligned(t->raw(), kWidth * size_of(t->dtype()));
  }
  const auto run = [&]<class Index, int Width>() {
    const auto f = make.template operator()<Index, Width>();
    const Walk<Index> walk(result, Width);
    launch(context, &for_each_kernel<Index, decltype(f)>, grid_for(walk.count), walk, f);
  };
  if (small)
    packs ? run.template operator()<int32_t, kWidth>() : run.template operator()<int32_t, 1>();
  else
    packs ? run.template operator()<int64_t, kWidth>() : run.template operator()<int64_t, 1>();
}

}  // namespace brim::cuda
