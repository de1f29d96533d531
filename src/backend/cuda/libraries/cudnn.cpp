// Convolutions by cuDNN 9. Of the algorithms that its heuristics propose those are tried whose
// results repeat themselves, bit for bit: that excludes CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 and _3
// and CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, which add with atomics, and whatever else cuDNN calls
// non-deterministic. For 16 bits those only that add products of the operands themselves. Beside
// them, the engines of the backend API are tried (cudnn_plan.h).
#include "backend/cuda/libraries/dnn.h"

#if BRIM_HAVE_CUDNN
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/libraries/cudnn_handle.h"
#include "backend/cuda/libraries/cudnn_operation.h"
#include "backend/cuda/libraries/open.h"

namespace brim::cuda {
namespace {

using namespace dnn;

constexpr int kProposals = 8;

/// The convolutions of one device.
class Convolutions {
 public:
  explicit Convolutions(Handle& library) : library_(library) {}

  bool run(const Context& context, const DnnConv& c, const Work& own) {
    const std::lock_guard lock(library_.mutex);
    const DeviceGuard guard(context.device().index);
    Operation* operation = known_.find(key_of(c));
    if (!operation)
      operation = &known_.add(
          key_of(c), found_or(Operation(), text_of(c), [&] { return find(context, c, own); }));
    if (!operation->possible || operation->no_room.lasts()) return false;
    try {
      if (!(operation->plan ? queue(context, c, *operation->plan)
                            : queue(context, c, *operation, operation->algorithm))) {
        (void)cudaGetLastError();  // that the refusal may have left
        refused(c, *operation);
        return false;
      }
    } catch (const OutOfMemory& e) {
      if (operation->workspace() == 0 && !c.convert_weights) throw;
      operation->no_room.begins("cuDNN", "x " + c.geometry.x_shape().str(), e);
      return false;
    }
    note_queued(context.device().index);
    return true;
  }

  /// Whether the convolution was met before, so that it may be queued into a graph.
  bool knows(const DnnConv& c) {
    const std::lock_guard lock(library_.mutex);
    return known_.find(key_of(c)) != nullptr;
  }

 private:
  /// The heuristics' proposals that may be used, best first.
  template <class Perf, class Get, class Size>
  std::vector<Algorithm> usable(const DnnConv& c, const Operation& r, const Get& get,
                                const Size& size) const {
    std::array<Perf, kProposals> all{};
    int count = 0;
    const cudnnStatus_t asked = get(kProposals, &count, all.data());
    // Means, too, that it cannot do it; the caller warns.
    if (CUDNN_STATUS_CATEGORY(asked) == CUDNN_STATUS_BAD_PARAM ||
        !is_supported(asked, "cudnnGetConvolution*Algorithm_v7"))
      return {};
    std::vector<Algorithm> result;
    for (const Perf& p : std::span(all).first(static_cast<size_t>(count))) {
      const auto math = math_of(c, p.mathType);
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC || !math)
        continue;
      if (size_of(c.dtype) == 2 && !adds_products(p.algo)) continue;
      check(library().set_math(r.conv.get(), *math), "cudnnSetConvolutionMathType");
      Algorithm algorithm{static_cast<int>(p.algo), *math, 0};
      if (is_supported(size(p.algo, &algorithm.workspace), "cudnnGetConvolution*WorkspaceSize") &&
          algorithm.workspace <= kMaxWorkspace)
        result.push_back(algorithm);
    }
    return result;
  }

