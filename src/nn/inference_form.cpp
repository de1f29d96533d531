#include "nn/inference_form.h"

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <limits>

#include "autograd/autocast.h"
#include "backend/launch.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/recording.h"
#include "ops/memory_format.h"

namespace brim::nn {
namespace {

constexpr size_t kMaxShapes = 256;  // that are known
constexpr int kRounds = 3;          // of each; the shortest counts

thread_local constinit bool dense_layers_wanted = false;

double seconds_of(const std::function<void(const Tensor&)>& call, const Tensor& x) {
  const double begin = steady_seconds();
  call(x);
  synchronize(x.device());
  return steady_seconds() - begin;
}

}  // namespace

DenseLayers::DenseLayers() : before_(dense_layers_wanted) { dense_layers_wanted = true; }
DenseLayers::~DenseLayers() { dense_layers_wanted = before_; }
bool DenseLayers::wanted() { return dense_layers_wanted; }

InferenceForm::InferenceForm(const Tensor& dense, Device device)
    : dense_(dense.detach()), version_(dense.storage()->version()), device_(device) {}

bool InferenceForm::serves(const Tensor& x, const Tensor& dense) const {
  const bool serves = !grad_enabled() && !autograd::autocasting() && x.defined() &&
                      x.dtype() == DType::f32 && dense.storage().get() == dense_.storage().get() &&
                      dense.raw() == dense_.raw() && dense.shape() == dense_.shape() &&
                      dense.strides() == dense_.strides() &&
                      dense.storage()->version() == version_ && x.device() == device_ &&
                      device_.kind != DeviceKind::cuda;
  if (serves && backend::launch_recorder())
    backend::launch_recorder()->uses(
        {.unchanged = [of = dense_,
                       version = version_] { return of.storage()->version() == version; },
         .commit = [] {},
         .undo = [] {}});
  return serves;
}

SparseForm::SparseForm(const Tensor& dense, SparseWeight weight)
    : InferenceForm(dense, weight.values.defined() ? weight.values.device() : Device()),
      weight_(std::move(weight)) {
  weight_.check();
  BRIM_CHECK(weight_.shape == dense.shape(), ValueError,
             "[use_sparse] a sparse weight {} for a layer of {}", weight_.shape.str(),
             dense.shape().str());
}

bool FasterForm::is_sparse_faster(const Tensor& x,
                                  const std::function<void(const Tensor& x)>& dense,
                                  const std::function<void(const Tensor& x)>& sparse) {
  if (DenseLayers::wanted()) return false;
  const bool is_nhwc = ops::is_nhwc(x);
  const auto key = std::pair(std::vector<int64_t>(x.shape().begin(), x.shape().end()), is_nhwc);
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const RecordingPause pause;  // what is measured is computed
  Tensor like = zeros(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  if (is_nhwc) like = like.to(MemoryFormat::nhwc);
  double best[2] = {std::numeric_limits<double>::infinity(),
                    std::numeric_limits<double>::infinity()};
  for (int round = 0; round <= kRounds; ++round)
    for (const bool is_sparse : {false, true}) {
      const double seconds = seconds_of(is_sparse ? sparse : dense, like);
      if (round > 0) best[is_sparse] = std::min(best[is_sparse], seconds);
    }
  if (known_.size() >= kMaxShapes) known_.clear();
  return known_[key] = best[1] < best[0];
}

Int8Form::Int8Form(const Tensor& dense, Int8Weight weight, QuantParams input)
    : InferenceForm(dense, weight.packed.defined() ? weight.packed.device() : Device()),
      weight_(std::move(weight)),
      input_(input) {
  BRIM_CHECK(weight_.packed.defined(), ValueError,
             "[use_int8] the weight is empty; make one with Int8Weight::quantize");
  BRIM_CHECK(weight_.shape() == dense.shape(), ValueError,
             "[use_int8] an int8 weight {} for a layer of {}", weight_.shape().str(),
             dense.shape().str());
  input_.check();
}

Int8Form::Int8Form(const Tensor& dense, SparseInt8Weight weight, QuantParams input)
    : InferenceForm(dense, weight.packed.defined() ? weight.packed.device() : Device()),
      weight_(weight.packed.defined() ? weight.int8() : Int8Weight()),
      sparse_(std::move(weight)),
      input_(input) {
  BRIM_CHECK(sparse_.packed.defined(), ValueError,
             "[use_sparse_int8] the weight is empty; make one with SparseInt8Weight::quantize");
  sparse_.check_structure();
  BRIM_CHECK(sparse_.shape == dense.shape(), ValueError,
             "[use_sparse_int8] a sparse int8 weight {} for a layer of {}", sparse_.shape.str(),
             dense.shape().str());
  input_.check();
}

Tensor Int8Form::linear(const Tensor& x, const Tensor& bias) {
  const auto dense = [&](const Tensor& some) {
    return int8_linear(quantize(some, input_), input_, weight_, bias);
  };
  const auto sparse = [&](const Tensor& some) {
    return sparse_int8_linear(quantize(some, input_), input_, sparse_, bias);
  };
  return is_sparse() && faster_.is_sparse_faster(x, dense, sparse) ? sparse(x) : dense(x);
}

Tensor Int8Form::conv2d(const Tensor& x, const Tensor& bias, const Conv2dOptions& options) {
  const auto dense = [&](const Tensor& nhwc) {
    return int8_conv2d(quantize(nhwc, input_), input_, weight_, bias, options);
  };
  const auto sparse = [&](const Tensor& some) {
    return sparse_int8_conv2d(quantize(some, input_), input_, sparse_, bias, options);
  };
  if (is_sparse()) {
    // The input of a layer behind others in integers is nhwc already: to make it so does not count.
    const auto of_nhwc = [&, nhwc = Tensor()](const Tensor& some) mutable {
      if (!nhwc.defined()) nhwc = some.to(MemoryFormat::nhwc);
      (void)dense(nhwc);
    };
    if (faster_.is_sparse_faster(x, of_nhwc, sparse)) return sparse(x);
  }
  return dense(x.to(MemoryFormat::nhwc));
}

std::string form_str(const std::shared_ptr<Int8Form>& int8,
                     const std::shared_ptr<SparseForm>& sparse) {
  if (int8) return std::string(", ") + int8->name();
  return sparse ? ", sparse" : "";
}

}  // namespace brim::nn
