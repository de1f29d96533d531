// Anomaly mode: finds the op that first made a NaN.
#include <brim/autograd/autograd.h>

#include <cmath>

#include "autograd/engine.h"
#include "backend/kernel.h"
#include "core/check.h"

namespace brim {

AnomalyMode::AnomalyMode() : previous_(backend::anomaly_mode) { backend::anomaly_mode = true; }
AnomalyMode::~AnomalyMode() { backend::anomaly_mode = previous_; }

namespace backend {

void check_anomaly(const char* op, const Tensor& output) {
  if (!output.defined() || !is_floating(output.dtype())) return;
  anomaly_mode = false;  // our own ops below are not to be checked
  bool has_nan = false;
  try {
    for (double v : output.detach().to(DType::f64).to_vector<double>()) has_nan |= std::isnan(v);
  } catch (...) {
    anomaly_mode = true;
    throw;
  }
  anomaly_mode = true;
  if (!has_nan) return;
  if (const char* forward = autograd::current_backward())
    raise<AutogradError>("[anomaly] {} made the first NaN, in the gradient of {}; output {}", op,
                         forward, output.shape().str());
  raise<AutogradError>("[anomaly] {} made the first NaN; output {}", op, output.shape().str());
}

}  // namespace backend
}  // namespace brim