  std::vector<Algorithm> proposals(const DnnConv& c, const Operation& r) const {
    const auto x = r.x.get(), y = r.y.get();
    const auto weight = r.weight.get();
    const auto conv = r.conv.get();
    const cudnnHandle_t handle = library_.get();
    switch (c.pass) {
      case ConvPass::forward:
        return usable<cudnnConvolutionFwdAlgoPerf_t>(
            c, r,
            [&](int max_count, int* count, auto* all) {
              return library().forward_algorithm(handle, x, weight, conv, y, max_count, count, all);
            },
            [&](auto algo, size_t* bytes) {
              return library().forward_workspace(handle, x, weight, conv, y, algo, bytes);
            });
      case ConvPass::grad_x:
        return usable<cudnnConvolutionBwdDataAlgoPerf_t>(
            c, r,
            [&](int max_count, int* count, auto* all) {
              return library().grad_x_algorithm(handle, weight, y, conv, x, max_count, count, all);
            },
            [&](auto algo, size_t* bytes) {
              return library().grad_x_workspace(handle, weight, y, conv, x, algo, bytes);
            });
      case ConvPass::grad_weight:
        return usable<cudnnConvolutionBwdFilterAlgoPerf_t>(
            c, r,
            [&](int max_count, int* count, auto* all) {
              return library().grad_weight_algorithm(handle, x, y, conv, weight, max_count, count,
                                                     all);
            },
            [&](auto algo, size_t* bytes) {
              return library().grad_weight_workspace(handle, x, y, conv, weight, algo, bytes);
            });
    }
    return {};
  }

  Operation find(const Context& context, const DnnConv& c, const Work& own) const {
    Operation r = describe(c);
    const std::vector<Algorithm> all = proposals(c, r);
    std::vector<Candidate> candidates;
    int tried = 0, queued = 0;  // proposals
    for (const Algorithm& algorithm : all)
      candidates.push_back(
          {fmt::format("{} {}", algorithm.number, static_cast<int>(algorithm.math)),
           [&, this](const Context& at) {
             ++tried;
             const bool is_queued = queue(at, c, r, algorithm);
             queued += is_queued;
             return is_queued;
           }});
    std::vector<ConvPlan> plans = conv_plans(library_.get(), c);
    for (ConvPlan& plan : plans)
      candidates.push_back({plan.engine.name(), [&, this](const Context& at) {
                              ++tried;
                              const bool is_queued = queue(at, c, plan);
                              queued += is_queued;
                              return is_queued;
                            }});
    if (static_cast<double>(c.geometry.work()) < kMaxForOwn)
      candidates.push_back({"own", [&](const Context& at) {
                              own(at);
                              return true;
                            }});
    const int best = choose(library_.choices, problem_of(c), candidates, context.stream);
    const size_t proposed = all.size() + plans.size();
    if (best < 0 || proposed == 0 || (tried > 0 && queued == 0)) refused(c, r);
    const auto chosen = static_cast<size_t>(best);
    if (best < 0 || chosen >= proposed) return r;
    if (chosen < all.size())
      r.algorithm = all[chosen];
    else
      r.plan = std::move(plans[chosen - all.size()]);
    r.possible = true;
    return r;
  }

  static void refused(const DnnConv& c, Operation& operation) {
    operation.possible = false;
    warn(fmt::format(
        "[{}] cuDNN has no algorithm that works and whose results repeat themselves for "
        "{}: brim's own kernel computes it",
        op_name(), text_of(c)));
  }
  static std::string text_of(const DnnConv& c) {
    return fmt::format("x {}, weight {} in {} {}", c.geometry.x_shape().str(),
                       c.geometry.weight_shape().str(), name(c.dtype), c.nhwc ? "nhwc" : "nchw");
  }

  /// False where cuDNN does not support it; what was queued by then is of no use, and no harm.
  bool queue(const Context& context, const DnnConv& c, const Operation& r,
             const Algorithm& algorithm) const {
    check(library().set_math(r.conv.get(), algorithm.math), "cudnnSetConvolutionMathType");
    const void *one = dnn::one(c.dtype), *zero = dnn::zero(c.dtype);
    return queue(context, c, algorithm.workspace, false,
                 [&](cudnnHandle_t handle, void* weight, void* scratch) {
                   return compute(handle, c, r, algorithm, weight, scratch, one, zero);
                 });
  }
  bool queue(const Context& context, const DnnConv& c, ConvPlan& plan) const {
    if (!plan.engine.make(library_.get())) return false;
    return queue(context, c, plan.engine.workspace(), plan.has_epilogue,
                 [&](cudnnHandle_t handle, void* weight, void* scratch) {
                   return plan.queue(handle, c, weight, scratch);
                 });
  }
  /// What both have around `compute(handle, weight, scratch)`.
  template <class Compute>
  bool queue(const Context& context, const DnnConv& c, size_t workspace, bool has_epilogue,
             const Compute& compute) const {
    const Workspace scratch = context.workspace(std::max<size_t>(workspace, 1));
    std::optional<Workspace> converted;
    void* weight = c.weight;
    if (c.convert_weights) {
      const auto bytes = static_cast<size_t>(c.geometry.weight_shape().numel()) * size_of(c.dtype);
      converted.emplace(bytes, context.stream, context.scratch);
      weight = converted->as<void>();
      if (c.pass != ConvPass::grad_weight) c.convert_weights(context, c.weight, weight);
    }
    if (!compute(library_.on(context.stream), weight, scratch.as<void>())) return false;
    if (c.convert_weights && c.pass == ConvPass::grad_weight)
      c.convert_weights(context, weight, c.weight);
    if (c.epilogue && !has_epilogue) c.epilogue(context);
    return true;
  }

