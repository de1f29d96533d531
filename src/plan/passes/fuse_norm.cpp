// batch_norm -> [add ->] relu becomes one launch, and so do relu_grad -> batch_norm_grad. What lies
// between never reaches memory; the mask of the ReLU is worked out again from x where it can be and
// nothing that it depends on has changed since.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/fused_norm.h"
#include "backend/has_kernel.h"
#include "formula/formula.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

// Operands of the launches that are looked for.
enum BatchNormOperand : size_t {
  kX,
  kWeight,
  kBias,
  kFixedMean,
  kFixedVar,
  kRunningMean,
  kRunningVar,
  kY,
  kMean,
  kScale
};
constexpr size_t kFusedResidual = 5, kFusedY = 8, kFusedMean = 9, kFusedScale = 10;
enum BatchNormGradOperand : size_t {
  kGradDy,
  kGradX,
  kGradWeight,
  kGradMean,
  kGradScale,
  kGradDx,
  kGradDWeight,
  kGradDBias
};

bool overlap(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.storage() == b.storage();
}

/// True if `launch` could stand at `to` instead of `from`: what lies between neither writes what it
/// uses nor reads what it writes. `gone` is left out of account.
bool can_move(const Program& program, const Launch& launch, int from, int to, int gone = -1) {
  const int first = std::min(from, to), last = std::max(from, to);
  for (int i = first; i <= last; ++i) {
    if (i == from || i == to || i == gone || !program.launches[static_cast<size_t>(i)]) continue;
    for (const Operand& theirs : program.launches[static_cast<size_t>(i)]->operands())
      for (const Operand& ours : launch.operands())
        if ((theirs.writes || ours.writes) && overlap(*theirs.tensor, *ours.tensor)) return false;
  }
  return true;
}

bool uses_any(const Launch& launch, const Tensor& t) {
  return std::any_of(launch.operands().begin(), launch.operands().end(),
                     [&](const Operand& o) { return overlap(*o.tensor, t); });
}

class Fusion {
 public:
  explicit Fusion(Program& program) : program_(program), uses_(program) {}

  int forward() {
    int count = 0;
    for (int i = 0; i < size(); ++i) count += fuse_forward(i);
    return count;
  }
  int backward() {
    int count = 0;
    for (int i = 0; i < size(); ++i) count += fuse_backward(i);
    return count;
  }

 private:
  int size() const { return static_cast<int>(program_.launches.size()); }
  Launch* at(int i) const {
    return i < 0 ? nullptr : program_.launches[static_cast<size_t>(i)].get();
  }
  static bool named(const Launch* l, std::string_view name) {
    return l && is(*l, name) && !l->refresh && !l->commit && !l->draw;
  }
  /// The launch that alone reads `t`, which one launch wrote and nobody sees; or -1.
  int only_reader(const Tensor& t) const {
    return program_.temporary(t) && uses_.writer(t) >= 0 ? uses_.reader(t) : -1;
  }

  /// True if a launch between the two, as the program is now, writes `t`.
  bool written_between(const Tensor& t, int first, int last) const {
    for (int i = first + 1; i < last; ++i)
      if (const Launch* launch = at(i))
        for (const Operand& o : launch->operands())
          if (o.writes && overlap(*o.tensor, t)) return true;
    return false;
  }

  bool fuse_forward(int at_norm) {
    static const backend::BatchNormRelu kernel("batch_norm_relu");
    const Launch* norm = at(at_norm);
    if (!named(norm, "batch_norm") ||
        !backend::has_kernel(kernel.name(), program_.device, norm->dtype()))
      return false;
    const Tensor& out = norm->operand(kY);
    int at_relu = only_reader(out), at_add = -1;
    Tensor residual, between = out;
    if (const Launch* add = at(at_relu); named(add, "add") && add->operands().size() == 3) {
      const auto* params = add->option<formula::Params>();
      const Tensor &a = add->operand(0), &b = add->operand(1), &sum = add->operand(2);
      if (!params || params->a != 1 || same_view(a, b) || a.shape() != b.shape()) return false;
      residual = same_view(a, out) ? b : same_view(b, out) ? a : Tensor();
      if (!residual.defined() || !alike(residual, out) || !alike(sum, out)) return false;
      at_add = at_relu;
      between = sum;
      at_relu = only_reader(sum);
    }
    const Launch* relu = at(at_relu);
    if (!named(relu, "relu") || !same_view(relu->operand(0), between) ||
        !alike(relu->operand(1), out) || uses_any(*norm, relu->operand(1)) ||
        !can_move(program_, *norm, at_norm, at_relu, at_add))
      return false;
    if (overlap(residual, relu->operand(1)) || written_between(residual, at_add, at_relu))
      return false;
    std::array<Tensor, 10> t;
    for (size_t i = 0; i < t.size(); ++i) t[i] = norm->operand(i);
    Tensor y = relu->operand(1);
    std::unique_ptr<Launch> fused =
        kernel.launch(program_.device, norm->dtype(), t[kX], t[kWeight], t[kBias], t[kFixedMean],
                      t[kFixedVar], residual, t[kRunningMean], t[kRunningVar], y, t[kMean],
                      t[kScale], *norm->option<backend::BatchNormParams>());
    program_.launches[static_cast<size_t>(at_norm)] = nullptr;
    if (at_add >= 0) program_.launches[static_cast<size_t>(at_add)] = nullptr;
    program_.launches[static_cast<size_t>(at_relu)] = std::move(fused);
    return true;
  }

