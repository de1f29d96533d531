// How a reduction walks over its input: the reduced and the kept dimensions, each merged and sorted
// for locality, and a split into units and parts that depends on the shapes only, never on the
// number of threads, so that every number of threads gives the same bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <brim/core/tensor.h>

#include "core/context.h"

namespace brim::cpu {

/// Some dimensions of the input; [0] is the innermost.
struct ReduceDims {
  int rank = 0;
  int64_t numel = 1;
  std::array<int64_t, kMaxRank> size{}, stride{};

  void push(int64_t n, int64_t step) {
    size[rank] = n;
    stride[rank] = step;
    numel *= n;
    ++rank;
  }

  /// A position that moves on without divisions. `from` leaves out inner dimensions.
  struct Walk {
    int64_t offset = 0;
    std::array<int64_t, kMaxRank> at{};

    void next(const ReduceDims& dims, int from) {
      for (int d = from; d < dims.rank; ++d) {
        offset += dims.stride[d];
        if (++at[d] < dims.size[d]) return;
        offset -= dims.size[d] * dims.stride[d];
        at[d] = 0;
      }
    }
    void seek(const ReduceDims& dims, int from, int64_t index) {
      for (int d = from; d < dims.rank && index > 0; ++d) {
        at[d] = index % dims.size[d];
        index /= dims.size[d];
        offset += at[d] * dims.stride[d];
      }
    }
  };
};

inline constexpr int64_t kReduceTile = 256;  // results per unit at most

struct ReducePlan {
  ReduceDims reduced, kept;  // each of rank 1 at least; kept in the output's row-major order
  bool by_columns = false;   // neighbouring results lie closer together than a result's elements
  int64_t tile = 1;          // results per unit
  int64_t units = 1;
  int64_t parts = 1;  // pieces of the reduced space that are combined at the end

  /// x holds at least one element; y, row-major, has size 1 along the reduced axes.
  static ReducePlan make(const Tensor& x, const Tensor& y);
};

/// What a reduction does, on type-erased pointers. A total takes 8 bytes at most.
struct ReduceSteps {
  /// Totals of results [first, first + width) over elements [begin, end) of the reduced space.
  /// `center`, laid out as the results, is what a centred reduction takes off each element.
  void (*rows)(const ReducePlan&, const void* x, int64_t first, int64_t width, int64_t begin,
               int64_t end, const double* center, void* total);
  /// The same down columns; the results lie in one run of the innermost kept dimension.
  void (*columns)(const ReducePlan&, const void* x, int64_t first, int64_t width, int64_t begin,
                  int64_t end, const double* center, void* total);
  void (*combine)(void* total, const void* other, int64_t width);
  void (*finish)(const void* total, int64_t first, int64_t width, double param, void* y);
  void (*nothing)(double param, int64_t count, void* y);  // results of empty reductions
};

/// y = reduction of x.
void reduce(const ReduceSteps& steps, const Context& context, const Tensor& x, Tensor& y,
            double param);
/// The same with the results at `to`, in y's order, and with a centre for each of them, or none.
void reduce_to(void* to, const ReduceSteps& steps, const Context& context, const Tensor& x,
               const Tensor& y, const double* center, double param);

}  // namespace brim::cpu
