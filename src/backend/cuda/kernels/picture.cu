// picture_batch: a block row of the grid makes one sample; a thread makes four neighbouring pixels
// of a row, so that what is written goes out in accesses of 16 bytes. The last block to end moves
// the position on, which every block has read by then: position[1] counts those that are done.
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/runtime/fault.cuh"
#include "backend/options/picture_options.h"
#include "formula/picture.h"

namespace brim::cuda {
namespace {

using backend::PictureOptions;
using formula::PictureWindow;

struct Sizes {
  int64_t pictures, windows, samples;
  int height, width, rows, columns;
};

struct Scale {
  float mean[3], std[3];
  uint8_t fill;
};

/// For the blocks of a grid, each once all its threads have read the position.
__device__ inline void move_on(int64_t* position, int64_t advance) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  using Count = unsigned long long;  // atomicAdd has no signed one of 64 bits
  const Count blocks = static_cast<Count>(gridDim.x) * gridDim.y;
  if (atomicAdd(reinterpret_cast<Count*>(position + 1), Count{1}) != blocks - 1) return;
  position[0] += advance;
  position[1] = 0;
}

/// `Width` divides the columns of a row. A barrier only where the position moves.
template <int Width>
__global__ void picture_kernel(Sizes size, Scale scale, int64_t offset, int64_t advance,
                               const uint8_t* pictures, const int64_t* labels,
                               const PictureWindow* windows, int64_t* position, float* x,
                               int64_t* y, Fault* fault, const char* op) {
  begin_kernel();
  using Result = Pack<float, Width>;
  const int packs_of_row = size.columns / Width, packs = 3 * size.rows * packs_of_row;
  const int64_t begin = position[0] + offset;
  for (int64_t sample = blockIdx.y; sample < size.samples; sample += gridDim.y) {
    if (begin + sample < 0 || begin + sample >= size.windows) {
      report(fault, {.kind = FaultKind::index,
                     .text = op,
                     .axis = 0,
                     .value = begin + sample,
                     .size = size.windows});
      break;
    }
    const PictureWindow window = windows[begin + sample];
    if (window.picture < 0 || window.picture >= size.pictures) {
      report(fault, {.kind = FaultKind::index,
                     .text = op,
                     .axis = 0,
                     .value = window.picture,
                     .size = size.pictures});
      break;
    }
    const uint8_t* const from = pictures + window.picture * (int64_t{3} * size.height * size.width);
    auto* const to = reinterpret_cast<Result*>(x) + sample * packs;
    const int first = static_cast<int>(first_index());
    if (first == 0) y[sample] = labels[window.picture];
    for (int i = first; i < packs; i += static_cast<int>(gridDim.x * blockDim.x)) {
      const int line = i / packs_of_row, column = i % packs_of_row * Width;
      const int channel = line / size.rows, row = window.y + line % size.rows;
      const bool row_there = row >= 0 && row < size.height;
      const uint8_t* const source = from + (int64_t{channel} * size.height + row) * size.width;
      Result result;
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const int at = formula::source_column(window, size.columns, column + k);
        const uint8_t byte = row_there && at >= 0 && at < size.width ? source[at] : scale.fill;
        result.at[k] = formula::normalized(byte, scale.mean[channel], scale.std[channel]);
      }
      to[i] = result;
    }
  }
  if (advance != 0) move_on(position, advance);
}

template <int Width>
void run(const Context& context, const Sizes& size, const Scale& scale,
         const PictureOptions& options, const Tensor& pictures, const Tensor& labels,
         const Tensor& windows, Tensor& position, Tensor& x, Tensor& y) {
  constexpr int64_t kMaxRows = 65535;
  static constexpr const char* kOp = "picture_batch";  // the host's: the kernel hands it back to it
  Grid grid = grid_for(int64_t{3} * size.rows * (size.columns / Width));
  grid.blocks.y = static_cast<unsigned>(std::clamp<int64_t>(size.samples, 1, kMaxRows));
  const auto queue = [&](auto launcher) {
    launcher(context, &picture_kernel<Width>, grid, size, scale, options.offset, options.advance,
             data<const uint8_t>(pictures), data<const int64_t>(labels),
             data<const PictureWindow>(windows), data<int64_t>(position), data<float>(x),
             data<int64_t>(y), fault_of(context.device().index), kOp);
  };
  if (options.advance != 0)
    queue([](const auto&... args) { launch_blocks(args...); });
  else
    queue([](const auto&... args) { launch(args...); });
}

void picture_batch(const Context& context, const Tensor& pictures, const Tensor& labels,
                   const Tensor& windows, Tensor& position, Tensor& x, Tensor& y,
                   const PictureOptions& options) {
  if (y.numel() == 0 && options.advance == 0) return;
  const Shape &in = pictures.shape(), &out = x.shape();
  const Sizes size{in[0],
                   windows.shape()[0],
                   out[0],
                   static_cast<int>(in[2]),
                   static_cast<int>(in[3]),
                   static_cast<int>(out[2]),
                   static_cast<int>(out[3])};
  Scale scale{.fill = options.fill};
  for (size_t c = 0; c < 3; ++c) scale.mean[c] = options.mean[c], scale.std[c] = options.std[c];
  const auto make = size.columns % 4 == 0 && is_aligned(x.raw(), 16) ? &run<4> : &run<1>;
  make(context, size, scale, options, pictures, labels, windows, position, x, y);
}

const bool registered =
    backend::register_kernel("picture_batch", DeviceKind::cuda, DType::f32, &picture_batch);

}  // namespace
}  // namespace brim::cuda
