// What the poolings share: one thread for each element of the result, in the order of its memory.
#pragma once

#include <brim/core/tensor.h>

#include "backend/cuda/divisor.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/number.cuh"
#include "backend/geometry.h"

namespace brim::cuda {

/// Images (n, c, y, x) by their strides, in elements.
template <class T>
struct Images {
  T* data;
  int64_t n, c, y, x;

  explicit Images(const Tensor& t)
      : data(static_cast<T*>(t.raw())),
        n(t.strides()[0]),
        c(t.strides()[1]),
        y(t.strides()[2]),
        x(t.strides()[3]) {}
  __device__ T& at(int64_t in, int64_t ic, int64_t iy, int64_t ix) const {
    return data[in * n + ic * c + iy * y + ix * x];
  }
};

struct PlaceInImages {
  int64_t n, c, y, x;
};

/// Elements of images in an order in which neighbours are neighbours in memory.
struct Walk {
  int64_t count;
  CountDivisor channels, height, width;
  bool channels_last;

  explicit Walk(const Tensor& t)
      : count(t.numel()),
        channels(t.shape()[1], count),
        height(t.shape()[2], count),
        width(t.shape()[3], count),
        channels_last(t.strides()[1] < t.strides()[3]) {}

  __device__ PlaceInImages operator()(int64_t i) const {
    int64_t c = 0;
    if (channels_last) c = next(channels, i);
    const int64_t x = next(width, i), y = next(height, i);
    if (!channels_last) c = next(channels, i);
    return {i, c, y, x};
  }

 private:
  /// What is left of i, which becomes its quotient.
  __device__ static int64_t next(const CountDivisor& by, int64_t& i) {
    const int64_t quotient = by.quotient(i), rest = by.rest(i, quotient);
    i = quotient;
    return rest;
  }
};

/// A range of indices.
struct Range {
  int64_t begin, end;
};

__device__ inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
__device__ inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Calls f(place) for each element of `walk`.
template <class F>
__global__ void for_each_kernel(Walk walk, F f) {
  for (int64_t i = first_index(); i < walk.count; i += grid_size()) f(walk(i));
}
template <class F>
void for_each_element(const Context& context, const Tensor& of, const F& f) {
  if (of.numel() == 0) return;
  launch(context, &for_each_kernel<F>, grid_for(of.numel()), Walk(of), f);
}

}  // namespace brim::cuda
