// Sorting: every element becomes a number without a sign, its order-preserving key above its
// position, so that equal elements keep their order.
#include "backend/cuda/kernels/sort.cuh"

#include <bit>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/options/sort_options.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// Keys that order as the values do: -inf .. -0 = 0 .. inf < NaN.
template <class U, class F>
__device__ U float_key(F v) {
  if (v != v) return ~U{0};
  if (v == 0) v = 0;  // -0 and 0 are equal
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  const U bits = std::bit_cast<U>(v);
  return bits & kSign ? ~bits : bits | kSign;
}
template <class T>
__device__ auto key(T v) {
  if constexpr (std::is_same_v<T, double>)
    return float_key<uint64_t>(v);
  else if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<uint32_t>(static_cast<int64_t>(v) + (int64_t{1} << 31));
  else
    return float_key<uint32_t>(static_cast<float>(widen(v)));
}

/// Operands: values, x and indices without their steps along the axis.
template <class T, class Key>
struct MakeKey {
  DeviceLoop<3> lines;
  const T* x;
  int64_t step;
  bool descending;

  __device__ Key operator()(int64_t line, int64_t i) const {
    int64_t at[3];
    lines.offsets(line, at);
    auto k = key(x[at[1] + i * step]);
    if (descending) k = static_cast<decltype(k)>(~k);
    if constexpr (std::is_same_v<Key, WideKey>)
      return {k, static_cast<uint64_t>(i)};
    else
      return (Key{k} << 32) | static_cast<Key>(i);
  }
};

/// The first `count` of each line, and where they came from.
template <class T, class Key>
__global__ void take_kernel(MakeKey<T, Key> from, const Key* keys, T* values, int64_t* indices,
                            int64_t value_step, int64_t index_step, int64_t length, int64_t count) {
  begin_kernel();
  for (int64_t i = first_index(); i < from.lines.numel * count; i += grid_size()) {
    const int64_t line = i / count, k = i % count;
    int64_t at[3];
    from.lines.offsets(line, at);
    const Key found = keys[line * length + k];
    int64_t position;
    if constexpr (std::is_same_v<Key, WideKey>)
      position = static_cast<int64_t>(found.position);
    else
      position = static_cast<int64_t>(found & 0xffffffffu);
    values[at[0] + k * value_step] = from.x[at[1] + position * from.step];
    indices[at[2] + k * index_step] = position;
  }
}

template <class T, class Key>
void sort_lines(const Context& context, const Tensor& x, Tensor& values, Tensor& indices,
                const backend::SortOptions& options) {
  const int axis = options.axis;
  const int64_t length = x.shape()[axis], count = options.count;
  Shape shape = x.shape();
  shape[axis] = 1;
  if (shape.numel() == 0 || length == 0 || count == 0) return;
  const MakeKey<T, Key> make{DeviceLoop<3>(backend::make_loop<3>(
                                 shape, {values.strides(), x.strides(), indices.strides()})),
                             data<const T>(x), x.strides()[axis], options.descending};
  const int64_t lines = make.lines.numel;
  const Workspace workspace =
      context.workspace(static_cast<size_t>(sort_scratch(lines, length)) * sizeof(Key));
  const Key* keys = sort_keys(context, make, workspace.as<Key>(), lines, length);
  launch(context, &take_kernel<T, Key>, grid_for(lines * count), make, keys, data<T>(values),
         data<int64_t>(indices), values.strides()[axis], indices.strides()[axis], length, count);
}

template <class T>
void sort(const Context& context, const Tensor& x, Tensor& values, Tensor& indices,
          const backend::SortOptions& options) {
  constexpr bool kWide = std::is_same_v<T, double> || std::is_same_v<T, int64_t>;
  if constexpr (!kWide)
    if (x.shape()[options.axis] <= int64_t{UINT32_MAX})
      return sort_lines<T, uint64_t>(context, x, values, indices, options);
  sort_lines<T, WideKey>(context, x, values, indices, options);
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("sort", DeviceKind::cuda, dtype_of<T>, &sort<T>);
    });

}  // namespace
}  // namespace brim::cuda
