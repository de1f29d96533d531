// gather, scatter and scatter_add on the CPU. Indices are checked before anything is written.
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/runs.h"
#include "backend/kernel.h"
#include "backend/options/index_options.h"
#include "backend/types.h"
#include "core/check.h"

namespace brim::cpu {
namespace {

using backend::IndexOptions;

void check_indices(const Tensor& index, int64_t size, const IndexOptions& options) {
  Shape shape = index.shape();
  if (shape.numel() == 0) return;
  for (int d = 0; d < shape.rank(); ++d)
    if (index.strides()[d] == 0) shape[d] = 1;  // the same indices again
  const Loop<1> loop = make_loop<1>(shape, {index.strides()});
  const int64_t* data = static_cast<const int64_t*>(index.raw());
  const auto each = [&](const auto& look_at) {
    visit_rows(loop, 0, loop.numel, [&](const std::array<int64_t, 1>& at, int64_t n) {
      for (int64_t j = 0; j < n; ++j) look_at(data[at[0] + j * loop.stride[0][0]]);
    });
  };
  // The highest bit is set where one is wrong: unlike comparisons, in vectors everywhere.
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  uint64_t signs = 0;
  each([&](int64_t v) { signs |= static_cast<uint64_t>(v) | (last - static_cast<uint64_t>(v)); });
  if (signs >> 63 == 0) return;
  each([&](int64_t v) {
    BRIM_CHECK(v >= 0 && v < size, IndexError,
               "[{}] index {} is out of range for axis {} of size {}", options.op, v, options.axis,
               size);
  });
}

/// Rows of x that lie anywhere, each dense: those to come are fetched ahead, since no hardware
/// guesses where they are.
template <class T>
void gather_rows(const Loop<3>& loop, const T* x, const int64_t* index, T* y, int64_t step) {
  constexpr int64_t kAhead = 12;
  const int64_t n = loop.size[0];
  const auto row_of = [&](int64_t r) {
    return x + r * loop.stride[1][1] + index[r * loop.stride[2][1]] * step;
  };
  parallel_for(loop.size[1], kElementwiseGrain / 4 / n + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (r + kAhead < end) {
        const T* const next = row_of(r + kAhead);
        __builtin_prefetch(next);
        __builtin_prefetch(next + n - 1);
      }
      copy_short(y + r * loop.stride[0][1], row_of(r), static_cast<size_t>(n) * sizeof(T));
    }
  });
}

template <class T>
void gather(const Context&, const Tensor& x, const Tensor& index, Tensor& y,
            const IndexOptions& options) {
  check_indices(index, x.shape()[options.axis], options);
  if (y.numel() == 0) return;
  Strides strides = x.strides();
  const int64_t step = strides[options.axis];
  strides[options.axis] = 0;  // the index moves along it
  const Loop<3> loop = make_loop<3>(y.shape(), {y.strides(), strides, index.strides()});
  const T* px = static_cast<const T*>(x.raw());
  const int64_t* pi = static_cast<const int64_t*>(index.raw());
  T* py = static_cast<T*>(y.raw());
  const int64_t sy = loop.stride[0][0], sx = loop.stride[1][0], si = loop.stride[2][0];
  if (loop.rank == 2 && si == 0 && sx == 1 && sy == 1) return gather_rows(loop, px, pi, py, step);
  for_each_row(loop, kElementwiseGrain / 4, [&](const std::array<int64_t, 3>& at, int64_t n) {
    const T* from = px + at[1];
    const int64_t* i = pi + at[2];
    T* to = py + at[0];
    if (si == 0 && sx == 1 && sy == 1)
      copy_short(to, from + *i * step, static_cast<size_t>(n) * sizeof(T));
    else if (si == 1 && sy == 1 && sx == 0 && step == 1)
      for (int64_t j = 0; j < n; ++j) to[j] = from[i[j]];
    else
      for (int64_t j = 0; j < n; ++j) to[j * sy] = from[j * sx + i[j * si] * step];
  });
}

template <class T>
T plus(T a, T b) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(a) + static_cast<float>(b));
  else if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)  // wraps
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

/// write(y element, source element) for every index. Threads share out the other axes, and each
/// goes along `axis` in order, so the order of writes to an element is always the same.
template <class T, class Write>
void scatter_with(const Tensor& index, const Tensor& source, Tensor& y, const IndexOptions& options,
                  const Write& write) {
  check_indices(index, y.shape()[options.axis], options);
  const int64_t length = index.shape()[options.axis];
  Shape lines = index.shape();
  lines[options.axis] = 1;
  const Loop<3> loop = make_loop<3>(lines, {y.strides(), source.strides(), index.strides()});
  const int64_t y_step = y.strides()[options.axis], s_step = source.strides()[options.axis],
                i_step = index.strides()[options.axis];
  const T* ps = static_cast<const T*>(source.raw());
  const int64_t* pi = static_cast<const int64_t*>(index.raw());
  T* py = static_cast<T*>(y.raw());
  const int64_t sy = loop.stride[0][0], ss = loop.stride[1][0], si = loop.stride[2][0];
  // Rows inside, unless the axis itself is the dense one.
  const bool rows_inside = s_step != 1 || loop.numel == 1;
  auto rows = [&](int64_t begin, int64_t end, int64_t k) {
    while (begin < end) {
      const int64_t n = std::min(loop.size[0] - begin % loop.size[0], end - begin);
      const auto at = loop.offsets(begin);
      T* to = py + at[0];
      const T* from = ps + at[1] + k * s_step;
      const int64_t* i = pi + at[2] + k * i_step;
      if (si == 0 && sy == 1 && ss == 1) {
        T* row = to + *i * y_step;
        for (int64_t j = 0; j < n; ++j) write(row[j], from[j]);
      } else {
        for (int64_t j = 0; j < n; ++j) write(to[j * sy + i[j * si] * y_step], from[j * ss]);
      }
      begin += n;
    }
  };
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / 4 / std::max<int64_t>(1, length));
  parallel_for(loop.numel, grain, [&](int64_t begin, int64_t end) {
    if (rows_inside) {
      for (int64_t k = 0; k < length; ++k) rows(begin, end, k);
      return;
    }
    for (int64_t line = begin; line < end; ++line) {
      const auto at = loop.offsets(line);
      for (int64_t k = 0; k < length; ++k)
        write(py[at[0] + pi[at[2] + k * i_step] * y_step], ps[at[1] + k * s_step]);
    }
  });
}

template <class T>
void scatter(const Context&, const Tensor& index, const Tensor& source, Tensor& y,
             const IndexOptions& options) {
  scatter_with<T>(index, source, y, options, [](T& to, T from) { to = from; });
}

template <class T>
void scatter_add(const Context&, const Tensor& index, const Tensor& source, Tensor& y,
                 const IndexOptions& options) {
  scatter_with<T>(index, source, y, options, [](T& to, T from) { to = plus(to, from); });
}

/// Unsigned integers of T's size: moving elements does not look at their type.
template <class T>
using Bits =
    std::conditional_t<sizeof(T) == 8, uint64_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t,
                                          std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("gather", DeviceKind::cpu, dtype_of<T>, &gather<Bits<T>>);
      backend::register_kernel("scatter", DeviceKind::cpu, dtype_of<T>, &scatter<Bits<T>>);
      backend::register_kernel("scatter_add", DeviceKind::cpu, dtype_of<T>, &scatter_add<T>);
    });

}  // namespace
}  // namespace brim::cpu
