// conv2d, relu and max_pool2d become one launch, and their gradients another: what lies between
// them, a pool window's size larger than the result, never reaches memory.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "backend/fused_conv.h"
#include "backend/has_kernel.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

using backend::ConvGeometry;
using backend::ConvPool;
using backend::PoolGeometry;

/// One occurrence, by numbers of launches; -1: not there.
struct Match {
  int conv = -1, relu = -1, pool = -1;  // relu before or after the pool
  int scatter = -1, relu_grad = -1;
  int grad_x = -1, grad_weight = -1, grad_bias = -1;

  int last_forward() const { return std::max(relu, pool); }
  bool has_gradient() const { return scatter >= 0; }
};

class ConvMatcher {
 public:
  explicit ConvMatcher(const Program& program) : program_(program), uses_(program) {}

  /// Fills `m` if launch `index` is a convolution that can be fused with what follows.
  bool match(int index, Match& m) const {
    m = {.conv = index};
    if (!is(at(index), "conv2d") || at(index).dtype() != DType::f32) return false;
    const Tensor& y = at(index).operand(3);
    if (!find_forward(y, m)) return false;
    if (!backend::conv_pool_is_fast(program_.device.kind, geometry(m)) ||
        !weight(m).is_contiguous())
      return false;
    for (size_t i = 0; i < 3; ++i)
      if (!unchanged(at(index).operand(i), index, m.last_forward())) return false;
    const Tensor& places = at(m.pool).operand(2);
    if (!inner(places) || !find_backward(places, m)) return false;
    return forward_stays_inside(m) && (!m.has_gradient() || backward_can_move(m));
  }

  const Launch& at(int i) const { return *program_.launches[static_cast<size_t>(i)]; }
  const Tensor& weight(const Match& m) const { return at(m.conv).operand(1); }
  /// What the last forward launch writes.
  Tensor result(const Match& m) const { return at(m.last_forward()).operand(1); }
  ConvPool geometry(const Match& m) const {
    return {*at(m.conv).option<ConvGeometry>(), *at(m.pool).option<PoolGeometry>(), m.relu >= 0};
  }
  /// The gradient of the result.
  const Tensor& gradient(const Match& m) const {
    const bool relu_last = m.relu > m.pool;
    return at(relu_last ? m.relu_grad : m.scatter).operand(0);
  }
  /// Where the fused gradient goes: the first of those that use the convolution's gradient.
  int gradient_place(const Match& m) const {
    int first = -1;
    for (const int i : users(m))
      if (i >= 0 && (first < 0 || i < first)) first = i;
    return first;
  }

 private:
  static std::array<int, 3> users(const Match& m) { return {m.grad_x, m.grad_weight, m.grad_bias}; }

  /// A whole temporary with one writer.
  bool inner(const Tensor& t) const {
    return program_.temporary(t) && uses_.writer(t) >= 0 && covers_storage(t);
  }
  /// The launch `name` that reads `t` as operand `k`; -1 if there is none or several.
  int reader(const Tensor& t, const char* name, size_t k) const {
    int found = -1;
    for (const int i : uses_.readers(t))
      if (is(at(i), name) && same_view(at(i).operand(k), t)) {
        if (found >= 0) return -1;
        found = i;
      }
    return found;
  }
  /// True if nothing writes `t` between launches `first` and `last`.
  bool unchanged(const Tensor& t, int first, int last) const {
    if (!t.defined()) return true;
    const auto& w = uses_.writers(t);
    return std::none_of(w.begin(), w.end(), [&](int i) { return i > first && i < last; });
  }
  bool only_read_by(const Tensor& t, std::initializer_list<int> readers) const {
    const auto& all = uses_.readers(t);
    return inner(t) && std::all_of(all.begin(), all.end(), [&](int i) {
             return std::find(readers.begin(), readers.end(), i) != readers.end();
           });
  }

  bool find_forward(const Tensor& y, Match& m) const {
    m.relu = reader(y, "relu", 0);
    m.pool = reader(m.relu >= 0 ? at(m.relu).operand(1) : y, "max_pool2d", 0);
    if (m.relu < 0 && m.pool >= 0) {
      const int after = reader(at(m.pool).operand(1), "relu", 0);
      if (after >= 0 && uses_.writer(at(after).operand(1)) == after) m.relu = after;
    }
    return m.pool >= 0 && at(m.last_forward()).dtype() == DType::f32 &&
           at(m.last_forward()).operand(1).numel() > 0;
  }

  /// What carries the gradient back. False where it goes another way than expected.
  bool find_backward(const Tensor& places, Match& m) const {
    if (uses_.readers(places).empty()) return true;
    m.scatter = uses_.reader(places);
    if (m.scatter < 0 || !is(at(m.scatter), "max_pool2d_scatter") ||
        *at(m.scatter).option<PoolGeometry>() != *at(m.pool).option<PoolGeometry>())
      return false;
    const Tensor* dy = &at(m.scatter).operand(2);  // of the convolution's result
    if (m.relu >= 0) {
      const Tensor& y = at(m.relu).operand(1);
      m.relu_grad = reader(y, "relu_grad", 1);
      if (m.relu_grad < 0) return false;
      const Launch& grad = at(m.relu_grad);
      const bool relu_first = m.relu < m.pool;
      const Tensor &from = relu_first ? *dy : grad.operand(2),
                   &to = relu_first ? grad.operand(0) : at(m.scatter).operand(0);
      if (!same_view(from, to) || !only_read_by(from, {relu_first ? m.relu_grad : m.scatter}))
        return false;
      if (relu_first) dy = &grad.operand(2);
    }
    m.grad_x = reader(*dy, "conv2d_grad_x", 0);
    m.grad_weight = reader(*dy, "conv2d_grad_weight", 1);
    m.grad_bias = reader(*dy, "sum", 0);
    return only_read_by(*dy, {m.grad_x, m.grad_weight, m.grad_bias}) && gradients_fit(m);
  }

