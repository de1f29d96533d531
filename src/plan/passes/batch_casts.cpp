// Casts that do not need each other become one launch: those of weights move to the first of them,
// those of gradients to the last. Where they are launched one by one, a step of a ResNet under
// Autocast has as many of them as it has layers.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "backend/fused/list_cast.h"
#include "backend/has_kernel.h"
#include "plan/pass.h"
#include "plan/replace.h"

namespace brim::plan {
namespace {

using backend::Work;

constexpr int64_t kMaxBytes = int64_t{64} << 20;  // of a launch: beyond, its cost is nothing

bool is_dense(const Tensor& t) { return t.is_contiguous() || t.is_contiguous(MemoryFormat::nhwc); }

bool is_cast(const Launch& l) {
  if (l.work() != Work::copy || l.refresh || l.commit || l.draw) return false;
  const Tensor &x = l.operand("x"), &y = l.operand("y");
  return x.dtype() != y.dtype() && is_floating(x.dtype()) && is_floating(y.dtype()) &&
         x.shape() == y.shape() && x.storage() != y.storage() && y.numel() > 0 && x.rank() <= 4 &&
         is_dense(x) && is_dense(y) && y.numel() <= backend::kMaxListCast &&
         backend::has_kernel("list_cast", l.device(), y.dtype());
}

/// Casts between the same dtypes, at the place of one of them.
struct Batch {
  int place;
  std::vector<int> casts;
  int64_t bytes = 0;
};

class Casts {
 public:
  explicit Casts(Program& program) : program_(program) {}

  /// Joins those of what was there before the step at the first of them, or the others at the last.
  /// Returns how many were joined.
  int join(bool forward) {
    const Uses uses(program_);
    std::vector<Batch> batches;
    const int count = static_cast<int>(program_.launches.size());
    for (int step = 0; step < count; ++step) {
      const int i = forward ? step : count - 1 - step;
      const Launch* l = at(i);
      if (!l || !is_cast(*l) || forward != was_there(uses, l->operand("x"), i)) continue;
      const Tensor& y = l->operand("y");
      const int64_t bytes = y.numel() * static_cast<int64_t>(size_of(y.dtype()));
      auto batch = std::find_if(batches.begin(), batches.end(), [&](const Batch& b) {
        return b.bytes + bytes <= kMaxBytes && alike(*at(b.place), *l) &&
               can_move(program_, i, b.place);
      });
      if (batch == batches.end()) batch = batches.insert(batches.end(), Batch{i, {}});
      batch->casts.push_back(i);
      batch->bytes += bytes;
    }
    int joined = 0;
    for (const Batch& b : batches) {
      if (b.casts.size() < 2) continue;
      replace(b);
      ++launches_;
      joined += static_cast<int>(b.casts.size());
    }
    program_.compact();
    return joined;
  }
  int launches() const { return launches_; }

 private:
  Launch* at(int i) const { return program_.launches[static_cast<size_t>(i)].get(); }
  static bool alike(const Launch& a, const Launch& b) {
    return a.operand("x").dtype() == b.operand("x").dtype() && a.dtype() == b.dtype();
  }
  static bool was_there(const Uses& uses, const Tensor& t, int i) {
    const std::vector<int>& writers = uses.writers(t);
    return writers.empty() || writers.front() > i;
  }
  void replace(const Batch& b) {
    static const backend::ListCastKernel kernel("list_cast", {.operands = "x, y"});
    std::vector<Tensor> x, y;
    for (const int i : b.casts) {
      x.push_back(at(i)->operand("x"));
      y.push_back(at(i)->operand("y"));
    }
    auto joined = kernel.launch(program_.device, y[0].dtype(), x, y);
    for (const int i : b.casts) program_.launches[static_cast<size_t>(i)] = nullptr;
    program_.launches[static_cast<size_t>(b.place)] = std::move(joined);
  }

  Program& program_;
  int launches_ = 0;
};

}  // namespace

std::string batch_casts(Program& program) {
  Casts casts(program);
  int joined = casts.join(/*forward=*/true);
  joined += casts.join(/*forward=*/false);
  return joined ? fmt::format("{} casts in {} launches", joined, casts.launches()) : "";
}

}  // namespace brim::plan
