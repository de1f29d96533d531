#include "backend/cpu/conv/conv_dnnl.h"

#if BRIM_HAVE_DNNL

#include <omp.h>

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "core/check.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;
using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

const dnnl::engine& engine() {
  static const auto* value = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *value;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// oneDNN 2 describes an operation first; oneDNN 3 makes its primitive from the same arguments.
using Forward = dnnl::convolution_forward;

template <class... Args>
Forward::primitive_desc describe_forward(const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), dnnl::prop_kind::forward_training, args..., user_scratchpad()};
#else
  return {Forward::desc(dnnl::prop_kind::forward_training, args...), user_scratchpad(), engine()};
#endif
}

template <class Gradient, class... Args>
typename Gradient::primitive_desc describe_gradient(const Forward::primitive_desc& forward,
                                                    const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), args..., forward, user_scratchpad()};
#else
  return {typename Gradient::desc(args...), user_scratchpad(), engine(), forward};
#endif
}

/// One tensor of a pass: its plain (row-major) form, which brim's tensors have, and the form that
/// the kernel wants.
struct Operand {
  Desc plain, wanted, scratchpad;
  dnnl::reorder reorder;  // to the wanted form, or back from it for the result
  bool blocked = false;   // the forms differ
  int argument = 0;

  Operand() = default;
  Operand(const Desc& from, const Desc& to, bool result, int name)
      : plain(from), wanted(to), blocked(plain != wanted), argument(name) {
    if (!blocked) return;
    const Desc &source = result ? wanted : plain, &target = result ? plain : wanted;
    const dnnl::reorder::primitive_desc pd(engine(), source, engine(), target, user_scratchpad());
    scratchpad = pd.scratchpad_desc();
    reorder = dnnl::reorder(pd);
  }
  size_t bytes() const { return blocked ? wanted.get_size() : 0; }
};

/// What oneDNN needs for one pass over a slice of the batch.
struct Plan {
  Plan(ConvPass pass, const ConvGeometry& g, bool with_bias);

  Operand a, b, out;
  Desc bias, scratchpad;
  dnnl::primitive primitive;
};

/// oneDNN plans for as many threads as OpenMP has, and starts them whatever their number is later.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

Plan::Plan(ConvPass pass, const ConvGeometry& g, bool with_bias) {
  const OneThread alone;
  const auto f32 = dnnl::memory::data_type::f32;
  const bool grouped = g.groups > 1;
  const Dims x{g.n, g.c, g.h, g.w}, y{g.n, g.o, g.oh, g.ow};
  const Dims w = grouped ? Dims{g.groups, g.o_per_group(), g.c_per_group(), g.kh, g.kw}
                         : Dims{g.o, g.c, g.kh, g.kw};
  const Desc any_x(x, f32, Tag::any), any_y(y, f32, Tag::any), any_w(w, f32, Tag::any);
  const Desc plain_x(x, f32, Tag::nchw), plain_y(y, f32, Tag::nchw),
      plain_w(w, f32, grouped ? Tag::goihw : Tag::oihw);
  if (with_bias) bias = Desc({g.o}, f32, Tag::x);
  const Dims stride{g.stride.h, g.stride.w}, dilation{g.dilation.h - 1, g.dilation.w - 1};
  const Dims before{g.padding.h, g.padding.w};
  // What the kernel's last step needs beyond the image; less than the padding where a stride skips
  // the end.
  const auto after = [](int64_t steps, int64_t s, int64_t k, int64_t d, int64_t in, int64_t pad) {
    return (steps - 1) * s + (k - 1) * d + 1 - in - pad;
  };
  const Dims behind{after(g.oh, g.stride.h, g.kh, g.dilation.h, g.h, g.padding.h),
                    after(g.ow, g.stride.w, g.kw, g.dilation.w, g.w, g.padding.w)};
  const auto direct = dnnl::algorithm::convolution_direct;
  const Forward::primitive_desc forward =
      with_bias
          ? describe_forward(direct, any_x, any_w, bias, any_y, stride, dilation, before, behind)
          : describe_forward(direct, any_x, any_w, any_y, stride, dilation, before, behind);
  switch (pass) {
    case ConvPass::forward:
      a = Operand(plain_x, forward.src_desc(), false, DNNL_ARG_SRC);
      b = Operand(plain_w, forward.weights_desc(), false, DNNL_ARG_WEIGHTS);
      out = Operand(plain_y, forward.dst_desc(), true, DNNL_ARG_DST);
      scratchpad = forward.scratchpad_desc();
      primitive = Forward(forward);
      return;
    case ConvPass::grad_x: {
      using Backward = dnnl::convolution_backward_data;
      const auto pd = describe_gradient<Backward>(forward, direct, any_x, any_w, any_y, stride,
                                                  dilation, before, behind);
      a = Operand(plain_y, pd.diff_dst_desc(), false, DNNL_ARG_DIFF_DST);
      b = Operand(plain_w, pd.weights_desc(), false, DNNL_ARG_WEIGHTS);
      out = Operand(plain_x, pd.diff_src_desc(), true, DNNL_ARG_DIFF_SRC);
      scratchpad = pd.scratchpad_desc();
      primitive = Backward(pd);
      return;
    }
    case ConvPass::grad_weight: {
      using Backward = dnnl::convolution_backward_weights;
      const auto pd = describe_gradient<Backward>(forward, direct, any_x, any_w, any_y, stride,
                                                  dilation, before, behind);
      a = Operand(plain_x, pd.src_desc(), false, DNNL_ARG_SRC);
      b = Operand(plain_y, pd.diff_dst_desc(), false, DNNL_ARG_DIFF_DST);
      out = Operand(plain_w, pd.diff_weights_desc(), true, DNNL_ARG_DIFF_WEIGHTS);
      scratchpad = pd.scratchpad_desc();
      primitive = Backward(pd);
      return;
    }
  }
}

