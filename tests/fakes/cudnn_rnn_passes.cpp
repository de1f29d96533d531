// A fake of libcudnn.so.9: the passes of recurrent layers, unit by unit in f64, with states that
// are rounded to the tensors' type at each step.
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "fakes/cudnn_rnn.h"

namespace {

using namespace brim::fake;
using Tensor = cudnnTensorStruct;
using Data = cudnnRNNDataStruct;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// One layer's sizes and tensors. Matrices are asked for by part: those of the hidden state behind
/// those of the input.
struct Layer {
  cudnnRNNStruct rnn;
  Data data;  // of x
  const void *x, *hx, *cx, *space;
  void *y, *reserve;

  Elements e() const { return elements(rnn.type); }
  RnnReserve kept() const { return RnnReserve(rnn, data, reserve); }
  int64_t row(int64_t t, int64_t n) const { return t * data.batch + n; }
  double input(int64_t t, int64_t n, int64_t k) const {
    return e().load(x, row(t, n) * rnn.in + k);
  }
  double state(int64_t t, int64_t n, int64_t u) const {  // before step t
    return t == 0 ? e().load(hx, n * rnn.hidden + u) : e().load(y, row(t - 1, n) * rnn.hidden + u);
  }
  double cell(int64_t t, int64_t n, int64_t u) const {
    return t == 0 ? e().load(cx, n * rnn.hidden + u) : kept().of(t - 1, n, u)[4];
  }
  int64_t matrix_at(int64_t part, int64_t u, int64_t k) const {
    const RnnWeights places(rnn);
    return places.matrix(part) + u * places.columns(part) + k;
  }
  int64_t vector_at(int64_t part, int64_t u) const { return RnnWeights(rnn).vector(part) + u; }
  bool has_bias() const { return RnnWeights(rnn).has_vectors(); }
  double weight(int64_t part, int64_t u, int64_t k) const {
    return e().load(space, matrix_at(part, u, k));
  }
  double product(double a, double b) const {
    return rnn.math == CUDNN_DEFAULT_MATH && rnn.type == CUDNN_DATA_FLOAT ? to_tf32(a) * to_tf32(b)
                                                                          : a * b;
  }
  /// What the input gives a gate, and what the hidden state does.
  double from_input(int64_t gate, int64_t t, int64_t n, int64_t u) const {
    double sum = has_bias() ? e().load(space, vector_at(gate, u)) : 0;
    for (int64_t k = 0; k < rnn.in; ++k) sum += product(weight(gate, u, k), input(t, n, k));
    return sum;
  }
  double from_state(int64_t gate, int64_t t, int64_t n, int64_t u) const {
    const int64_t part = rnn.gates() + gate;
    double sum = has_bias() ? e().load(space, vector_at(part, u)) : 0;
    for (int64_t k = 0; k < rnn.hidden; ++k) sum += product(weight(part, u, k), state(t, n, k));
    return sum;
  }

