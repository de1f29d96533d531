// embedding and its gradient. Of the gradient, ids are sorted with their positions, so that the
// rows of one id stand next to each other. The sorted list is cut into pieces, which are added at
// once; what an id's pieces come to is a list again, shorter, and is added in the same way, until
// one piece is left. All this depends on the ids alone: a gradient is the same bits each time. An
// id out of range is reported (fault.cuh) and gives zeros.
//
// Of n ids, however they are distributed, log16(n) launches follow the sorting, and no thread adds
// more than 32 rows in each.
#include <algorithm>
#include <array>
#include <limits>

#include "backend/cuda/device/divisor.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/kernels/sort.cuh"
#include "backend/cuda/runtime/fault.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// `width`: packs of a row.
template <class T, int Width>
__global__ void embedding_kernel(const T* weight, const int64_t* ids, T* y, int64_t n,
                                 CountDivisor width, int64_t rows, int64_t zero, Fault* fault) {
  begin_kernel();
  using Packed = Pack<T, Width>;
  for (int64_t i = first_index(); i < n; i += grid_size()) {
    const int64_t position = width.quotient(i), id = ids[position];
    const bool inside = id >= 0 && id < rows;
    if (!inside)
      report(fault, {.kind = FaultKind::id, .value = id, .position = position, .size = rows});
    Packed row{};
    if (inside && id != zero)
      row = reinterpret_cast<const Packed*>(weight)[id * width.divisor() + width.rest(i, position)];
    reinterpret_cast<Packed*>(y)[i] = row;
  }
}

template <class T>
void embedding(const Context& context, const Tensor& weight, const Tensor& ids, Tensor& y,
               int64_t zero) {
  if (y.numel() == 0) return;
  constexpr int kWide = 16 / sizeof(T);
  const auto run = [&](int by, auto* kernel) {
    const int64_t width = weight.shape()[1] / by, packs = ids.numel() * width;
    launch(context, kernel, grid_for(packs), data<const T>(weight), data<const int64_t>(ids),
           data<T>(y), packs, CountDivisor(width, packs), weight.shape()[0], zero,
           fault_of(context.device().index));
  };
  if (weight.shape()[1] % kWide == 0 && is_aligned(weight.raw(), 16) && is_aligned(y.raw(), 16))
    run(kWide, &embedding_kernel<T, kWide>);
  else
    run(1, &embedding_kernel<T, 1>);
}

constexpr uint64_t kNoId = ~uint64_t{0};  // of rows that go nowhere

/// Ids as keys; those that have no gradient come last. Where ids and positions have 32 bits each,
/// they share a key.
template <class Key>
struct IdOrder {
  const int64_t* ids;
  int64_t rows, skip;

  __device__ Key operator()(int64_t, int64_t i) const {
    const int64_t id = ids[i];
    const bool used = id >= 0 && id < rows && id != skip;
    if constexpr (std::is_same_v<Key, WideKey>)
      return {used ? static_cast<uint64_t>(id) : kNoId, static_cast<uint64_t>(i)};
    else
      return (used ? static_cast<Key>(id) << 32 : kNoId << 32) | static_cast<Key>(i);
  }
};

/// The list of rows to add: of the gradient, by the sorted keys.
template <class T, class Key>
struct SortedRows {
  const Key* keys;
  const T* dy;
  int64_t width;

  __device__ uint64_t id(int64_t k) const {
    if constexpr (std::is_same_v<Key, WideKey>)
      return keys[k].key;
    else
      return keys[k] >> 32 == kNoId >> 32 ? kNoId : keys[k] >> 32;
  }
  __device__ Compute<T> value(int64_t k, int64_t column) const {
    int64_t position;
    if constexpr (std::is_same_v<Key, WideKey>)
      position = static_cast<int64_t>(keys[k].position);
    else
      position = static_cast<int64_t>(keys[k] & 0xffffffffu);
    return widen(dy[position * width + column]);
  }
};

/// Sums that do not yet hold all of their id's rows, two for each piece: of the id that came in
/// from the piece before, and of the id that goes on into the next. One that does both has zeros in
/// the second, so that an id's sums are neighbours.
template <class C>
struct OpenSums {
  uint64_t* ids = nullptr;
  C* sums = nullptr;
  int64_t width = 0;

  __device__ uint64_t id(int64_t k) const { return ids[k]; }
  __device__ C value(int64_t k, int64_t column) const { return sums[k * width + column]; }
  __device__ void put(int64_t k, int64_t column, uint64_t id, C sum) const {
    if (column == 0) ids[k] = id;
    sums[k * width + column] = sum;
  }
};

constexpr int64_t kPiece = 32;  // rows
constexpr int kRowsAtOnce = 8;  // on their way to a thread