/// The plan of a geometry; the last kPlans used are kept.
std::shared_ptr<const Plan> plan_of(ConvPass pass, const ConvGeometry& g, bool bias) {
  constexpr size_t kPlans = 256;
  struct Entry {
    ConvPass pass;
    ConvGeometry geometry;
    bool bias;
    std::shared_ptr<const Plan> plan;
  };
  // Never destroyed: streams of virtual accelerators may still work while the process ends.
  static auto& mutex = *new std::mutex;
  static auto& entries = *new std::list<Entry>;  // the most recently used first
  const std::lock_guard lock(mutex);
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) {
    return e.pass == pass && e.bias == bias && e.geometry == g;
  });
  if (found != entries.end()) {
    entries.splice(entries.begin(), entries, found);
  } else {
    entries.push_front({pass, g, bias, std::make_shared<const Plan>(pass, g, bias)});
    if (entries.size() > kPlans) entries.pop_back();
  }
  return entries.front().plan;
}

dnnl::memory memory(const Desc& desc, const void* data) {
  return dnnl::memory(desc, engine(), const_cast<void*>(data));
}

/// Memory of one part, cut into pieces from the front.
struct Pieces {
  static constexpr size_t kAlign = 64;
  static size_t size_of(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
  char* at;
  void* take(size_t bytes) {
    void* piece = at;
    at += size_of(bytes);
    return piece;
  }
};

/// Runs reorders and the primitive in the calling thread only: the threads are ours.
class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan), stream_(engine()) {}

  /// `data` in the form that the kernel wants, in `scratch` if that is another.
  dnnl::memory wanted(const Operand& operand, const float* data, void* scratch) const {
    if (!operand.blocked) return memory(operand.plain, data);
    dnnl::memory from = memory(operand.plain, data), to = memory(operand.wanted, scratch);
    reorder(operand, from, to);
    return to;
  }
  void reorder(const Operand& operand, dnnl::memory& from, dnnl::memory& to) const {
    std::vector<char> pad(operand.scratchpad.get_size());  // mostly none
    operand.reorder.execute(stream_,
                            {{DNNL_ARG_FROM, from},
                             {DNNL_ARG_TO, to},
                             {DNNL_ARG_SCRATCHPAD, memory(operand.scratchpad, pad.data())}});
  }
  /// One slice. `scratch` is of part_bytes().
  void execute(const dnnl::memory& a, const dnnl::memory& b, const float* bias, float* out,
               Pieces scratch) const {
    dnnl::memory result =
        memory(plan_.out.wanted, plan_.out.blocked ? scratch.take(plan_.out.bytes()) : out);
    std::unordered_map<int, dnnl::memory> arguments{
        {plan_.a.argument, a},
        {plan_.b.argument, b},
        {plan_.out.argument, result},
        {DNNL_ARG_SCRATCHPAD, memory(plan_.scratchpad, scratch.take(plan_.scratchpad.get_size()))}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, memory(plan_.bias, bias));
    plan_.primitive.execute(stream_, arguments);
    if (!plan_.out.blocked) return;
    dnnl::memory to = memory(plan_.out.plain, out);
    reorder(plan_.out, result, to);
  }

 private:
  const Plan& plan_;
  const OneThread alone_;
  mutable dnnl::stream stream_;
};

/// Images per call: the largest divisor of n that leaves at least so many slices for threads. Large
/// weights make fewer slices: each reads all of them, or adds a gradient of their size. It depends
/// on the geometry alone, and so do the sums.
int64_t slice_of(int64_t n, int64_t weights) {
  const int64_t slices = std::clamp<int64_t>((int64_t{8} << 20) / weights, 4, 16);
  int64_t slice = std::max<int64_t>(1, n / slices);
  while (n % slice != 0) --slice;
  return slice;
}