  bool fuse_backward(int at_relu) {
    static const backend::BatchNormReluGrad kernel("batch_norm_relu_grad");
    const Launch* relu = at(at_relu);
    if (!named(relu, "relu_grad") || relu->operands().size() != 3 ||
        !backend::has_kernel(kernel.name(), program_.device, relu->dtype()))
      return false;
    const Tensor dy = relu->operand(0), y = relu->operand(1);
    Tensor masked = relu->operand(2);
    // Later sums of gradients may be written over the masked one, once it has been used.
    const std::vector<int>& writers = uses_.writers(masked);
    if (!program_.temporary(masked) || writers[0] != at_relu || !alike(dy, masked) ||
        !alike(y, masked))
      return false;
    const std::vector<int>& readers = uses_.readers(masked);
    for (const int i : readers) {
      const Launch* grad = at(i);
      if (!named(grad, "batch_norm_grad") || !same_view(grad->operand(kGradDy), masked)) continue;
      if (writers.size() > 1 && writers[1] <= i) continue;
      if (!alike(grad->operand(kGradX), masked) || !can_move(program_, *grad, i, at_relu)) continue;
      const auto meets = [&](size_t k) {
        return overlap(grad->operand(k), dy) || overlap(grad->operand(k), y);
      };
      if (meets(kGradDx) || meets(kGradDWeight) || meets(kGradDBias)) continue;
      const int at_norm = forward_of(*grad, at_relu);
      if (at_norm < 0) continue;
      const Launch* norm = at(at_norm);
      const bool from_x = mask_is_in_x(at_norm, *grad, y, at_relu);
      Tensor dx = grad->operand(kGradDx), dw = grad->operand(kGradDWeight),
             db = grad->operand(kGradDBias), none;
      std::unique_ptr<Launch> fused =
          kernel.launch(program_.device, grad->dtype(), dy, grad->operand(kGradX),
                        grad->operand(kGradWeight), norm->operand(kBias), grad->operand(kGradMean),
                        grad->operand(kGradScale), from_x ? Tensor() : y, dx, dw, db,
                        readers.size() + writers.size() > 2 ? masked : none, *grad->option<bool>());
      program_.launches[static_cast<size_t>(at_relu)] = std::move(fused);
      program_.launches[static_cast<size_t>(i)] = nullptr;
      return true;
    }
    return false;
  }

  /// The last launch before `end` that saved the statistics which a gradient uses; or -1.
  int forward_of(const Launch& grad, int end) const {
    for (int i = end - 1; i >= 0; --i) {
      const Launch* launch = at(i);
      if (!launch) continue;
      const bool fused = is(*launch, "batch_norm_relu");
      if ((fused || is(*launch, "batch_norm")) &&
          same_view(launch->operand(fused ? kFusedScale : static_cast<size_t>(kScale)),
                    grad.operand(kGradScale)))
        return i;
    }
    return -1;
  }

  /// True if launch `at_grad`, which looks at the ReLU's result `y`, would find the same signs in
  /// the normalised x: y was made by launch `at_norm` without a residual, and neither y nor what it
  /// was made of has been written since.
  bool mask_is_in_x(int at_norm, const Launch& grad, const Tensor& y, int at_grad) const {
    const Launch& norm = *at(at_norm);
    if (!is(norm, "batch_norm_relu") || norm.operand(kFusedResidual).defined() ||
        !same_view(norm.operand(kFusedY), y))
      return false;
    constexpr std::pair<size_t, size_t> kShared[] = {
        {kX, kGradX}, {kWeight, kGradWeight}, {kFusedMean, kGradMean}, {kFusedScale, kGradScale}};
    for (const auto& [forward, backward] : kShared) {
      const Tensor &a = norm.operand(forward), &b = grad.operand(backward);
      if (a.defined() != b.defined() || (a.defined() && !same_view(a, b))) return false;
    }
    for (const size_t k :
         {size_t{kX}, size_t{kWeight}, size_t{kBias}, kFusedY, kFusedMean, kFusedScale})
      if (written_between(norm.operand(k), at_norm, at_grad)) return false;
    return true;
  }

  /// Both are dense, of one shape and order.
  static bool alike(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && a.strides() == b.strides() && a.dtype() == b.dtype();
  }

  Program& program_;
  Uses uses_;  // of the program as it was: launches keep their numbers until compact()
};

}  // namespace

std::string fuse_norm(Program& program) {
  Fusion fusion(program);
  const int forward = fusion.forward(), backward = fusion.backward();
  program.compact();
  return forward + backward > 0
             ? fmt::format("{} normalisations took in their ReLU, {} gradients theirs", forward,
                           backward)
             : "";
}

}  // namespace brim::plan