/// A thread adds a column of a piece. Ids that begin and end in it are done, others stay open.
template <class T, class Rows>
__global__ void add_pieces_kernel(Rows rows, int64_t n, CountDivisor width, int64_t threads,
                                  OpenSums<Compute<T>> open, T* dweight) {
  begin_kernel();
  using C = Compute<T>;
  for (int64_t i = first_index(); i < threads; i += grid_size()) {
    const int64_t piece = width.quotient(i), column = width.rest(i, piece);
    const int64_t begin = piece * kPiece, end = begin + kPiece < n ? begin + kPiece : n;
    uint64_t id = rows.id(begin);
    bool came_in = begin > 0 && rows.id(begin - 1) == id;
    C sum = 0;
    const int64_t first = 2 * piece;
    bool first_taken = false;
    const auto finish = [&] {
      if (came_in)
        open.put(first, column, id, sum), first_taken = true;
      else if (id != kNoId)
        dweight[static_cast<int64_t>(id) * width.divisor() + column] = narrow<T>(sum);
    };
    for (int64_t from = begin; from < end; from += kRowsAtOnce) {
      uint64_t next[kRowsAtOnce];
      C value[kRowsAtOnce];
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        next[k] = from + k < end ? rows.id(from + k) : kNoId;
        value[k] = next[k] != kNoId ? rows.value(from + k, column) : C(0);
      }
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        if (from + k >= end) break;
        if (next[k] != id) {
          finish();
          id = next[k], sum = 0, came_in = false;
        }
        sum += value[k];
      }
    }
    const bool goes_on = end < n && rows.id(end) == id;
    if (!goes_on || came_in) finish();
    if (!open.ids) continue;  // there is one piece
    if (!first_taken) open.put(first, column, kNoId, C(0));
    open.put(first + 1, column, goes_on ? id : kNoId, goes_on && !came_in ? sum : C(0));
  }
}

/// Adds the rows of a list of n, then those of the lists that it leaves.
template <class T, class Rows>
void add_rows(const Context& context, const Rows& rows, int64_t n, int64_t width, T* dweight,
              std::array<OpenSums<Compute<T>>, 2> scratch) {
  const int64_t pieces = (n + kPiece - 1) / kPiece, threads = pieces * width;
  const OpenSums<Compute<T>> open = pieces > 1 ? scratch[0] : OpenSums<Compute<T>>{};
  launch(context, &add_pieces_kernel<T, Rows>, grid_for(threads), rows, n,
         CountDivisor(width, threads), threads, open, dweight);
  if (pieces > 1) add_rows<T>(context, open, 2 * pieces, width, dweight, {scratch[1], scratch[0]});
}

template <class T, class Key>
void embedding_grad_by(const Context& context, const Tensor& dy, const Tensor& ids, Tensor& dweight,
                       int64_t skip) {
  using C = Compute<T>;
  const int64_t n = ids.numel(), rows = dweight.shape()[0], width = dweight.shape()[1];
  const Workspace keys_room =
      context.workspace(static_cast<size_t>(sort_scratch(1, n)) * sizeof(Key));
  const Key* keys = sort_keys(context, IdOrder<Key>{data<const int64_t>(ids), rows, skip},
                              keys_room.as<Key>(), 1, n);
  // The first list of open sums, and the second, whose scratch the third has again, and so on.
  const auto open_of = [](int64_t of) {
    return of > kPiece ? 2 * ((of + kPiece - 1) / kPiece) : 0;
  };
  const int64_t first = open_of(n), second = open_of(first), numbers = (first + second) * width;
  const Workspace scratch =
      context.workspace(static_cast<size_t>(first + second) * sizeof(uint64_t) +
                        static_cast<size_t>(numbers) * sizeof(C));
  uint64_t* const open_ids = scratch.as<uint64_t>();
  C* const sums = reinterpret_cast<C*>(open_ids + first + second);
  add_rows<T>(context, SortedRows<T, Key>{keys, data<const T>(dy), width}, n, width,
              data<T>(dweight),
              {{{open_ids, sums, width}, {open_ids + first, sums + first * width, width}}});
}

template <class T>
void embedding_grad(const Context& context, const Tensor& dy, const Tensor& ids, Tensor& dweight,
                    int64_t skip) {
  if (dweight.numel() == 0) return;
  {
    const DeviceGuard guard(context.device().index);
    BRIM_CUDA(cudaMemsetAsync(dweight.raw(), 0, static_cast<size_t>(dweight.numel()) * sizeof(T),
                              native(context.stream)));
  }
  if (ids.numel() == 0) return;
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max() - 1;
  if (dweight.shape()[0] <= kMax && ids.numel() <= kMax)
    embedding_grad_by<T, uint64_t>(context, dy, ids, dweight, skip);
  else
    embedding_grad_by<T, WideKey>(context, dy, ids, dweight, skip);
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("embedding", DeviceKind::cuda, dtype_of<T>, &embedding<T>);
      backend::register_kernel("embedding_grad", DeviceKind::cuda, dtype_of<T>, &embedding_grad<T>);
    });

}  // namespace
}  // namespace brim::cuda
