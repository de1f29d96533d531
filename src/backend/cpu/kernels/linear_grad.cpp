// Gradients of fully connected layers on the CPU, and the optimizer's step in the same pass.
//
// With few rows, threads take blocks of columns of W. What a block of x's gradient needs is the
// same block of W, and a tile of W's gradient needs all rows at once; so a block is read, used for
// dx, and updated while it is in the cache, and the gradient of W never goes to memory. With many
// rows the products take nearly all the time: they go to gemm, a block of W's rows at a time where
// a step follows.
#include "backend/fused/fused_linear.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/linear_grad.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <optional>

#include "backend/cpu/elementwise/step-inl.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/gemm/gemm-inl.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/gemm_bf16.h"
#include "backend/cpu/gemm/linear_bf16.h"
#include "backend/cpu/gemm/packed_columns-inl.h"
#include "backend/cpu/runtime/denormals.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "core/check.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using formula::StepParams;

constexpr int64_t kWork = int64_t{1} << 17;  // multiply-adds of a thread's part at least
constexpr int64_t kFewRows = 16;
constexpr int64_t kGemmRows = 64;  // of W, whose gradient stays in the L2 cache
constexpr int kMaxStates = 3;

template <class T>
constexpr int64_t kWidth = kVecs* static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));

template <class T>
using Tile = void (*)(int64_t k, const T* a, int64_t row, int64_t col, const T* b, int64_t ldb,
                      bool accumulate, T* c, int64_t ldc, int64_t columns);

template <class T, int R, int V>
void tile(int64_t k, const T* a, int64_t row, int64_t col, const T* b, int64_t ldb, bool accumulate,
          T* c, int64_t ldc, int64_t columns) {
  broadcast_tile<T, R, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
}

/// The tile of `rows` rows (1 to kRows) and `columns` columns (1 to kWidth).
template <class T>
Tile<T> tile_of(int64_t rows, int64_t columns) {
  static constexpr auto kTiles = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<Tile<T>, sizeof...(I)>{&tile<T, I / kVecs + 1, I % kVecs + 1>...};
  }
  (std::make_integer_sequence<int, kRows * kVecs>());
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t vectors = (columns + lanes - 1) / lanes;
  return kTiles[static_cast<size_t>((rows - 1) * kVecs + vectors - 1)];
}

/// A matrix of any strides.
template <class T>
struct View {
  const T* data = nullptr;
  int64_t row = 0, col = 0;

  View() = default;
  explicit View(const Tensor& x) {
    if (!x.defined()) return;
    data = static_cast<const T*>(x.raw());
    row = x.strides()[0];
    col = x.strides()[1];
  }
};

/// Updates `rows` x `columns` numbers by their gradients; states[k] are laid out as p is.
template <class T>
using Update = void (*)(const StepParams&, int64_t rows, int64_t columns, T* p,
                        std::array<T*, kMaxStates> states, int64_t ld, const T* grad,
                        int64_t ld_grad);

template <class T>
struct Job {
  int64_t rows, inputs, outputs;
  View<T> x, w, dy, y;
  T* dx;
  T* dw;  // null: the weight is updated instead
  T* db;  // of the caller or scratch; may be null
  // The update.
  Update<T> update = nullptr;
  const StepParams* params = nullptr;
  T* p = nullptr;
  std::array<T*, kMaxStates> states{};
};

/// Columns [begin, end) of dz and their sums; dz is written unless it is null, where it is dy.
template <class T>
void prepare(const Job<T>& job, T* dz, int64_t begin, int64_t end) {
  constexpr int64_t kAhead = 4, kLine = 64 / static_cast<int64_t>(sizeof(T));
  if (job.db) std::fill(job.db + begin, job.db + end, T(0));
  for (int64_t n = 0; n < job.rows; ++n) {
    const T* row = job.dy.data + n * job.dy.row;
    if (job.dy.col == 1 && n + kAhead < job.rows)  // the CPU does not foresee where rows begin
      for (int64_t o = begin; o < end; o += kLine) hwy::Prefetch(row + kAhead * job.dy.row + o);
    if (dz) {
      const T* from = row;
      const T* y = job.y.data + n * job.y.row;
      T* to = dz + n * job.outputs;
      row = to;
      if (job.dy.col == 1 && job.y.col == 1) {
        for (int64_t o = begin; o < end; ++o) to[o] = y[o] <= T(0) ? T(0) : from[o];
      } else {
        for (int64_t o = begin; o < end; ++o)
          to[o] = job.y.data && y[o * job.y.col] <= T(0) ? T(0) : from[o * job.dy.col];
      }
    }
    if (job.db)
      for (int64_t o = begin; o < end; ++o) job.db[o] += row[o];
  }
}

