// What a formula's kernel does on GPUs: compiled by nvcc where a .cu registers the formula
// (cuda_formula.h), and by NVRTC at run time where the formula carries its text. Device code alone.
#pragma once

#include <cstdint>

#include <brim/extend/cuda_number.h>
#include <brim/extend/cuda_walk.h>
#include <brim/extend/derivative.h>

namespace brim::extend::cuda {

///@{
/// y = f(inputs), element by element; threads share the elements.
template <class F, class T>
__device__ inline void compute(const F& f, const Walk<2>& walk, T* y, const T* x) {
  for (int64_t i = first_index(); i < walk.numel; i += grid_size()) {
    int64_t at[2];
    walk.offsets(i, at);
    y[at[0]] = narrow<T>(static_cast<Compute<T>>(f(widen(x[at[1]]))));
  }
}
template <class F, class T>
__device__ inline void compute(const F& f, const Walk<3>& walk, T* y, const T* a, const T* b) {
  for (int64_t i = first_index(); i < walk.numel; i += grid_size()) {
    int64_t at[3];
    walk.offsets(i, at);
    y[at[0]] = narrow<T>(static_cast<Compute<T>>(f(widen(a[at[1]]), widen(b[at[2]]))));
  }
}
///@}

}  // namespace brim::extend::cuda