  /// Calls f(n, u) for all units.
  template <class F>
  void each_unit(const F& f) const {
    for (int64_t n = 0; n < data.batch; ++n)
      for (int64_t u = 0; u < rnn.hidden; ++u) f(n, u);
  }
};

void compute(const Layer& l, void* hy, void* cy) {
  const Elements e = l.e();
  std::vector<double> cells(static_cast<size_t>(l.data.batch * l.rnn.hidden));
  const auto place = [&](int64_t n, int64_t u) {
    return static_cast<size_t>(n * l.rnn.hidden + u);
  };
  if (l.rnn.is_lstm())
    l.each_unit([&](int64_t n, int64_t u) { cells[place(n, u)] = l.cell(0, n, u); });
  for (int64_t t = 0; t < l.data.steps; ++t)
    l.each_unit([&](int64_t n, int64_t u) {
      const auto sum = [&](int64_t gate) {
        return l.from_input(gate, t, n, u) + l.from_state(gate, t, n, u);
      };
      std::array<double, RnnReserve::kNumbers> kept{};
      double h = 0;
      if (l.rnn.is_lstm()) {
        double& c = cells[place(n, u)];
        kept = {logistic(sum(0)), logistic(sum(1)), std::tanh(sum(2)), logistic(sum(3))};
        kept[4] = c = kept[1] * c + kept[0] * kept[2];
        h = kept[3] * std::tanh(c);
      } else {
        const double inner = l.from_state(2, t, n, u), r = logistic(sum(0)), z = logistic(sum(1));
        kept = {r, z, std::tanh(l.from_input(2, t, n, u) + r * inner), inner};
        h = (1 - z) * kept[2] + z * l.state(t, n, u);
      }
      e.store(l.y, l.row(t, n) * l.rnn.hidden + u, h);
      if (l.reserve) std::copy(kept.begin(), kept.end(), l.kept().of(t, n, u));
    });
  if (l.reserve) l.kept().stage() = RnnReserve::kForward;
  l.each_unit([&](int64_t n, int64_t u) {
    const auto at = static_cast<int64_t>(place(n, u));
    if (hy) e.store(hy, at, l.state(l.data.steps, n, u));
    if (cy) e.store(cy, at, cells[place(n, u)]);
  });
}

/// Gradients of the sums of the gates take the gates' place in the reserve space: of the input's
/// part, and behind it, for a GRU, that of what the hidden state gives n.
void compute_data(const Layer& l, const void* dy, const void* dhy, const void* dcy, void* dx,
                  void* dhx, void* dcx) {
  const Elements e = l.e();
  const RnnReserve kept = l.kept();
  const bool is_due = std::exchange(kept.stage(), RnnReserve::kData) == RnnReserve::kForward;
  if (!is_due) (void)wrong("cudnnRNNBackwardData_v8", "the reserve space is not forward's");
  const int64_t units = l.rnn.hidden, gates = l.rnn.gates();
  const auto place = [&](int64_t n, int64_t u) { return static_cast<size_t>(n * units + u); };
  std::vector<double> dh(static_cast<size_t>(l.data.batch * units)), dc(dh.size());
  l.each_unit([&](int64_t n, int64_t u) {
    const auto at = static_cast<int64_t>(place(n, u));
    dh[place(n, u)] = is_due ? e.load(dhy, at) : std::numeric_limits<double>::quiet_NaN();
    if (l.rnn.is_lstm()) dc[place(n, u)] = e.load(dcy, at);
  });
  for (int64_t t = l.data.steps; t-- > 0;) {
    std::vector<double> before(dh.size());
    l.each_unit([&](int64_t n, int64_t u) {
      double* const k = kept.of(t, n, u);
      const double d = dh[place(n, u)] + e.load(dy, l.row(t, n) * units + u);
      if (l.rnn.is_lstm()) {
        const double i = k[0], f = k[1], g = k[2], o = k[3], squashed = std::tanh(k[4]);
        double& cell = dc[place(n, u)];
        cell += d * o * (1 - squashed * squashed);
        k[0] = cell * g * i * (1 - i);
        k[1] = cell * l.cell(t, n, u) * f * (1 - f);
        k[2] = cell * i * (1 - g * g);
        k[3] = d * squashed * o * (1 - o);
        cell *= f;
      } else {
        const double r = k[0], z = k[1], g = k[2], inner = k[3], dn = d * (1 - z) * (1 - g * g);
        k[0] = dn * inner * r * (1 - r);
        k[1] = d * (l.state(t, n, u) - g) * z * (1 - z);
        k[2] = dn;
        k[3] = dn * r;
        before[place(n, u)] = d * z;
      }
    });
    for (int64_t n = 0; n < l.data.batch; ++n) {
      for (int64_t i = 0; i < l.rnn.in; ++i) {
        double sum = 0;
        for (int64_t gate = 0; gate < gates; ++gate)
          for (int64_t u = 0; u < units; ++u)
            sum += l.product(kept.of(t, n, u)[gate], l.weight(gate, u, i));
        e.store(dx, l.row(t, n) * l.rnn.in + i, sum);
      }
      for (int64_t gate = 0; gate < gates; ++gate)
        for (int64_t u = 0; u < units; ++u) {
          const double d = kept.of(t, n, u)[!l.rnn.is_lstm() && gate == 2 ? 3 : gate];
          for (int64_t i = 0; i < units; ++i)
            before[place(n, i)] += l.product(d, l.weight(gates + gate, u, i));
        }
    }
    dh = before;
  }
  l.each_unit([&](int64_t n, int64_t u) {
    const auto at = static_cast<int64_t>(place(n, u));
    e.store(dhx, at, dh[place(n, u)]);
    if (l.rnn.is_lstm()) e.store(dcx, at, dc[place(n, u)]);
  });
}

/// Adds to what stands in `gradients`.
void compute_weights(const Layer& l, void* gradients) {
  const Elements e = l.e();
  const RnnReserve kept = l.kept();
  if (kept.stage() != RnnReserve::kData)
    (void)wrong("cudnnRNNBackwardWeights_v8", "cudnnRNNBackwardData_v8 comes first");
  const auto add = [&](int64_t at, double sum) {
    e.store(gradients, at, e.load(gradients, at) + sum);
  };
  /// The sum over all steps of the gradient of a gate times f(t, n).
  const auto sum_of = [&](int64_t number, int64_t u, const auto& f) {
    double sum = 0;
    for (int64_t t = 0; t < l.data.steps; ++t)
      for (int64_t n = 0; n < l.data.batch; ++n)
        sum += l.product(kept.of(t, n, u)[number], f(t, n));
    return sum;
  };
  const auto one = [](int64_t, int64_t) { return 1.0; };
  const int64_t gates = l.rnn.gates();
  for (int64_t part = 0; part < 2 * gates; ++part) {
    const bool of_input = part < gates;
    const int64_t gate = of_input ? part : part - gates;
    const int64_t number = !of_input && !l.rnn.is_lstm() && gate == 2 ? 3 : gate;
    for (int64_t u = 0; u < l.rnn.hidden; ++u) {
      for (int64_t k = 0; k < RnnWeights(l.rnn).columns(part); ++k)
        add(l.matrix_at(part, u, k), sum_of(number, u, [&](int64_t t, int64_t n) {
              return of_input ? l.input(t, n, k) : l.state(t, n, k);
            }));
      if (l.has_bias()) add(l.vector_at(part, u), sum_of(number, u, one));
    }
  }
}

/// What is wrong with the parts that all passes have; null: nothing.
const char* problem(cudnnHandle_t handle, const Layer& l, const int32_t* lengths, const Data& x,
                    const Data& y, const Tensor& h, size_t weight_bytes, cudnnForwardMode_t mode,
                    size_t bytes, const void* workspace, size_t reserve_bytes) {
  if (!handle || !handle->stream) return "no handle or stream";
  if (!l.rnn.is_set || lengths) return "the layer is not described, or lengths are on the device";
  if (x.type != l.rnn.type || y.type != x.type || h.type != x.type) return "types";
  if (x.size != l.rnn.in || y.size != l.rnn.hidden || x.steps != y.steps || x.batch != y.batch)
    return "sequences";
  if (h.rank != 3 || h.size != std::array<int64_t, 4>{1, x.batch, l.rnn.hidden, 1} ||
      h.stride != std::array<int64_t, 4>{x.batch * l.rnn.hidden, l.rnn.hidden, 1, 1})
    return "states";
  if (static_cast<int64_t>(weight_bytes) != RnnWeights(l.rnn).bytes()) return "weight space";
  if (static_cast<int64_t>(bytes) < rnn_workspace(x, mode) ||
      !is_memory(workspace, rnn_workspace(x, mode)))
    return "workspace";
  if (mode != CUDNN_FWD_MODE_TRAINING) return l.reserve ? "a reserve space without need" : nullptr;
  const int64_t kept = RnnReserve(l.rnn, x).bytes();
  return static_cast<int64_t>(reserve_bytes) < kept || !is_memory(l.reserve, kept) ? "reserve space"
                                                                                   : nullptr;
}

/// Whether they are memory of the device, of so many elements, that begins as tensors do.
bool are_tensors(const Layer& l, int64_t count, std::initializer_list<const void*> all) {
  return std::all_of(all.begin(), all.end(), [&](const void* data) {
    return is_memory(data, count * l.e().size) && is_aligned(data, 16);
  });
}

cudnnStatus_t queue(const char* call, cudnnHandle_t handle, const Layer& l, const char* mode,
                    std::function<void()> work) {
  note(std::string(call) + (l.rnn.is_lstm() ? " lstm" : " gru") + " type " +
       std::to_string(l.rnn.type) + " math " + std::to_string(l.rnn.math) + mode);
  machine->submit(handle->stream, std::move(work));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                              cudnnForwardMode_t mode, const int32_t lengths[],
                              cudnnRNNDataDescriptor_t x_desc, const void* x,
                              cudnnRNNDataDescriptor_t y_desc, void* y,
                              cudnnTensorDescriptor_t h_desc, const void* hx, void* hy,
                              cudnnTensorDescriptor_t c_desc, const void* cx, void* cy,
                              size_t weight_bytes, const void* space, size_t bytes, void* workspace,
                              size_t reserve_bytes, void* reserve) {
  const char* const call = "cudnnRNNForward";
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  const Layer l = {*rnn, *x_desc, x, hx, cx, space, y, reserve};
  if (const char* why = problem(handle, l, lengths, *x_desc, *y_desc, *h_desc, weight_bytes, mode,
                                bytes, workspace, reserve_bytes))
    return bad(call, why);
  const int64_t rows = l.data.steps * l.data.batch, states = l.data.batch * l.rnn.hidden;
  if (!are_tensors(l, rows * l.rnn.in, {x}) || !are_tensors(l, rows * l.rnn.hidden, {y}) ||
      !are_tensors(l, states, {hx, hy}) || (l.rnn.is_lstm() && !are_tensors(l, states, {cx, cy})))
    return bad(call, "a tensor leaves its memory");
  if (l.rnn.is_lstm() != (c_desc != nullptr) || (!l.rnn.is_lstm() && (cx || cy)))
    return bad(call, "cells are an LSTM's");
  return queue(call, handle, l, mode == CUDNN_FWD_MODE_TRAINING ? " training" : " inference",
               [=] { compute(l, hy, cy); });
}

cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t lengths[],
    cudnnRNNDataDescriptor_t y_desc, const void* y, const void* dy, cudnnRNNDataDescriptor_t x_desc,
    void* dx, cudnnTensorDescriptor_t h_desc, const void* hx, const void* dhy, void* dhx,
    cudnnTensorDescriptor_t, const void* cx, const void* dcy, void* dcx, size_t weight_bytes,
    const void* space, size_t bytes, void* workspace, size_t reserve_bytes, void* reserve) {
  const char* const call = "cudnnRNNBackwardData_v8";
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  const Layer l = {*rnn, *x_desc, nullptr, hx, cx, space, const_cast<void*>(y), reserve};
  if (const char* why = problem(handle, l, lengths, *x_desc, *y_desc, *h_desc, weight_bytes,
                                CUDNN_FWD_MODE_TRAINING, bytes, workspace, reserve_bytes))
    return bad(call, why);
  const int64_t rows = l.data.steps * l.data.batch, states = l.data.batch * l.rnn.hidden;
  if (!are_tensors(l, rows * l.rnn.in, {dx}) || !are_tensors(l, rows * l.rnn.hidden, {y, dy}) ||
      !are_tensors(l, states, {hx, dhy, dhx}) ||
      (l.rnn.is_lstm() && !are_tensors(l, states, {cx, dcy, dcx})))
    return bad(call, "a tensor leaves its memory");
  return queue(call, handle, l, "", [=] { compute_data(l, dy, dhy, dcy, dx, dhx, dcx); });
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         cudnnWgradMode_t mode, const int32_t lengths[],
                                         cudnnRNNDataDescriptor_t x_desc, const void* x,
                                         cudnnTensorDescriptor_t h_desc, const void* hx,
                                         cudnnRNNDataDescriptor_t y_desc, const void* y,
                                         size_t weight_bytes, void* gradients, size_t bytes,
                                         void* workspace, size_t reserve_bytes, void* reserve) {
  const char* const call = "cudnnRNNBackwardWeights_v8";
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  if (mode != CUDNN_WGRAD_MODE_ADD) return CUDNN_STATUS_NOT_SUPPORTED;
  const Layer l = {*rnn, *x_desc, x, hx, nullptr, nullptr, const_cast<void*>(y), reserve};
  if (const char* why = problem(handle, l, lengths, *x_desc, *y_desc, *h_desc, weight_bytes,
                                CUDNN_FWD_MODE_TRAINING, bytes, workspace, reserve_bytes))
    return bad(call, why);
  const int64_t rows = l.data.steps * l.data.batch;
  if (!are_tensors(l, rows * l.rnn.in, {x}) || !are_tensors(l, rows * l.rnn.hidden, {y}) ||
      !are_tensors(l, l.data.batch * l.rnn.hidden, {hx}) ||
      !are_tensors(l, RnnWeights(l.rnn).count(), {gradients}))
    return bad(call, "a tensor leaves its memory");
  return queue(call, handle, l, "", [=] { compute_weights(l, gradients); });
}