/// Copies `count` columns of a matrix to rows of kWidth.
template <class T>
void pack(const View<T>& from, int64_t rows, int64_t first, int64_t count, T* to) {
  for (int64_t i = 0; i < rows; ++i, to += kWidth<T>) {
    const T* row = from.data + i * from.row + first * from.col;
    if (from.col == 1)
      std::copy_n(row, count, to);
    else
      for (int64_t j = 0; j < count; ++j) to[j] = row[j * from.col];
  }
}

/// dx = dz W for columns [first, first + count).
template <class T>
void grad_x(const Job<T>& job, const View<T>& dz, int64_t first, int64_t count, T* panel) {
  View<T> w = job.w;
  w.data += first * w.col;
  if (w.col != 1) {
    pack(job.w, job.outputs, first, count, panel);
    w.data = panel;
    w.row = kWidth<T>;
  }
  const int64_t tiles = (job.rows + kRows - 1) / kRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t n = job.rows * t / tiles, rows = job.rows * (t + 1) / tiles - n;
    tile_of<T>(rows, count)(job.outputs, dz.data + n * dz.row, dz.row, dz.col, w.data, w.row, false,
                            job.dx + n * job.inputs + first, job.inputs, count);
  }
}

/// Updates `rows` x `columns` weights from the one at `at` on by their gradients.
template <class T>
void apply(const Job<T>& job, int64_t at, int64_t rows, int64_t columns, const T* grad,
           int64_t ld_grad) {
  auto states = job.states;
  for (T*& s : states) s += s ? at : 0;
  job.update(*job.params, rows, columns, job.p + at, states, job.inputs, grad, ld_grad);
}

/// dw = dz^T x, or the update by it, for columns [first, first + count).
template <class T>
void grad_w(const Job<T>& job, const View<T>& dz, int64_t first, int64_t count, T* panel) {
  pack(job.x, job.rows, first, count, panel);
  constexpr int64_t kStep = 32 / kRows * kRows;  // rows that are updated at once
  HWY_ALIGN T grad[kStep * kWidth<T>];
  for (int64_t begin = 0; begin < job.outputs; begin += kStep) {
    const int64_t end = std::min(job.outputs, begin + kStep), at = begin * job.inputs + first;
    T* to = job.update ? grad : job.dw + at;
    const int64_t ld = job.update ? kWidth<T> : job.inputs;
    for (int64_t o = begin; o < end; o += kRows, to += kRows * ld)
      tile_of<T>(std::min<int64_t>(kRows, end - o), count)(
          job.rows, dz.data + o * dz.col, dz.col, dz.row, panel, kWidth<T>, false, to, ld, count);
    if (job.update) apply(job, at, end - begin, count, grad, ld);
  }
}

template <class T>
void few_rows(const Context& context, const Job<T>& job, const View<T>& dz) {
  const int64_t blocks = (job.inputs + kWidth<T> - 1) / kWidth<T>;
  const int64_t block_work = job.rows * job.outputs * kWidth<T> * (job.dx ? 2 : 1);
  const int64_t grain = kWork / std::max<int64_t>(1, block_work) + 1;
  const int64_t panel_rows = std::max(job.rows, job.dx && job.w.col != 1 ? job.outputs : 0);
  const PartScratch scratch(context, blocks, grain,
                            static_cast<size_t>(panel_rows * kWidth<T>) * sizeof(T));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kWidth<T>, count = std::min(kWidth<T>, job.inputs - first);
      if (job.dx) grad_x(job, dz, first, count, slot.as<T>());
      const FlushDenormals guard;
      grad_w(job, dz, first, count, slot.as<T>());
    }
  });
}

