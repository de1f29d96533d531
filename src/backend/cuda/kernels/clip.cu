// Norms and limits over lists of tensors, for gradient clipping: many row-major tensors in a
// launch.
#include <cmath>
#include <span>

#include "backend/cuda/elementwise.cuh"
#include "backend/cuda/reduce.cuh"

namespace brim::cuda {
namespace {

constexpr int64_t kRun = 8192;  // elements of a tensor that a block takes
constexpr int kRunThreads = 256;
constexpr int kListed = 64;  // tensors in a launch

/// Some tensors, cut into runs, one block each.
template <class T>
struct List {
  T* data[kListed] = {};
  int64_t numel[kListed] = {};
  int64_t end[kListed] = {};  // runs of this tensor and of those before it
  int count = 0;

  int64_t runs() const { return count > 0 ? end[count - 1] : 0; }
  bool add(T* values, int64_t n) {
    data[count] = values;
    numel[count] = n;
    end[count] = runs() + (n + kRun - 1) / kRun;
    ++count;
    return count == kListed;
  }

  /// Calls f(values, n) for this thread's block's run.
  template <class F>
  __device__ void run(int64_t block, const F& f) const {
    int i = 0;
    while (end[i] <= block) ++i;
    const int64_t first = (block - (i > 0 ? end[i - 1] : 0)) * kRun, left = numel[i] - first;
    f(data[i] + first, left < kRun ? left : kRun);
  }
};

/// Calls body(list, runs in earlier lists) until all tensors that hold something had their turn.
template <class T, class Tensors, class Body>
void in_lists(const Tensors& tensors, const Body& body) {
  List<T> list;
  int64_t before = 0;
  const auto flush = [&] {
    if (list.runs() > 0) body(list, before);
    before += list.runs();
    list = {};
  };
  for (const Tensor& t : tensors)
    if (t.numel() > 0 && list.add(data<T>(t), t.numel())) flush();
  flush();
}

template <class T>
Grid grid_of(const List<T>& list) {
  return {dim3(static_cast<unsigned>(list.runs())), dim3(kRunThreads), 1024};
}

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
struct NormOfParts {
  using Lane = double;
  using Total = double;
  const double* parts;
  T* norm;
  Power power;

  __device__ Lane init() const { return 0; }
  __device__ Total start() const { return 0; }
  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    a = power.joined(a, parts[at]);
  }
  __device__ Total widen(const Lane& a) const { return a; }
  __device__ Total combine(const Total& a, const Total& b) const { return power.joined(a, b); }
  __device__ void finish(int64_t, const Total& total) const {
    *norm = narrow<T>(static_cast<Compute<T>>(power.root(total)));
  }
};

template <class T>
void list_norm(const Context& context, std::span<const Tensor> tensors, Tensor& norm, double p) {
  int64_t runs = 0;
  for (const Tensor& t : tensors) runs += (t.numel() + kRun - 1) / kRun;
  const Workspace room = context.workspace(static_cast<size_t>(runs + 1) * sizeof(double));
  double* const parts = room.as<double>();
  in_lists<const T>(tensors, [&](const List<const T>& list, int64_t before) {
    launch_blocks(context, &run_norms<T>, grid_of(list), list, Power{p}, parts + before);
  });
  reduce(context, NormOfParts<T>{parts, data<T>(norm), Power{p}},
         ReduceShape(Shape({runs}), Strides({1}), Strides({0})));
}

/// x = f(x) for all elements of the list, unless that changes nothing; each thread makes its f.
template <class T, class Make>
__global__ void list_kernel(List<T> list, Make make) {
  const auto f = make();
  if (f.does_nothing()) return;
  list.run(blockIdx.x, [&](T* x, int64_t n) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) x[i] = narrow<T>(f(widen(x[i])));
  });
}

template <class C>
struct Scale {
  C factor;
  __device__ bool does_nothing() const { return factor == 1; }
  __device__ C operator()(C v) const { return v * factor; }
};
template <class T>
struct ScaleToNorm {
  const T* norm;
  double max_norm;
  // A NaN goes on, into every gradient, as in PyTorch.
  __device__ Scale<Compute<T>> operator()() const {
    const double factor = max_norm / (static_cast<double>(widen(*norm)) + 1e-6);
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

template <class T>
void list_clip(const Context& context, std::span<Tensor> tensors, const Tensor& norm,
               double max_norm) {
  using Make = ScaleToNorm<T>;
  in_lists<T>(tensors, [&](const List<T>& list, int64_t) {
    launch(context, &list_kernel<T, Make>, grid_of(list), list,
           Make{data<const T>(norm), max_norm});
  });
}

template <class T>
void list_clamp(const Context& context, std::span<Tensor> tensors, double limit) {
  using Make = Limit<Compute<T>>;
  in_lists<T>(tensors, [&](const List<T>& list, int64_t) {
    launch(context, &list_kernel<T, Make>, grid_of(list), list,
           Make{static_cast<Compute<T>>(limit)});
  });
}

template <class... T>
bool register_all() {
  constexpr DeviceKind cuda = DeviceKind::cuda;
  ((backend::register_kernel("list_norm", cuda, dtype_of<T>, &list_norm<T>),
    backend::register_kernel("list_clip", cuda, dtype_of<T>, &list_clip<T>),
    backend::register_kernel("list_clamp", cuda, dtype_of<T>, &list_clamp<T>)),
   ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