  bool gradients_fit(const Match& m) const {
    const ConvGeometry& g = *at(m.conv).option<ConvGeometry>();
    if (m.grad_weight < 0) return false;  // frozen weights: rare
    const Launch& w = at(m.grad_weight);
    if (*w.option<ConvGeometry>() != g || !same_view(w.operand(0), at(m.conv).operand(0)) ||
        !w.operand(2).is_contiguous())
      return false;
    if (m.grad_x >= 0 && (*at(m.grad_x).option<ConvGeometry>() != g ||
                          !same_view(at(m.grad_x).operand(1), weight(m))))
      return false;
    return m.grad_bias < 0 || (at(m.grad_bias).operand(1).shape() == Shape{1, g.o, 1, 1} &&
                               at(m.grad_bias).operand(1).is_contiguous());
  }

  /// Nobody else sees what the fused launch leaves out.
  bool forward_stays_inside(const Match& m) const {
    const bool relu_first = m.relu >= 0 && m.relu < m.pool;
    if (!only_read_by(at(m.conv).operand(3), {relu_first ? m.relu : m.pool})) return false;
    if (relu_first) return only_read_by(at(m.relu).operand(1), {m.pool, m.relu_grad});
    return m.relu < 0 || only_read_by(at(m.pool).operand(1), {m.relu});
  }

  /// All gradients can be computed where the first of them is, from what is there.
  bool backward_can_move(const Match& m) const {
    const int first = gradient_place(m);
    const int begin = m.relu_grad >= 0 ? std::min(m.scatter, m.relu_grad) : m.scatter;
    if (!unchanged(gradient(m), begin, first)) return false;
    for (const int user : users(m)) {
      if (user < 0) continue;
      const Tensor& written = *at(user).operands().back().tensor;
      const auto between = [&](int i) { return i >= first && i < user; };
      const auto &r = uses_.readers(written), &w = uses_.writers(written);
      if (std::any_of(r.begin(), r.end(), between) || std::any_of(w.begin(), w.end(), between) ||
          !unchanged(at(m.conv).operand(0), m.conv, user) || !unchanged(weight(m), m.conv, user))
        return false;
    }
    return true;
  }

  const Program& program_;
  Uses uses_;
};

double operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                  const ConvPool& g) {
  return 2.0 * static_cast<double>(g.conv.work());
}
/// Of the dense gradients that it stands for.
double grad_operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor& dx,
                       const Tensor&, const Tensor&, const ConvPool& g) {
  return (dx.defined() ? 4.0 : 2.0) * static_cast<double>(g.conv.work());
}

void fuse(Program& program, const ConvMatcher& found, const Match& m) {
  static const backend::ConvPoolKernel forward("conv2d_relu_pool", &operations);
  static const backend::ConvPoolGradKernel backward("conv2d_relu_pool_grad", &grad_operations);
  const ConvPool g = found.geometry(m);
  const Launch& conv = found.at(m.conv);
  Tensor y = found.result(m);
  const bool nhwc = !y.is_contiguous() && y.is_contiguous(MemoryFormat::nhwc);
  Tensor places =
      program.make(y.shape(), DType::u8, nhwc ? MemoryFormat::nhwc : MemoryFormat::nchw);
  auto fused = forward.launch(program.device, DType::f32, conv.operand(0), conv.operand(1),
                              conv.operand(2), y, places, g);
  std::unique_ptr<Launch> gradient;
  const int gradient_place = m.has_gradient() ? found.gradient_place(m) : -1;
  if (m.has_gradient()) {
    Tensor dx = m.grad_x >= 0 ? found.at(m.grad_x).operand(2) : Tensor();
    Tensor dw = found.at(m.grad_weight).operand(2), db;
    if (m.grad_bias >= 0) {
      const Tensor& sum = found.at(m.grad_bias).operand(1);
      db = sum.alias({g.conv.o}, {1}, sum.offset());
    }
    gradient = backward.launch(program.device, DType::f32, conv.operand(0), conv.operand(1),
                               found.gradient(m), places, dx, dw, db, g);
  }
  const int last = m.last_forward();
  for (const int i :
       {m.conv, m.relu, m.pool, m.scatter, m.relu_grad, m.grad_x, m.grad_weight, m.grad_bias})
    if (i >= 0) program.launches[static_cast<size_t>(i)] = nullptr;
  program.launches[static_cast<size_t>(last)] = std::move(fused);
  if (gradient) program.launches[static_cast<size_t>(gradient_place)] = std::move(gradient);
  program.compact();
}

}  // namespace

std::string fuse_conv(Program& program) {
  for (const char* name : {"conv2d_relu_pool", "conv2d_relu_pool_grad"})
    if (!backend::has_kernel(name, program.device, DType::f32)) return "";
  int fused = 0, gradients = 0;
  for (int i = 0; i < static_cast<int>(program.launches.size()); ++i) {
    const ConvMatcher matcher(program);
    Match m;
    if (!matcher.match(i, m)) continue;
    fuse(program, matcher, m);
    ++fused;
    gradients += m.has_gradient();
  }
  return fused ? fmt::format("{} convolutions pool what they compute, {} of them with a gradient",
                             fused, gradients)
               : "";
}

}  // namespace brim::plan
