// Norms, limits and factors over lists of tensors, for gradient clipping and means over ranks: many
// row-major tensors in a launch. Norms of 16 bits are f32.
#include <cmath>
#include <span>

#include "backend/cuda/elementwise/list.cuh"
#include "backend/cuda/reduce/reduce.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// How values and parts of a p-norm are put together.
struct Power {
  double p;

  __device__ bool is_largest() const { return std::isinf(p); }
  __device__ double term(double v) const {
    const double a = std::fabs(v);
    return p == 2 ? v * v : p == 1 || is_largest() ? a : std::pow(a, p);
  }
  __device__ double joined(double a, double b) const {
    if (!is_largest()) return a + b;
    return b > a || b != b ? b : a;  // a NaN stays
  }
  __device__ double root(double total) const {
    return is_largest() || p == 1 ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
  }
};

template <class T>
__global__ void run_norms(List<const T> list, Power power, double* parts) {
  begin_kernel();
  list.run(blockIdx.x, [&](const T* x, int64_t n) {
    double total = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      total = power.joined(total, power.term(static_cast<double>(widen(x[i]))));
    total = combine_block(total, shared_memory<double>(),
                          [&](double a, double b) { return power.joined(a, b); });
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
  });
}

template <class T>
struct NormOfParts : DoubleSum {
  const double* parts;
  Compute<T>* norm;
  Power power;

  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    a = power.joined(a, parts[at]);
  }
  __device__ Total combine(const Total& a, const Total& b) const { return power.joined(a, b); }
  __device__ void finish(int64_t, const Total& total) const {
    *norm = static_cast<Compute<T>>(power.root(total));
  }
};

template <class T>
void list_norm(const Context& context, std::span<const Tensor> tensors, Tensor& norm, double p) {
  int64_t runs = 0;
  for (const Tensor& t : tensors) runs += (t.numel() + kListRun - 1) / kListRun;
  const Workspace scratch = context.workspace(static_cast<size_t>(runs + 1) * sizeof(double));
  double* const parts = scratch.as<double>();
  in_lists<const T>(tensors, [&](const List<const T>& list, int64_t before) {
    launch_blocks(context, &run_norms<T>, grid_of(list), list, Power{p}, parts + before);
  });
  reduce(context, NormOfParts<T>{{}, parts, data<Compute<T>>(norm), Power{p}},
         ReduceShape(Shape({runs}), Strides({1}), Strides({0})));
}

template <class C>
struct Scale {
  C factor;
  __device__ Scale operator()() const { return *this; }
  __device__ bool does_nothing() const { return factor == 1; }
  __device__ C operator()(C v) const { return v * factor; }
};
template <class T>
struct ScaleToNorm {
  const Compute<T>* norm;
  double max_norm;
  // A NaN goes on, into every gradient, as in PyTorch.
  __device__ Scale<Compute<T>> operator()() const {
    const double factor = max_norm / (static_cast<double>(*norm) + 1e-6);
    return {factor >= 1 ? Compute<T>(1) : static_cast<Compute<T>>(factor)};
  }
};

template <class C>
struct Limit {
  C high;
  __device__ bool does_nothing() const { return false; }
  __device__ Limit operator()() const { return *this; }
  __device__ C operator()(C v) const { return v < -high ? -high : v > high ? high : v; }
};

/// Writes make()(v) over each element v.
template <class T, class Make>
void for_each(const Context& context, std::span<Tensor> tensors, const Make& make) {
  in_lists<T>(tensors, [&](const List<T>& list, int64_t) {
    launch(context, &list_kernel<T, Make>, grid_of(list), list, make);
  });
}

template <class T>
void list_clip(const Context& context, std::span<Tensor> tensors, const Tensor& norm,
               double max_norm) {
  for_each<T>(context, tensors, ScaleToNorm<T>{data<const Compute<T>>(norm), max_norm});
}

template <class T>
void list_clamp(const Context& context, std::span<Tensor> tensors, double limit) {
  for_each<T>(context, tensors, Limit<Compute<T>>{static_cast<Compute<T>>(limit)});
}

template <class T>
void list_scale(const Context& context, std::span<Tensor> tensors, double factor) {
  for_each<T>(context, tensors, Scale<Compute<T>>{static_cast<Compute<T>>(factor)});
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("list_norm", cuda, dtype_of<T>, &list_norm<T>);
      backend::register_kernel("list_clip", cuda, dtype_of<T>, &list_clip<T>);
      backend::register_kernel("list_clamp", cuda, dtype_of<T>, &list_clamp<T>);
      backend::register_kernel("list_scale", cuda, dtype_of<T>, &list_scale<T>);
    });

}  // namespace
}  // namespace brim::cuda
