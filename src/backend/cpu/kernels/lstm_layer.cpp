// A layer of an LSTM for training on the CPU. A step multiplies its input and its hidden state into
// the same gates, which become their values in place; its gradient multiplies the gates' gradients
// by both weights while they are in the cache. Only the gradients of the weights wait for all
// steps.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/lstm_layer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <optional>

#include "backend/cpu/recurrent/lstm_step-inl.h"
#include "backend/cpu/recurrent/recurrent-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/kernel.h"
#include "backend/options/recurrent_layer.h"
#include "backend/saved_bytes.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::RecurrentLayer;

/// What the forward pass leaves for the gradient: the gates' values, (T, N, 4 H), and the cells
/// after each step, (T, N, H).
template <class T>
struct Kept {
  T *gates, *cells;

  Kept(const Tensor& saved, const RecurrentLayer& l)
      : gates(static_cast<T*>(saved.raw())), cells(gates + l.steps * l.batch * 4 * l.hidden) {}
};

/// Whether the input's products run apart from the steps, which have parts for some threads only.
/// In the steps they find the gates in the cache; the sums are the same.
bool needs_products_apart(const Recurrence& steps) { return steps.parts(4) < num_threads(); }

template <class T>
void lstm_layer(const Context& context, const Tensor& tx, const Tensor& weight_ih,
                const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                const Tensor& th, const Tensor& tc, Tensor& ty, Tensor& last_h, Tensor& last_c,
                Tensor& saved, const RecurrentLayer& layer) {
  const FlushDenormals guard;
  const Kept<T> kept(saved, layer);
  const int64_t n = layer.hidden, all = layer.batch * n, steps = layer.steps;
  const PackedColumns<T> from_x(context, layer.in, 4 * n, {in<T>(weight_ih), 1, layer.in});
  const PackedColumns<T> from_h(context, n, 4 * n, {in<T>(weight_hh), 1, n});
  const Workspace space(context.workspace(static_cast<size_t>(4 * n) * sizeof(T)));
  T* const bias = space.as<T>();
  for (int64_t i = 0; i < 4 * n; ++i)
    bias[i] = layer.bias ? in<T>(bias_ih)[i] + in<T>(bias_hh)[i] : T(0);
  const T* const x = in<T>(tx);
  T* const y = out<T>(ty);
  const Recurrence job(ty, false);
  const bool apart = needs_products_apart(job);
  if (apart)
    packed_product(context, steps * layer.batch, x, layer.in, from_x, kept.gates, 4 * n,
                   [](int64_t, int64_t, T*) {});
  job.over_samples(4, [&](int64_t first, int64_t last) {
    const T *h = in<T>(th), *c = in<T>(tc);
    for (int64_t at = 0; at < steps * all; at += all) {
      T* const gates = kept.gates + 4 * at;
      if (!apart)
        from_x.multiply(last - first, x + (at / n + first) * layer.in, layer.in, false,
                        gates + 4 * first * n, 4 * n);
      from_h.multiply(last - first, h + first * n, n, true, gates + 4 * first * n, 4 * n);
      for (int64_t s = first * n; s < last * n; s += n)
        lstm_step(bias, c + s, gates + 4 * s, kept.cells + at + s, y + at + s, n);
      h = y + at;
      c = kept.cells + at;
    }
  });
  std::copy_n(y + (steps - 1) * all, all, out<T>(last_h));
  std::copy_n(kept.cells + (steps - 1) * all, all, out<T>(last_c));
}

/// The gradients of a layer's weights and biases by those of the gates' sums, (T N, 4 H) with rows
/// `ld` apart. They are null where unwanted, but for that of the bias.
template <class T>
void weight_grads(const Context& context, const RecurrentLayer& layer, const T* dgates, int64_t ld,
                  const T* x, const T* h, const T* y, T* dih, T* dhh, T* dbias) {
  constexpr int64_t kDepth = (kSmallTiles ? kPassBytes : 1536) / static_cast<int64_t>(sizeof(T));
  const int64_t rows = layer.steps * layer.batch, n = layer.hidden, outputs = 4 * n;
  std::optional<PackedColumns<T>> xs, first, rest;  // the states before the first step, and others
  if (dih) xs.emplace(context, rows, layer.in, Matrix<T>{x, layer.in, 1});
  if (dhh) first.emplace(context, layer.batch, n, Matrix<T>{h, n, 1});
  if (dhh) rest.emplace(context, rows - layer.batch, n, Matrix<T>{y, n, 1});
  const auto add_block = [&](int64_t o, int64_t count, int64_t q) {
    const int64_t depth = std::min(kDepth, rows - q);
    const TileRows<T> a = {dgates + q * ld + o, kRows, 1, ld};
    for (int64_t r = 0; r < depth; ++r)  // which brings all of it into the cache
      for (int64_t i = 0; i < count; ++i) dbias[o + i] += a.data[r * ld + i];
    for (int64_t p = 0; dih && p < xs->panels(); ++p)
      xs->multiply_rows(p, q, depth, count, a, q > 0, dih + o * layer.in, layer.in);
    const int64_t begun = std::clamp<int64_t>(layer.batch - q, 0, depth);
    for (int64_t p = 0; dhh && p < first->panels(); ++p) {
      if (begun > 0) first->multiply_rows(p, q, begun, count, a, q > 0, dhh + o * n, n);
      if (begun < depth)
        rest->multiply_rows(p, q + begun - layer.batch, depth - begun, count, a.from(begun), true,
                            dhh + o * n, n);
    }
  };
  // One part a thread: each of them reads all of x and y.
  constexpr int64_t kWork = int64_t{1} << 18;  // multiply-adds of a part at least
  const int64_t tiles = (outputs + kRows - 1) / kRows;
  const int64_t least = kWork / (kRows * rows * (layer.in + n)) + 1;
  parallel_for(tiles, std::max(least, tiles / num_threads()), [&](int64_t begin, int64_t end) {
    const int64_t o = begin * kRows, count = std::min(outputs, end * kRows) - o;
    std::fill_n(dbias + o, count, T(0));
    for (int64_t q = 0; q < rows; q += kDepth) add_block(o, count, q);
  });
}