/// dw = dz^T x, or the update by it, a block of W's rows at a time.
template <class T>
void grad_w_blocks(const Context& context, const Job<T>& job, const View<T>& dz) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;  // of a copy of x
  const Matrix<T> x{job.x.data, job.x.row, job.x.col};
  const bool copies = kSmallTiles && packed_product_wins(job.outputs, job.rows, job.inputs) &&
                      job.rows * job.inputs <= kMostBytes / static_cast<int64_t>(sizeof(T));
  std::optional<PackedColumns<T>> columns;
  if (copies) columns.emplace(context, job.rows, job.inputs, x);
  const int64_t blocks = (job.outputs + kGemmRows - 1) / kGemmRows;
  const int64_t room = kGemmRows * ((job.update ? job.inputs : 0) + (copies ? job.rows : 0));
  const PartScratch scratch(context, blocks, 1, static_cast<size_t>(room) * sizeof(T));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    T* tiles = slot.as<T>();
    for (int64_t o = begin * kGemmRows; o < std::min(job.outputs, end * kGemmRows);
         o += kGemmRows) {
      const int64_t rows = std::min(kGemmRows, job.outputs - o);
      const Matrix<T> block{dz.data + o * dz.col, dz.col, dz.row};
      T* grad = job.update ? tiles + (copies ? kGemmRows * job.rows : 0) : job.dw + o * job.inputs;
      if (columns) {
        pack_a(rows, job.rows, block, tiles);
        for (int64_t p = 0; p < columns->panels(); ++p)
          columns->multiply(p, rows, TileRows<T>::packed(tiles, job.rows), false, grad, job.inputs);
      } else {
        gemm(rows, job.inputs, job.rows, block, x, false, grad, job.inputs);
      }
      if (!job.update) continue;
      const FlushDenormals guard;
      apply(job, o * job.inputs, rows, job.inputs, grad, job.inputs);
    }
  });
}

template <class T>
void many_rows(const Context& context, const Job<T>& job, const View<T>& dz) {
  const Matrix<T> w{job.w.data, job.w.row, job.w.col};
  if (job.dx && dz.col == 1 && packed_product_wins(job.rows, job.outputs, job.inputs))
    packed_product(context, job.rows, dz.data, dz.row,
                   PackedColumns<T>(context, job.outputs, job.inputs, w), job.dx, job.inputs,
                   [](int64_t, int64_t, T*) {});
  else if (job.dx)
    gemm(job.rows, job.inputs, job.outputs, Matrix<T>{dz.data, dz.row, dz.col}, w, false, job.dx,
         job.inputs);
  // With small tiles one copy of x for all blocks is faster than gemm, which copies panels in turn.
  if (job.update || kSmallTiles) return grad_w_blocks(context, job, dz);
  gemm(job.outputs, job.inputs, job.rows, Matrix<T>{dz.data, dz.col, dz.row},
       Matrix<T>{job.x.data, job.x.row, job.x.col}, false, job.dw, job.inputs);
}

template <class T>
void run(const Context& context, const Job<T>& job) {
  const bool write = job.y.data || (job.dy.col != 1 && job.outputs > 1);
  const Workspace space =
      context.workspace(write ? static_cast<size_t>(job.rows * job.outputs) * sizeof(T) : 0);
  T* written = write ? space.as<T>() : nullptr;
  constexpr int64_t kUnit = 64;
  const int64_t units = (job.outputs + kUnit - 1) / kUnit;
  if (write || job.db)
    parallel_for(units, (int64_t{1} << 16) / std::max<int64_t>(1, kUnit * job.rows) + 1,
                 [&](int64_t begin, int64_t end) {
                   prepare(job, written, begin * kUnit, std::min(job.outputs, end * kUnit));
                 });
  View<T> dz = job.dy;
  if (write) {
    dz.data = written;
    dz.row = job.outputs;
    dz.col = 1;
  }
  (job.rows <= kFewRows ? few_rows<T> : many_rows<T>)(context, job, dz);
}

template <class T>
T* address(Tensor& x) {
  return x.defined() ? static_cast<T*>(x.raw()) : nullptr;
}

void check_dense(const char* what, const Tensor& x) {
  BRIM_CHECK(!x.defined() || x.is_contiguous(), ValueError,
             "[linear_grad] {} {} is not contiguous; pass a contiguous one", what, x.shape().str());
}

