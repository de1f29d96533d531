// The gradient of conv2d + bias + relu + max_pool2d in one kernel (see fused_conv.h). Only the
// windows' maxima carry a gradient, a quarter of the convolution's outputs or fewer, so it goes
// through lists of them (conv_pool_grad-inl.h) instead of through planes that are mostly zeros:
// each maximum adds its gradient times what it has read to the weights, and times its weights to
// what it has read. In a channel-last image that is one run of numbers per row of the kernel.
#include "backend/fused/fused_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv_pool_grad.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <atomic>

#include "backend/cpu/conv/conv_pool_copy-inl.h"
#include "backend/cpu/conv/conv_pool_grad-inl.h"
#include "backend/cpu/conv/image_layout.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ConvGeometry;
using backend::ConvPool;
using backend::kNoIndex;
using backend::PoolGeometry;

/// Positions times channels of a band, whose groups then stay in the cache.
constexpr int64_t kBandElements = 4096;

/// The sizes of one call. Sums over images are cut into slices that depend on n alone.
struct GradPlan {
  const ConvPool& g;
  ChannelLast image;  // of one group
  Runs runs;
  Positions positions;
  int64_t out;            // channels of a group
  int64_t windows;        // of a plane
  int64_t band;           // rows of windows that go through the lists at a time
  int64_t slice, slices;  // images in a slice

  /// `with_image`: the input's gradient is asked for as well.
  GradPlan(const ConvPool& g, bool with_image)
      : g(g),
        image{g.conv.c_per_group(), g.conv.h, g.conv.w, g.conv.padding},
        runs(g.conv, image),
        positions{.kernel_w = static_cast<int32_t>(g.pool.kernel.w),
                  .numbers = static_cast<int32_t>(g.pool.kernel.h * g.pool.kernel.w),
                  .row = step(g.pool.dilation.h * g.conv.stride.h * image.row()),
                  .column = step(g.pool.dilation.w * g.conv.stride.w * image.channels),
                  .reciprocal = static_cast<int32_t>(65536 / g.pool.kernel.w + 1)},
        out(g.conv.o_per_group()),
        windows(g.pool.oh * g.pool.ow),
        band(with_image ? std::clamp<int64_t>(
                              kBandElements / std::max<int64_t>(g.pool.ow * numbers() * out, 1), 1,
                              std::max<int64_t>(g.pool.oh, 1))
                        : g.pool.oh),
        slice(std::max<int64_t>(1, ceil_div(g.conv.n, 16))),
        slices(ceil_div(g.conv.n, slice)) {}

  static int32_t step(int64_t elements) { return static_cast<int32_t>(elements); }
  int64_t image_room() const { return image.size() + kLanes; }  // runs are read in whole vectors
  int64_t list_room() const { return band * g.pool.ow + kLanes; }
  int64_t positions_room() const { return band * g.pool.ow * numbers(); }
  int64_t numbers() const { return g.pool.kernel.h * g.pool.kernel.w; }
  int64_t weights_room() const { return g.conv.o * runs.size(); }

  /// Where elements of a window lie in the image.
  void fill_offsets(int32_t* offsets) const {
    for (int64_t i = 0; i < numbers(); ++i) offsets[i] = positions(step(i));
  }

  /// Where windows start in the image; beyond the last one, anything.
  void fill_base(int32_t* base) const {
    const PoolGeometry& p = g.pool;
    for (int64_t y = 0; y < p.oh; ++y)
      for (int64_t x = 0; x < p.ow; ++x)
        *base++ = step((y * p.stride.h - p.padding.h) * g.conv.stride.h * image.row() +
                       (x * p.stride.w - p.padding.w) * g.conv.stride.w * image.channels);
    std::fill_n(base, kLanes, 0);
  }

  /// Weights (O, C, KH, KW) in the order of runs.
  void pack(const float* weights, float* packed) const {
    std::fill_n(packed, weights_room(), 0.0f);
    for_kernel_rows([&](int64_t at, int64_t in_run, int64_t step) {
      transpose(weights + at, g.conv.kh * g.conv.kw, image.channels, g.conv.kw, packed + in_run,
                step);
    });
  }
  void unpack(const float* packed, float* weights) const {
    for_kernel_rows([&](int64_t at, int64_t in_run, int64_t step) {
      transpose(packed + in_run, step, g.conv.kw, image.channels, weights + at,
                g.conv.kh * g.conv.kw);
    });
  }