void run_pass(const Context& context, ConvPass pass, const ConvGeometry& g, const float* a,
              const float* b, const ConvEpilogue<float>& epilogue, float* out) {
  const int64_t weights = g.o * g.c_per_group() * g.kh * g.kw;
  const int64_t slice = slice_of(g.n, weights), slices = g.n / slice;
  ConvGeometry part = g;
  part.n = slice;
  const std::shared_ptr<const Plan> shared = plan_of(pass, part, epilogue.bias != nullptr);
  const Plan& plan = *shared;
  const int64_t x_size = slice * g.c * g.h * g.w, y_size = slice * g.o * g.oh * g.ow;
  const bool to_weight = pass == ConvPass::grad_weight;
  const int64_t a_step = pass == ConvPass::grad_x ? y_size : x_size;
  const int64_t b_step = to_weight ? y_size : 0;
  const int64_t out_step = to_weight ? weights : pass == ConvPass::grad_x ? x_size : y_size;

  // The weight is the same for all slices; its gradient is a sum over them, in their order.
  const Workspace shared_room =
      context.workspace(to_weight ? static_cast<size_t>(slices * weights) * sizeof(float)
                                  : std::max<size_t>(plan.b.bytes(), 1));
  dnnl::memory weight;
  if (!to_weight) {
    const Run run(plan);
    weight = run.wanted(plan.b, b, shared_room.as<void>());
  }
  float* results = to_weight ? shared_room.as<float>() : out;
  const size_t bytes = Pieces::size_of(plan.a.bytes()) + Pieces::size_of(plan.b.bytes()) +
                       Pieces::size_of(plan.out.bytes()) +
                       Pieces::size_of(plan.scratchpad.get_size());
  const int64_t grain =
      std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(1, part.work()));
  const PartScratch scratch(context, slices, grain, bytes);
  parallel_for(slices, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    const Run run(plan);
    for (int64_t i = begin; i < end; ++i) {
      Pieces pieces{slot.as<char>()};
      const dnnl::memory from = run.wanted(plan.a, a + i * a_step, pieces.take(plan.a.bytes()));
      const dnnl::memory with =
          to_weight ? run.wanted(plan.b, b + i * b_step, pieces.take(plan.b.bytes())) : weight;
      run.execute(from, with, epilogue.bias, results + i * out_step, pieces);
      // Not by oneDNN, whose ReLU makes NaN 0.
      epilogue.finish(results + i * out_step, out_step);
    }
  });
  if (!to_weight) return;
  std::copy_n(results, weights, out);
  for (int64_t i = 1; i < slices; ++i)
    for (int64_t k = 0; k < weights; ++k) out[k] += results[i * weights + k];
}

}  // namespace

bool dnnl_conv_wins(ConvPass pass, const ConvGeometry& g) {
  constexpr int64_t kBlock = 16;  // channels of a block; others are padded with zeros
  if (g.work() == 0) return false;
  const bool depthwise = g.groups > 1 && g.groups == g.c && g.c == g.o;
  if (depthwise) {
    // 1.2 to 1.4 times as fast, but for gradients of weights beyond 3 x 3, which take 8 to 13 times
    // as long (bench/micro/backend/conv_grad_bench.cpp).
    return g.c % kBlock == 0 && (pass != ConvPass::grad_weight || g.kh * g.kw <= 9);
  }
  if (g.c_per_group() % kBlock != 0 || g.o_per_group() % kBlock != 0) {
    // Few input channels: 2.2 to 2.6 times as fast for the weight, the others lose.
    return pass == ConvPass::grad_weight && g.groups == 1 && g.o % kBlock == 0 && g.o >= 2 * kBlock;
  }
  if (pass == ConvPass::grad_weight) return true;           // 1.8 to 5.8
  if (g.kh == 1 && g.kw == 1) return true;                  // 2.7 to 4.8
  if (g.stride.h > 1 || g.stride.w > 1) return true;        // 1.4 to 2.7
  return g.oh * g.ow <= 14 * 14 && g.c_per_group() >= 256;  // 1.2 to 2.8; large planes lose
}

void conv_dnnl(const Context& context, ConvPass pass, const ConvGeometry& g, const float* a,
               const float* b, const ConvEpilogue<float>& epilogue, float* out) {
  try {
    run_pass(context, pass, g, a, b, epilogue, out);
  } catch (const dnnl::error& e) {
    raise<Error>("[conv2d] oneDNN failed on x {} with weight {}: {}; report it as a bug",
                 g.x_shape().str(), g.weight_shape().str(), e.what());
  }
}

}  // namespace brim::cpu

#endif
