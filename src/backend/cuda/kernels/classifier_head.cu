// The last layers of a classifier, its loss and their gradients in one block (see
// backend/fused/classifier_head.h). All weights are loaded into shared memory at once, beside the
// activations and their gradients; from there on the block waits for nothing but its barriers.
//
// The floor on an H200 for 120 -> 84 -> 10 at batch 4: 44 KB in and out by one multiprocessor, at
// some 64 bytes a clock 0.8 us; 131,000 multiply-adds of 128 lanes, each with a load or two from
// shared memory, 1.5 us; eight barriers and two accesses to memory, 1.5 us. Six launches would take
// 12 us at least.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cuda/device/async_copy.cuh"
#include "backend/cuda/gemm/few_rows.cuh"
#include "backend/cuda/reduce/class_loss_rows.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/fused/classifier_head.h"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::HeadMemory;
using backend::kHeadThreads;
using backend::kMaxHeadLayers;

struct HeadLayer {
  const float *weight, *bias;  // bias: may be null
  float *y, *dw, *db;          // y and db: may be null
  int inputs, outputs;
  Divisor by_inputs;
};

struct Head {
  const float* x;
  int64_t x_row;
  float* dx;  // may be null
  int rows, layers;
  HeadLayer layer[kMaxHeadLayers];
  HeadMemory at;
  Rows<float> loss_rows;
  LossShape shape;
  float* loss;
};

__device__ inline float plus(float a, float b) { return a + b; }

/// Starts copying `count` neighbouring numbers to shared memory.
__device__ inline void load(const float* from, int count, float* to) {
  const int threads = static_cast<int>(blockDim.x), t = static_cast<int>(threadIdx.x);
  const auto both = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  const int packs = both % 16 == 0 ? count / 4 : 0;
  for (int i = t; i < packs; i += threads) copy_async<16>(to + 4 * i, from + 4 * i);
  for (int i = 4 * packs + t; i < count; i += threads) copy_async<4>(to + i, from + i);
}

/// The layer's outputs: a warp for each, and some rows of x.
__device__ inline void forward(const Head& head, int k, float* shared) {
  const HeadLayer& l = head.layer[k];
  const bool relu = k + 1 < head.layers;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const float* const x = shared + head.at.activations[k];
  float* const y = shared + head.at.activations[k + 1];
  const int chunks = (head.rows + kFewRows - 1) / kFewRows;
  for (int i = warp; i < l.outputs * chunks; i += kHeadThreads / kWarpThreads) {
    const int o = i % l.outputs, first = i / l.outputs * kFewRows;
    const float* const w = shared + head.at.weights[k] + o * l.inputs;
    float sum[kFewRows] = {};
    for (int at = lane; at < l.inputs; at += kWarpThreads)
#pragma unroll
      for (int r = 0; r < kFewRows; ++r)
        sum[r] += w[at] * x[std::min(first + r, head.rows - 1) * l.inputs + at];
#pragma unroll
    for (int r = 0; r < kFewRows; ++r) {
      float total = combine_lanes(sum[r], kWarpThreads, plus);
      if (lane != r || first + r >= head.rows) continue;
      if (l.bias) total += shared[head.at.biases[k] + o];
      if (relu && total < 0) total = 0;  // NaN stays
      y[(first + r) * l.outputs + o] = total;
      if (l.y) l.y[(first + r) * l.outputs + o] = total;
    }
  }
}

/// dw and db of a layer.
__device__ inline void grad_weight(const Head& head, int k, const float* shared) {
  const HeadLayer& l = head.layer[k];
  const float* const x = shared + head.at.activations[k];
  const float* const dz = shared + head.at.gradients[k];
  for (int i = static_cast<int>(threadIdx.x); i < l.outputs * l.inputs; i += kHeadThreads) {
    const int o = static_cast<int>(l.by_inputs.quotient(static_cast<uint32_t>(i)));
    const int column = i - o * l.inputs;
    float sum = 0;
#pragma unroll 4
    for (int n = 0; n < head.rows; ++n) sum += dz[n * l.outputs + o] * x[n * l.inputs + column];
    l.dw[i] = sum;
  }
  if (!l.db) return;
  for (int o = static_cast<int>(threadIdx.x); o < l.outputs; o += kHeadThreads) {
    float sum = 0;
    for (int n = 0; n < head.rows; ++n) sum += dz[n * l.outputs + o];
    l.db[o] = sum;
  }
}

/// dx of a layer: the gradient of the layer before, or that of the head's input. Threads share a
/// sum where there are enough of them.
__device__ inline void grad_x(const Head& head, int k, float* shared) {
  const HeadLayer& l = head.layer[k];
  const float* const weight = shared + head.at.weights[k];
  const float* const dz = shared + head.at.gradients[k];
  const float* const x = shared + head.at.activations[k];
  const int items = head.rows * l.inputs, t = static_cast<int>(threadIdx.x);
  const auto part = [&](int item, int split, int splits) {
    const int n = static_cast<int>(l.by_inputs.quotient(static_cast<uint32_t>(item)));
    const int column = item - n * l.inputs;
    float sum = 0;
#pragma unroll 4
    for (int o = split; o < l.outputs; o += splits)
      sum += dz[n * l.outputs + o] * weight[o * l.inputs + column];
    return sum;
  };
  const auto store = [&](int item, float value) {
    if (k == 0)
      head.dx[item] = value;
    else  // through the ReLU that made x
      shared[head.at.gradients[k - 1] + item] = x[item] <= 0 ? 0.0f : value;
  };
  const int splits = items > 0 ? std::min(4, kHeadThreads / items) : 0;
  if (splits <= 1) {
    for (int item = t; item < items; item += kHeadThreads) store(item, part(item, 0, 1));
  } else {
    float* const partial = shared + head.at.scratch;
    const int split = t / items;
    if (split < splits) partial[t] = part(t - split * items, split, splits);
    __syncthreads();
    if (t < items) {
      float sum = partial[t];
      for (int i = 1; i < splits; ++i) sum += partial[t + i * items];
      store(t, sum);
    }
  }
}