template <class T>
void lstm_layer_grad(const Context& context, const Tensor& tdy, const Tensor& dlast_h,
                     const Tensor& dlast_c, const Tensor& tx, const Tensor& weight_ih,
                     const Tensor& weight_hh, const Tensor&, const Tensor&, const Tensor& th,
                     const Tensor& tc, const Tensor& ty, const Tensor& saved, Tensor& tdx,
                     Tensor& dweight_ih, Tensor& dweight_hh, Tensor& dbias_ih, Tensor& dbias_hh,
                     Tensor& tdh, Tensor& tdc, const RecurrentLayer& layer) {
  const FlushDenormals guard;
  const Kept<T> kept(saved, layer);
  const int64_t n = layer.hidden, all = layer.batch * n, rows = layer.steps * layer.batch;
  // Of the gates' gradients: a cache line more, so that rows do not fall into the same sets.
  const int64_t ld = 4 * n + 64 / static_cast<int64_t>(sizeof(T));
  const Workspace space(
      context.workspace(static_cast<size_t>(rows * ld + 2 * all + 5 * n) * sizeof(T)));
  T *const dgates = space.as<T>(), *const dh = dgates + rows * ld, *const dc = dh + all;
  T *const none = dc + all, *const dbias = none + n;
  std::copy_n(in<T>(dlast_h), all, dh);
  std::copy_n(in<T>(dlast_c), all, dc);
  std::fill_n(none, n, T(0));
  const T *const dy = in<T>(tdy), *const c = in<T>(tc);
  T* const dx = out<T>(tdx);
  const Recurrence job(ty, false);
  const bool apart = needs_products_apart(job);
  std::optional<PackedColumns<T>> to_x;
  if (dx) to_x.emplace(context, 4 * n, layer.in, Matrix<T>{in<T>(weight_ih), layer.in, 1});
  const PackedColumns<T> to_h(context, 4 * n, n, {in<T>(weight_hh), n, 1});
  job.over_samples(4, [&](int64_t first, int64_t last) {
    for (int64_t at = rows * n - all; at >= 0; at -= all) {
      const T* const before = at > 0 ? kept.cells + at - all : c;
      T* const d = dgates + at / n * ld;
      for (int64_t i = first; i < last; ++i) {
        const int64_t s = i * n;
        lstm_step_grad(dy + at + s, none, kept.gates + 4 * (at + s), before + s,
                       kept.cells + at + s, dh + s, dc + s, d + i * ld, n);
      }
      to_h.multiply(last - first, d + first * ld, ld, false, dh + first * n, n);
      if (dx && !apart)
        to_x->multiply(last - first, d + first * ld, ld, false, dx + (at / n + first) * layer.in,
                       layer.in);
    }
  });
  if (apart && dx)
    packed_product(context, rows, dgates, ld, *to_x, dx, layer.in, [](int64_t, int64_t, T*) {});
  weight_grads(context, layer, dgates, ld, in<T>(tx), in<T>(th), in<T>(ty), out<T>(dweight_ih),
               out<T>(dweight_hh), dbias);
  const auto copy = [](const T* from, int64_t count, Tensor& to) {
    if (to.defined()) std::copy_n(from, count, out<T>(to));
  };
  copy(dh, all, tdh);
  copy(dc, all, tdc);
  copy(dbias, 4 * n, dbias_ih);
  copy(dbias, 4 * n, dbias_hh);
}

void register_lstm_layer() {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  backend::register_kernel("recurrent_layer", cpu, DType::f32, &lstm_layer<float>);
  backend::register_kernel("recurrent_layer", cpu, DType::f64, &lstm_layer<double>);
  backend::register_kernel("recurrent_layer_grad", cpu, DType::f32, &lstm_layer_grad<float>);
  backend::register_kernel("recurrent_layer_grad", cpu, DType::f64, &lstm_layer_grad<double>);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
namespace {

/// Nothing where the ops apart are as fast, or faster: without gradients, for few rows, and of GRU.
std::optional<size_t> saved_bytes(Device, DType dtype, const backend::RecurrentLayer& l) {
  constexpr int64_t kFewRows = 64;
  if (l.cell != backend::RecurrentCell::lstm || !l.grad || l.steps * l.batch < kFewRows ||
      l.in * l.hidden == 0)
    return {};
  return static_cast<size_t>(l.steps * l.batch * (l.gates() + 1) * l.hidden) * size_of(dtype);
}

const bool registered_saved_bytes = backend::register_saved_bytes<backend::RecurrentLayer>(
    "recurrent_layer", DeviceKind::cpu, &saved_bytes);

}  // namespace
}  // namespace brim::cpu
BRIM_REGISTER_FOR_CPU(register_lstm_layer);
#endif