  bool compute(cudnnHandle_t handle, const DnnConv& c, const Operation& r,
               const Algorithm& algorithm, void* weight, void* scratch, const void* one,
               const void* zero) const {
    const auto x = r.x.get(), y = r.y.get();
    const auto filter = r.weight.get();
    const auto conv = r.conv.get();
    const size_t bytes = algorithm.workspace;
    switch (c.pass) {
      case ConvPass::forward:
        return is_supported(
            library().forward(handle, one, x, c.x, filter, weight, conv,
                              static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number), scratch,
                              bytes, zero, y, c.y),
            "cudnnConvolutionForward");
      case ConvPass::grad_x:
        return is_supported(
            library().grad_x(handle, one, filter, weight, y, c.y, conv,
                             static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), scratch,
                             bytes, zero, x, c.x),
            "cudnnConvolutionBackwardData");
      case ConvPass::grad_weight:
        return is_supported(
            library().grad_weight(handle, one, x, c.x, y, c.y, conv,
                                  static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number),
                                  scratch, bytes, zero, filter, weight),
            "cudnnConvolutionBackwardFilter");
    }
    return false;
  }

  Handle& library_;
  ProblemCache<Key, Operation> known_;
};

/// nullptr where the library was not used yet and may not be begun now. Never destroyed, as it.
Convolutions* convolutions_of(int device, bool may_begin) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Convolutions>>;
  const std::lock_guard lock(mutex);
  auto& convolutions = (*all)[device];
  if (!convolutions)
    if (Handle* const handle = handle_of(device, may_begin))
      convolutions = std::make_unique<Convolutions>(*handle);
  return convolutions.get();
}

}  // namespace

bool dnn_conv(const Context& context, const DnnConv& c, const Work& own) {
  const ConvGeometry& g = c.geometry;
  if (g.work() < small_work()) return false;
  // cuDNN counts in int.
  for (const Shape& shape : {g.x_shape(), g.weight_shape(), g.y_shape()})
    if (shape.numel() > INT32_MAX) return false;
  if (!are_ints({g.kh, g.kw, g.stride.h, g.stride.w, g.padding.h, g.padding.w, g.dilation.h,
                 g.dilation.w}))
    return false;
  if (!library().is_there("convolutions")) return false;
  const auto starts_badly = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 != 0; };
  if (starts_badly(c.x) || starts_badly(c.weight) || starts_badly(c.y)) {
    static std::once_flag warned;
    std::call_once(warned, [&] {
      warn(
          fmt::format("[{}] x {}, weight {} or y is a view that does not begin at a multiple of 16 "
                      "bytes, where cuDNN could compute: brim's own, slower kernel does; clone() "
                      "the view before",
                      op_name(), g.x_shape().str(), g.weight_shape().str()));
    });
    return false;
  }
  const bool captured = is_captured(context.stream);
  Convolutions* const known = convolutions_of(context.device().index, !captured);
  if (captured && (!known || !known->knows(c))) {
    warn_of_capture();
    return false;
  }
  return known && known->run(context, c, own);
}

std::string dnn_problem() { return library().problem(); }
std::string dnn_version() {
  return library().problem().empty() ? fmt::format("cuDNN {}", library().version()) : "no cuDNN";
}

}  // namespace brim::cuda

#else

namespace brim::cuda {

std::string dnn_problem() {
  return "the backend was built without cuDNN's headers (cudnn.h); build it where they are";
}

}  // namespace brim::cuda

#endif