__global__ void __launch_bounds__(kHeadThreads)
    classifier_head_kernel(Head head, Fault* fault, const char* op) {
  begin_kernel();
  float* const shared = shared_memory<float>();
  const int t = static_cast<int>(threadIdx.x);
  for (int k = 0; k < head.layers; ++k) {
    const HeadLayer& l = head.layer[k];
    load(l.weight, l.outputs * l.inputs, shared + head.at.weights[k]);
    if (l.bias) load(l.bias, l.outputs, shared + head.at.biases[k]);
  }
  const int inputs = head.layer[0].inputs, last = head.layers - 1;
  for (int n = 0; n < head.rows; ++n)
    load(head.x + n * head.x_row, inputs, shared + head.at.activations[0] + n * inputs);
  int64_t* const labels = reinterpret_cast<int64_t*>(shared + head.at.labels);
  for (int n = t; n < head.rows; n += kHeadThreads)
    copy_async<8>(labels + n, head.loss_rows.label + n);
  wait_for_copies();
  __syncthreads();

  for (int k = 0; k < head.layers; ++k) {
    forward(head, k, shared);
    __syncthreads();
  }
  Rows<float> rows = head.loss_rows;
  rows.x = shared + head.at.activations[head.layers];
  rows.label = labels;
  block_loss(rows, head.shape, head.loss, shared + head.at.gradients[last], fault, op,
             reinterpret_cast<double*>(shared + head.at.scratch));
  __syncthreads();
  for (int k = last; k >= 0; --k) {
    grad_weight(head, k, shared);
    if (k > 0 || head.dx) grad_x(head, k, shared);
    __syncthreads();
  }
}

/// What the kernel may take of a device: 64 KiB of compute capability 7.5.
int head_shared_bytes(int device) {
  int granted = 0;
  BRIM_CUDA(cudaDeviceGetAttribute(&granted, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return std::min(granted, static_cast<int>(backend::kHeadSharedBytes));
}

void classifier_head(const Context& context, const Tensor& x, std::span<const Tensor> weights,
                     std::span<const Tensor> biases, const Tensor& target,
                     const Tensor& class_weight, std::span<Tensor> outputs, Tensor& loss,
                     Tensor& dx, std::span<Tensor> dweights, std::span<Tensor> dbiases,
                     const ClassLoss& options) {
  const auto address = [](const Tensor& t) {
    return t.defined() ? static_cast<float*>(t.raw()) : nullptr;
  };
  std::vector<Shape> shapes;
  for (const Tensor& w : weights) shapes.push_back(w.shape());
  const int64_t rows = x.shape()[0];
  if (!backend::classifier_head_is_fast(rows, shapes))
    cannot_launch("classifier_head", "these layers are too large for one block");
  Head head{.x = address(x),
            .x_row = x.strides()[0],
            .dx = address(dx),
            .rows = static_cast<int>(rows),
            .layers = static_cast<int>(weights.size()),
            .at = HeadMemory(rows, shapes),
            .loss_rows = Rows<float>(rows, shapes.back()[0], target, class_weight, options),
            .shape = options.shape,
            .loss = address(loss)};
  for (size_t k = 0; k < weights.size(); ++k)
    head.layer[k] = {.weight = address(weights[k]),
                     .bias = address(biases[k]),
                     .y = address(outputs[k]),
                     .dw = address(dweights[k]),
                     .db = address(dbiases[k]),
                     .inputs = static_cast<int>(shapes[k][1]),
                     .outputs = static_cast<int>(shapes[k][0]),
                     .by_inputs = Divisor(static_cast<uint32_t>(shapes[k][1]))};
  const size_t bytes = static_cast<size_t>(head.at.total) * sizeof(float);
  const DeviceGuard guard(context.device().index);
  // The same at each launch: another thread's must not lower it in between.
  BRIM_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(&classifier_head_kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 head_shared_bytes(context.device().index)));
  launch_blocks(context, &classifier_head_kernel, Grid{dim3(1), dim3(kHeadThreads), bytes}, head,
                fault_of(context.device().index), "cross_entropy");
}

/// Whether every device grants a block that much.
bool fits_every_device(const backend::HeadSize& size) {
  int devices = 0;
  BRIM_CUDA(cudaGetDeviceCount(&devices));
  for (int i = 0; i < devices; ++i)
    if (size.shared_bytes > head_shared_bytes(i)) return false;
  return true;
}

const bool registered =
    backend::register_kernel("classifier_head", DeviceKind::cuda, DType::f32, &classifier_head) &&
    backend::register_limit<backend::HeadSize>("classifier_head", DeviceKind::cuda,
                                               &fits_every_device);

}  // namespace
}  // namespace brim::cuda
