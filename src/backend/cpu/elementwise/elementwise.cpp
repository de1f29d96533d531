// The driver of elementwise kernels: rows of the innermost dimension where they are long, tiles
// across several rows where they are short.
#include "backend/cpu/elementwise/elementwise.h"

#include "backend/cpu/elementwise/runs.h"

namespace brim::cpu {
namespace {

constexpr int64_t kTile = 512;     // elements of a staging buffer
constexpr int64_t kLongRow = 128;  // from here on rows are worth a call each

template <int N>
using Pointers = std::array<char*, N>;

/// Buffers of one thread.
template <int N>
struct Stage {
  alignas(64) char data[N][(kTile + kLongRow) * 8];
};

template <class T>
void gather_as(const char* from, int64_t stride, char* to, int64_t n) {
  gather_row(reinterpret_cast<const T*>(from), stride, reinterpret_cast<T*>(to), n);
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
      return gather_as<uint8_t>(from, stride, to, n);
    case 2:
      return gather_as<uint16_t>(from, stride, to, n);
    case 4:
      return gather_as<uint32_t>(from, stride, to, n);
    default:
      return gather_as<uint64_t>(from, stride, to, n);
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

/// How an operand is read across short rows.
enum class Across : uint8_t {
  dense,     // one row goes on where the one before ends
  repeated,  // the same row again, along dimension 1 at least
  gathered,
};

template <int N>
std::array<Across, N> across_rows(const Loop<N>& loop) {
  std::array<Across, N> across;
  for (int k = 0; k < N; ++k) {
    int64_t step = 1;
    bool dense = true;
    for (int d = 0; d < loop.rank; ++d) {
      dense = dense && loop.stride[k][d] == step;
      step *= loop.size[d];
    }
    const bool worth_it = loop.size[0] * loop.size[1] >= 2 * kTile || loop.rank == 2;
    across[k] = dense                                         ? Across::dense
                : k > 0 && worth_it && loop.stride[k][1] == 0 ? Across::repeated
                                                              : Across::gathered;
  }
  return across;
}

/// Tiles do not cross planes (dimensions 0 and 1) where an operand is repeated: its row is written
/// to the buffer once a plane, over and over, and tiles begin at any element of it.
template <int N>
void run_tiles(const Loop<N>& loop, const Pointers<N>& base, const std::array<int, N>& bytes,
               DenseLoop f, const formula::Params& params, int64_t begin, int64_t end) {
  Stage<N> stage;
  const std::array<Across, N> across = across_rows(loop);
  const bool repeats = std::ranges::count(across, Across::repeated) > 0;
  const bool gathers = std::ranges::count(across, Across::gathered) > 0;
  const int64_t row_size = loop.size[0], plane = row_size * loop.size[1];
  const auto repeat_rows = [&](const Cursor<N>& cursor, int64_t n) {
    for (int k = 1; k < N; ++k)
      if (across[k] == Across::repeated) {
        const int64_t first = cursor.at[k] - cursor.index[0] * loop.stride[k][0];
        char* const to = stage.data[k];
        gather(bytes[k], base[k] + first * bytes[k], loop.stride[k][0], to, row_size);
        const int64_t size = n + row_size;  // of a tile from any element on
        for (int64_t done = row_size; done < size; done += row_size)
          std::memcpy(to + done * bytes[k], to,
                      static_cast<size_t>(std::min(row_size, size - done) * bytes[k]));
      }
  };
  Cursor<N> cursor(loop, begin);
  Pointers<N> p;
  for (int64_t i = begin, left = 0; i < end;) {
    if (repeats && left == 0) {
      left = std::min(plane - (cursor.index[1] * row_size + cursor.index[0]), end - i);
      repeat_rows(cursor, std::min(kTile, left));
    }
    const int64_t n = std::min(kTile, repeats ? left : end - i);
    const Cursor<N> start = cursor;
    for (int k = 0; k < N; ++k) {
      p[k] = across[k] == Across::dense ? base[k] + i * bytes[k] : stage.data[k];
      if (across[k] == Across::repeated) p[k] += cursor.index[0] * bytes[k];
    }
    if (gathers) {
      for (int64_t done = 0; done < n;) {
        const int64_t row = std::min(cursor.left(), n - done);
        for (int k = 1; k < N; ++k)
          if (across[k] == Across::gathered)
            gather(bytes[k], base[k] + cursor.at[k] * bytes[k], loop.stride[k][0],
                   p[k] + done * bytes[k], row);
        cursor.advance(row);
        done += row;
      }
    } else {  // within a plane, since operands that are not dense are repeated
      const int64_t at = cursor.index[0] + n;
      cursor.advance(-cursor.index[0]);
      cursor.advance_rows(at / row_size);
      cursor.advance(at % row_size);
    }
    f(p.data(), n, params);
    if (across[0] != Across::dense) {
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
    left -= n;
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