 private:
  /// f(where a row of the kernel starts in the weights, where in the runs, step between pixels).
  template <class F>
  void for_kernel_rows(const F& f) const {
    const int64_t area = g.conv.kh * g.conv.kw;
    for (int64_t o = 0; o < g.conv.o; ++o)
      for (int64_t ky = 0; ky < g.conv.kh; ++ky)
        f(o * image.channels * area + ky * g.conv.kw, o * runs.size() + runs.offset(0, ky, 0),
          runs.offset(0, 0, 1));
  }
};

/// One part's scratch.
struct Scratch {
  float *image, *grad_image;
  float* dy;  // a band of one channel
  uint8_t* marks;
  LiveList list;
  Groups groups;  // only if the input's gradient is asked for

  static size_t bytes(const GradPlan& p, bool with_image) {
    const int64_t positions = with_image ? p.positions_room() : 0;
    return (with_image ? 2 : 1) * room_for<float>(p.image_room()) +
           4 * room_for<float>(p.list_room()) + room_for<uint8_t>(p.list_room()) +
           2 * room_for<float>(positions * p.out) + 3 * room_for<int32_t>(positions);
  }
  Scratch(const GradPlan& p, bool with_image, float* at) {
    const int64_t positions = with_image ? p.positions_room() : 0;
    image = at;
    grad_image = with_image ? behind<float>(image, p.image_room()) : image;
    dy = behind<float>(grad_image, p.image_room());
    marks = behind<uint8_t>(dy, p.list_room());
    list.values = behind<float>(marks, p.list_room());
    list.offsets = behind<int32_t>(list.values, p.list_room());
    list.positions = behind<int32_t>(list.offsets, p.list_room());
    groups.values = behind<float>(list.positions, p.list_room());
    groups.weights = behind<int32_t>(groups.values, positions * p.out);
    groups.counts = behind<int32_t>(groups.weights, positions * p.out);
    groups.positions = behind<int32_t>(groups.counts, positions);
    groups.offsets = behind<int32_t>(groups.positions, positions);
    groups.channels = p.out;
  }
};

/// What comes back to one image (of a group).
struct Incoming {
  Image<const float> dy;
  Image<const uint8_t> marks;
  int64_t readable;  // numbers up to the end of both, where they are row-major; else 0

  Incoming(const GradPlan& p, const Tensor& grads, const Tensor& indices, int64_t n, int64_t o)
      : dy(image_of<const float>(grads, n, o)),
        marks(image_of<const uint8_t>(indices, n, o)),
        readable(grads.is_contiguous() && indices.is_contiguous()
                     ? ((p.g.conv.n - n) * p.g.conv.o - o) * p.windows
                     : 0) {}
};

/// The arrays that all images of a call share.
struct Tables {
  int32_t* base;     // where windows start in the image
  int32_t* offsets;  // of a window's elements
  float* packed;     // weights in the order of runs
};

/// Lists the live elements of channel `o`, rows `first`... of `rows` windows.
void list_band(const GradPlan& p, const Incoming& in, const Tables& tables, int64_t o,
               int64_t first, int64_t rows, Scratch& scratch) {
  const int64_t columns = p.g.pool.ow;
  const float* dy = &in.dy(o, first, 0);
  const uint8_t* marks = &in.marks(o, first, 0);
  int64_t readable = in.readable - o * p.windows - first * columns;
  if (in.readable == 0) {
    for (int64_t y = 0, at = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x, ++at) {
        scratch.dy[at] = in.dy(o, first + y, x);
        scratch.marks[at] = in.marks(o, first + y, x);
      }
    dy = scratch.dy;
    marks = scratch.marks;
    readable = p.list_room();
  }
  list_live(dy, marks, tables.base + first * columns, rows * columns, readable, p.positions,
            scratch.list);
}

/// Adds one image's part to the sums of a group, dw (out, runs) and db (out), and, if `weights`
/// are there, its gradient to scratch.grad_image.
void add_one(const GradPlan& p, const Incoming& in, const Tables& tables, const float* weights,
             Scratch& scratch, float* dw, float* db) {
  const int64_t columns = p.g.pool.ow, run_size = p.runs.vectors * kLanes;
  if (weights) std::fill_n(scratch.grad_image, p.image_room(), 0.0f);
  for (int64_t first = 0; first < p.g.pool.oh; first += p.band) {
    const int64_t rows = std::min(p.band, p.g.pool.oh - first);
    if (weights) std::fill_n(scratch.groups.counts, rows * columns * p.numbers(), 0);
    for (int64_t o = 0; o < p.out; ++o) {
      list_band(p, in, tables, o, first, rows, scratch);
      db[o] += scratch.list.sum;
      run_blocks(p.runs, WeightSums{scratch.list, scratch.image, p.runs.row_step, run_size,
                                    dw + o * p.runs.size()});
      if (weights) scratch.groups.add(scratch.list, GradPlan::step(o * p.runs.size()));
    }
    if (!weights) continue;
    scratch.groups.list_positions(tables.base + first * columns, rows, columns, tables.offsets,
                                  p.numbers());
    run_blocks(p.runs,
               ImageSums{scratch.groups, weights, p.runs.row_step, run_size, scratch.grad_image});
  }
}