template <class T>
Job<T> make_job(const Tensor& x, const Tensor& weight, const Tensor& dy, const Tensor& y,
                Tensor& dx) {
  check_dense("dx", dx);
  Job<T> job{};
  job.rows = x.shape()[0];
  job.inputs = x.shape()[1];
  job.outputs = dy.shape()[1];
  job.x = View<T>(x);
  job.w = View<T>(weight);
  job.dy = View<T>(dy);
  job.y = View<T>(y);
  job.dx = address<T>(dx);
  return job;
}

template <class T>
void linear_grad(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& dy,
                 const Tensor& y, Tensor& dx, Tensor& dw, Tensor& db) {
  check_dense("dw", dw);
  check_dense("db", db);
  Job<T> job = make_job<T>(x, weight, dy, y, dx);
  job.dw = address<T>(dw);
  job.db = address<T>(db);
  run(context, job);
}

/// Of 16 bits.
template <class W>
void linear_grad_16_bits(const Context& context, const Tensor& x, const Tensor& weight,
                         const Tensor& dy, const Tensor& y, Tensor& dx, Tensor& dw, Tensor& db) {
  if constexpr (std::is_same_v<W, BFloat16>) {
    if (multiplies_bf16()) {
      check_dense("dx", dx);
      check_dense("dw", dw);
      check_dense("db", db);
      return linear_grad_bf16(context, x, weight, dy, y, dx, dw, db);
    }
  }
  ThroughF32<&linear_grad<float>, Outputs::written>::run(context, x, weight, dy, y, dx, dw, db);
}

template <class T, class F>
void update(const StepParams& params, int64_t rows, int64_t columns, T* p,
            std::array<T*, kMaxStates> states, int64_t ld, const T* grad, int64_t ld_grad) {
  F f;
  f.k = params;
  for (int64_t r = 0; r < rows; ++r, p += ld, grad += ld_grad) {
    step_run(f, p, grad, states, columns);
    for (size_t k = 0; k < F::kStates; ++k) states[k] += ld;
  }
}

template <class T, class F>
void linear_step(const Context& context, const Tensor& x, Tensor& weight, Tensor& bias,
                 const Tensor& dy, const Tensor& y, Tensor& dx, std::span<Tensor> states,
                 const StepParams& params) {
  check_dense("weight", weight);
  check_dense("bias", bias);
  for (const Tensor& s : states) check_dense("state", s);
  Job<T> job = make_job<T>(x, weight, dy, y, dx);
  const Workspace space =
      context.workspace(static_cast<size_t>(bias.defined() ? job.outputs : 0) * sizeof(T));
  job.db = bias.defined() ? space.as<T>() : nullptr;
  job.update = &update<T, F>;
  job.params = &params;
  job.p = address<T>(weight);
  for (size_t k = 0; k < F::kStates; ++k) job.states[k] = address<T>(states[k]);
  run(context, job);
  if (!bias.defined()) return;
  std::array<T*, kMaxStates> own{};
  for (size_t k = 0; k < F::kStates; ++k) own[k] = address<T>(states[F::kStates + k]);
  const FlushDenormals guard;
  update<T, F>(params, 1, job.outputs, address<T>(bias), own, job.outputs, job.db, job.outputs);
}

template <class T, class... F>
void register_steps(formula::List<F...>) {
  (backend::register_kernel(backend::linear_step_name<F>(), DeviceKind::cpu, dtype_of<T>,
                            &linear_step<T, F>),
   ...);
}

void register_linear_grad() {
  backend::register_kernel("linear_grad", DeviceKind::cpu, DType::f32, &linear_grad<float>);
  backend::register_kernel("linear_grad", DeviceKind::cpu, DType::f64, &linear_grad<double>);
  backend::register_kernel("linear_grad", DeviceKind::cpu, DType::f16, &linear_grad_16_bits<Half>);
  backend::register_kernel("linear_grad", DeviceKind::cpu, DType::bf16,
                           &linear_grad_16_bits<BFloat16>);
  register_steps<float>(formula::OptimFormulas{});
  register_steps<double>(formula::OptimFormulas{});
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_linear_grad);
#endif
