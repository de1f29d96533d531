// gather, scatter and scatter_add. An index out of range is reported (fault.cuh) and skipped.
#include "backend/cuda/elementwise/cast.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/runtime/fault.cuh"
#include "backend/options/index_options.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

using backend::IndexOptions;

/// The size that indices must stay below, and what to say of one that does not.
struct Bounds {
  int64_t size;
  const char* op;
  int axis;
  Fault* fault;

  __device__ bool hold(int64_t index) const {
    if (index >= 0 && index < size) return true;
    report(fault,
           {.kind = FaultKind::index, .text = op, .axis = axis, .value = index, .size = size});
    return false;
  }
};

Bounds bounds_of(const Context& context, const Tensor& x, const IndexOptions& options) {
  return {x.shape()[options.axis], options.op, options.axis, fault_of(context.device().index)};
}

/// Operands: y, x without its own steps along the axis, the index.
template <class T>
__global__ void gather_kernel(DeviceLoop<3> loop, T* y, const T* x, const int64_t* index,
                              int64_t step, Bounds bounds) {
  begin_kernel();
  for (int64_t i = first_index(); i < loop.numel; i += grid_size()) {
    int64_t at[3];
    loop.offsets(i, at);
    const int64_t k = index[at[2]];
    y[at[0]] = bounds.hold(k) ? x[at[1] + k * step] : T{};
  }
}

template <class T>
void gather(const Context& context, const Tensor& x, const Tensor& index, Tensor& y,
            const IndexOptions& options) {
  if (y.numel() == 0) return;
  Strides strides = x.strides();
  const int64_t step = strides[options.axis];
  strides[options.axis] = 0;  // the index moves along it
  const DeviceLoop<3> loop(
      backend::make_loop<3>(y.shape(), {y.strides(), strides, index.strides()}));
  launch(context, &gather_kernel<T>, grid_for(loop.numel), loop, data<T>(y), data<const T>(x),
         data<const int64_t>(index), step, bounds_of(context, x, options));
}

template <class T>
struct Replace {
  __device__ static T write(T, T from) { return from; }
};

template <class T>
struct Accumulate {
  __device__ static T write(T to, T from) {
    if constexpr (std::is_same_v<T, bool>)
      return to || from;
    else if constexpr (std::is_integral_v<T>)  // wraps
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(to) +
                            static_cast<std::make_unsigned_t<T>>(from));
    else
      return narrow<T>(widen(to) + widen(from));
  }
};

/// Steps of one line along the axis.
struct Steps {
  int64_t length, y, source, index;
};

/// A thread takes a line and goes along the axis in order: writes to an element always come in the
/// same order. Operands: y without its steps along the axis, source, index.
template <class T, class Rule>
__global__ void scatter_kernel(DeviceLoop<3> lines, T* y, const T* source, const int64_t* index,
                               Steps step, Bounds bounds) {
  begin_kernel();
  for (int64_t line = first_index(); line < lines.numel; line += grid_size()) {
    int64_t at[3];
    lines.offsets(line, at);
    for (int64_t k = 0; k < step.length; ++k) {
      const int64_t to = index[at[2] + k * step.index];
      if (!bounds.hold(to)) continue;
      T& target = y[at[0] + to * step.y];
      target = Rule::write(target, source[at[1] + k * step.source]);
    }
  }
}

/// Where there are too few lines for the machine: a block takes a part of the elements along the
/// axis of one line, a thread one of them, and every thread looks at all indices. The order of
/// writes is the same.
template <class T, class Rule>
__global__ void scatter_few_kernel(DeviceLoop<3> lines, T* y, const T* source, const int64_t* index,
                                   Steps step, Bounds bounds) {
  begin_kernel();
  const int64_t total = lines.numel * bounds.size;
  for (int64_t i = first_index(); i < total; i += grid_size()) {
    const int64_t line = i / bounds.size, mine = i % bounds.size;
    int64_t at[3];
    lines.offsets(line, at);
    T& target = y[at[0] + mine * step.y];
    T value = target;
    for (int64_t k = 0; k < step.length; ++k) {
      const int64_t to = index[at[2] + k * step.index];
      if (to == mine)
        value = Rule::write(value, source[at[1] + k * step.source]);
      else if (mine == 0)
        (void)bounds.hold(to);
    }
    target = value;
  }
}

template <class T, class Rule>
void scatter_with(const Context& context, const Tensor& index, const Tensor& source, Tensor& y,
                  const IndexOptions& options) {
  const int axis = options.axis;
  if (index.numel() == 0) return;
  Shape shape = index.shape();
  shape[axis] = 1;
  const DeviceLoop<3> lines(
      backend::make_loop<3>(shape, {y.strides(), source.strides(), index.strides()}));
  const Steps step{index.shape()[axis], y.strides()[axis], source.strides()[axis],
                   index.strides()[axis]};
  const Bounds bounds = bounds_of(context, y, options);
  constexpr int64_t kFewLines = 2048, kLongest = int64_t{1} << 16;
  const bool few =
      lines.numel < kFewLines && step.length > 32 && bounds.size > 1 && bounds.size <= kLongest;
  if (few)
    launch(context, &scatter_few_kernel<T, Rule>, grid_for(lines.numel * bounds.size), lines,
           data<T>(y), data<const T>(source), data<const int64_t>(index), step, bounds);
  else
    launch(context, &scatter_kernel<T, Rule>, grid_for(lines.numel), lines, data<T>(y),
           data<const T>(source), data<const int64_t>(index), step, bounds);
}

template <class T>
void scatter(const Context& context, const Tensor& index, const Tensor& source, Tensor& y,
             const IndexOptions& options) {
  scatter_with<T, Replace<T>>(context, index, source, y, options);
}
template <class T>
void scatter_add(const Context& context, const Tensor& index, const Tensor& source, Tensor& y,
                 const IndexOptions& options) {
  scatter_with<T, Accumulate<T>>(context, index, source, y, options);
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("gather", DeviceKind::cuda, dtype_of<T>, &gather<Bits<T>>);
      backend::register_kernel("scatter", DeviceKind::cuda, dtype_of<T>, &scatter<Bits<T>>);
      backend::register_kernel("scatter_add", DeviceKind::cuda, dtype_of<T>, &scatter_add<T>);
    });

}  // namespace
}  // namespace brim::cuda