/// dw and db from the slices' sums, added in order into the first slice's.
void add_slices(const GradPlan& p, float* sums, int64_t slice_size, float* dw, Tensor& db) {
  for (int64_t s = 1; s < p.slices; ++s)
    for (int64_t i = 0; i < slice_size; ++i) sums[i] += sums[s * slice_size + i];
  p.unpack(sums, dw);
  if (!db.defined()) return;
  float* to = static_cast<float*>(db.raw());
  for (int64_t o = 0; o < p.g.conv.o; ++o) to[o * db.strides()[0]] = sums[p.weights_room() + o];
}

void conv_relu_pool_grad(const Context& context, const Tensor& x, const Tensor& weight,
                         const Tensor& dy, const Tensor& indices, Tensor& dx, Tensor& dw,
                         Tensor& db, const ConvPool& g) {
  const bool with_image = dx.defined();
  const GradPlan p(g, with_image);
  const ConvGeometry& c = g.conv;
  const int64_t slice_size = p.weights_room() + ceil_div(c.o, kLanes) * kLanes;
  const int64_t sums_size = std::max<int64_t>(p.slices, 1) * slice_size;
  const Workspace memory =
      context.workspace(room_for<int32_t>(p.windows + kLanes) + room_for<float>(sums_size) +
                        room_for<float>(p.weights_room()) + room_for<int32_t>(p.numbers()));
  int32_t* base = memory.as<int32_t>();
  float* sums = behind<float>(base, p.windows + kLanes);
  float* packed = behind<float>(sums, sums_size);
  int32_t* offsets = behind<int32_t>(packed, p.weights_room());
  const Tables tables{base, offsets, packed};
  float* to = static_cast<float*>(dw.raw());
  p.fill_base(base);
  p.fill_offsets(offsets);
  if (with_image) p.pack(static_cast<const float*>(weight.raw()), packed);
  if (p.slices == 0) {
    std::fill_n(sums, sums_size, 0.0f);
    return add_slices(p, sums, slice_size, to, db);
  }

  const int64_t units = p.slices * c.groups;
  const int64_t unit_work = c.work() / (units * p.numbers());
  const int64_t grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(unit_work, 1));
  const PartScratch parts(context, units, grain, Scratch::bytes(p, with_image));
  std::atomic<int64_t> done = 0;
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(parts);
    Scratch scratch(p, with_image, slot.as<float>());
    std::fill_n(scratch.image, p.image_room(), 0.0f);  // what images leave free stays zero
    for (int64_t u = begin; u < end; ++u) {
      const int64_t group = u % c.groups, first = u / c.groups * p.slice;
      const int64_t o = group * p.out, channel = group * p.image.channels;
      float* slice_dw = sums + u / c.groups * slice_size + o * p.runs.size();
      float* slice_db = sums + u / c.groups * slice_size + p.weights_room() + o;
      std::fill_n(slice_dw, p.out * p.runs.size(), 0.0f);
      std::fill_n(slice_db, p.out, 0.0f);
      for (int64_t n = first; n < std::min(c.n, first + p.slice); ++n) {
        const Incoming in(p, dy, indices, n, o);
        p.image.load(image_of<const float>(x, n, channel), scratch.image);
        const float* weights = with_image ? packed + o * p.runs.size() : nullptr;
        add_one(p, in, tables, weights, scratch, slice_dw, slice_db);
        if (with_image) p.image.store(scratch.grad_image, image_of<float>(dx, n, channel));
      }
    }
    // Whoever is last adds the slices: another parallel loop would cost more.
    if (done.fetch_add(end - begin, std::memory_order_acq_rel) + end - begin == units)
      add_slices(p, sums, slice_size, to, db);
  });
}

void register_conv_pool_grad() {
  backend::register_kernel("conv2d_relu_pool_grad", DeviceKind::cpu, DType::f32,
                           &conv_relu_pool_grad);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_conv_pool_grad);
#endif
