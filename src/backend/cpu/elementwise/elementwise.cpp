// The driver of elementwise kernels: rows of the innermost dimension where they are long, tiles
// across several rows where they are short.
#include "backend/cpu/elementwise/elementwise.h"

#include <cstring>

namespace brim::cpu {
namespace {

constexpr int64_t kTile = 512;     // elements of a staging buffer
constexpr int64_t kLongRow = 128;  // from here on rows are worth a call each

template <int N>
using Pointers = std::array<char*, N>;

/// Buffers of one thread.
template <int N>
struct Stage {
  alignas(64) char data[N][kTile * 8];
};

template <class T>
void gather_row(const char* from, int64_t stride, char* to, int64_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  } else if (stride == 0) {
    const T value = *x;
    for (int64_t i = 0; i < n; ++i) y[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
  }
}

template <class T>
void scatter_row(const char* from, char* to, int64_t stride, int64_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) y[i * stride] = x[i];
}

void gather(int bytes, const char* from, int64_t stride, char* to, int64_t n) {
  switch (bytes) {
    case 1:
      return gather_row<uint8_t>(from, stride, to, n);
    case 2:
      return gather_row<uint16_t>(from, stride, to, n);
    case 4:
      return gather_row<uint32_t>(from, stride, to, n);
    default:
      return gather_row<uint64_t>(from, stride, to, n);
  }
}

void scatter(int bytes, const char* from, char* to, int64_t stride, int64_t n) {
  switch (bytes) {
    case 1:
      return scatter_row<uint8_t>(from, to, stride, n);
    case 2:
      return scatter_row<uint16_t>(from, to, stride, n);
    case 4:
      return scatter_row<uint32_t>(from, to, stride, n);
    default:
      return scatter_row<uint64_t>(from, to, stride, n);
  }
}

/// A position in the iteration space that moves from row to row without divisions.
template <int N>
struct Cursor {
  const Loop<N>& loop;
  std::array<int64_t, kMaxRank> index{};
  std::array<int64_t, N> at{};  // offsets of the operands, in elements

  Cursor(const Loop<N>& l, int64_t linear) : loop(l) {
    for (int d = 0; d < loop.rank; ++d) {
      index[d] = linear % loop.size[d];
      linear /= loop.size[d];
      for (int k = 0; k < N; ++k) at[k] += index[d] * loop.stride[k][d];
    }
  }
  /// Elements left in this row.
  int64_t left() const { return loop.size[0] - index[0]; }
  /// Moves on by n <= left().
  void advance(int64_t n) {
    index[0] += n;
    for (int k = 0; k < N; ++k) at[k] += n * loop.stride[k][0];
    for (int d = 0; d + 1 < loop.rank && index[d] == loop.size[d]; ++d) {
      index[d] = 0;
      ++index[d + 1];
      for (int k = 0; k < N; ++k) at[k] += loop.stride[k][d + 1] - loop.size[d] * loop.stride[k][d];
    }
  }
};

template <int N>
void run_rows(const Loop<N>& loop, const Pointers<N>& base, const std::array<int, N>& bytes,
              DenseLoop f, const formula::Params& params, int64_t begin, int64_t end) {
  Stage<N> stage;
  bool staged = false;
  for (int k = 0; k < N; ++k) staged |= loop.stride[k][0] != 1;
  Cursor<N> cursor(loop, begin);
  Pointers<N> p;
  for (int64_t i = begin; i < end;) {
    const int64_t row = std::min(cursor.left(), end - i);
    for (int64_t done = 0; done < row;) {
      const int64_t n = staged ? std::min(row - done, kTile) : row;
      for (int k = 0; k < N; ++k) {
        const int64_t stride = loop.stride[k][0];
        char* const from = base[k] + (cursor.at[k] + done * stride) * bytes[k];
        p[k] = stride == 1 ? from : stage.data[k];
        // A broadcast element is the same in every part of the row.
        if (k > 0 && stride != 1 && (stride != 0 || done == 0))
          gather(bytes[k], from, stride, p[k], n);
      }
      f(p.data(), n, params);
      if (const int64_t stride = loop.stride[0][0]; stride != 1)
        scatter(bytes[0], p[0], base[0] + (cursor.at[0] + done * stride) * bytes[0], stride, n);
      done += n;
    }
    cursor.advance(row);
    i += row;
  }
}

template <int N>
void run_tiles(const Loop<N>& loop, const Pointers<N>& base, const std::array<int, N>& bytes,
               DenseLoop f, const formula::Params& params, int64_t begin, int64_t end) {
  Stage<N> stage;
  std::array<bool, N> dense{};
  for (int k = 0; k < N; ++k) {
    int64_t step = 1;
    dense[k] = true;
    for (int d = 0; d < loop.rank; ++d) {
      dense[k] = dense[k] && loop.stride[k][d] == step;
      step *= loop.size[d];
    }
  }
  Cursor<N> cursor(loop, begin);
  Pointers<N> p;
  for (int64_t i = begin; i < end;) {
    const int64_t n = std::min(kTile, end - i);
    const Cursor<N> start = cursor;
    for (int k = 0; k < N; ++k) p[k] = dense[k] ? base[k] + i * bytes[k] : stage.data[k];
    for (int64_t done = 0; done < n;) {
      const int64_t row = std::min(cursor.left(), n - done);
      for (int k = 1; k < N; ++k)
        if (!dense[k])
          gather(bytes[k], base[k] + cursor.at[k] * bytes[k], loop.stride[k][0],
                 p[k] + done * bytes[k], row);
      cursor.advance(row);
      done += row;
    }
    f(p.data(), n, params);
    if (!dense[0]) {
      Cursor<N> to = start;
      for (int64_t done = 0; done < n;) {
        const int64_t row = std::min(to.left(), n - done);
        scatter(bytes[0], p[0] + done * bytes[0], base[0] + to.at[0] * bytes[0], loop.stride[0][0],
                row);
        to.advance(row);
        done += row;
      }
    }
    i += n;
  }
}

}  // namespace

template <int N>
void run_elementwise(const Loop<N>& loop, const std::array<char*, N>& base,
                     const std::array<int, N>& bytes, DenseLoop f, const formula::Params& params) {
  const bool rows = loop.size[0] >= kLongRow || loop.rank == 1;
  parallel_for(loop.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    (rows ? run_rows<N> : run_tiles<N>)(loop, base, bytes, f, params, begin, end);
  });
}

template void run_elementwise<2>(const Loop<2>&, const std::array<char*, 2>&,
                                 const std::array<int, 2>&, DenseLoop, const formula::Params&);
template void run_elementwise<3>(const Loop<3>&, const std::array<char*, 3>&,
                                 const std::array<int, 3>&, DenseLoop, const formula::Params&);
template void run_elementwise<4>(const Loop<4>&, const std::array<char*, 4>&,
                                 const std::array<int, 4>&, DenseLoop, const formula::Params&);

}  // namespace brim::cpu
