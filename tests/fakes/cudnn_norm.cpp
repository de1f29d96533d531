// A fake of libcudnn.so.9: average pooling and batch normalisation.
#include <algorithm>
#include <cmath>
#include <vector>

#include "fakes/cudnn_fake.h"

namespace {

using namespace brim::fake;
using Tensor = cudnnTensorStruct;

constexpr double kMilliseconds = 10;  // a launch costs 50

cudnnStatus_t queue(const char* call, cudnnHandle_t handle, const Tensor& x,
                    std::function<void()> work) {
  note(std::string(call) + " type " + std::to_string(x.type) +
       (x.stride[1] == 1 && x.size[1] > 1 ? " nhwc" : " nchw"));
  machine->spend(handle->stream, (wanted("slow") ? 1000 : kMilliseconds) - 50);
  machine->submit(handle->stream, std::move(work));
  return CUDNN_STATUS_SUCCESS;
}

/// What is wrong with the parts that both ways of a normalisation have; null: nothing.
const char* problem(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const Tensor& x,
                    const Tensor& y, const Tensor& parameters, double epsilon) {
  if (!handle || !handle->stream) return "no handle or stream";
  if (mode != CUDNN_BATCHNORM_SPATIAL) return "a mode that may overflow";
  if (x.type != y.type || x.size != y.size || x.stride != y.stride) return "tensors differ";
  if (!elements(x.type).size) return "type";
  const cudnnDataType_t wide = x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  if (parameters.type != wide || parameters.size != std::array<int64_t, 4>{1, x.size[1], 1, 1})
    return "parameters";
  if (!(epsilon >= CUDNN_BN_MIN_EPSILON)) return "epsilon";
  return nullptr;
}

}  // namespace

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                  const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_desc, void* y) {
  const char* const call = "cudnnPoolingForward";
  const Tensor from = *x_desc, to = *y_desc;
  const cudnnPoolingStruct p = *pooling;
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!handle || !handle->stream) return bad(call, "no handle or stream");
  if (p.mode != CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING &&
      p.mode != CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
    return bad(call, "a mode that brim does not use");
  if (p.nan != CUDNN_PROPAGATE_NAN) return bad(call, "NaN would be lost");
  if (from.type != to.type || !replaces(from.type, alpha, beta)) return bad(call, "types, factors");
  const std::array<int64_t, 4> want{from.size[0], from.size[1],
                                    (from.size[2] + 2 * p.pad_h - p.h) / p.stride_h + 1,
                                    (from.size[3] + 2 * p.pad_w - p.w) / p.stride_w + 1};
  if (to.size != want || p.pad_h >= p.h || p.pad_w >= p.w) return bad(call, "sizes");
  if (!is_tensor(x, from) || !is_tensor(y, to)) return bad(call, "a tensor leaves its memory");
  return queue(call, handle, from, [=] {
    const Elements e = elements(from.type);
    for (int64_t n = 0; n < to.size[0]; ++n)
      for (int64_t c = 0; c < to.size[1]; ++c)
        for (int64_t oy = 0; oy < to.size[2]; ++oy)
          for (int64_t ox = 0; ox < to.size[3]; ++ox) {
            const int64_t top = oy * p.stride_h - p.pad_h, left = ox * p.stride_w - p.pad_w;
            double sum = 0;
            int64_t count = 0;
            for (int64_t iy = std::max<int64_t>(top, 0); iy < std::min(top + p.h, from.size[2]);
                 ++iy)
              for (int64_t ix = std::max<int64_t>(left, 0); ix < std::min(left + p.w, from.size[3]);
                   ++ix, ++count)
                sum += e.load(x, from.at(n, c, iy, ix));
            if (p.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING) count = p.h * p.w;
            e.store(y, to.at(n, c, oy, ox), sum / static_cast<double>(count));
          }
  });
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t y_desc,
    void* y, const cudnnTensorDescriptor_t parameters, const void* weight, const void* bias,
    double factor, void* running_mean, void* running_var, double epsilon, void* mean, void* scale) {
  const char* const call = "cudnnBatchNormalizationForwardTraining";
  const Tensor of = *x_desc, by = *parameters;
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  if (const char* why = problem(handle, mode, of, *y_desc, by, epsilon)) return bad(call, why);
  if (!replaces(of.type, alpha, beta)) return bad(call, "alpha or beta");
  if (!running_mean != !running_var) return bad(call, "one running statistic alone");
  for (const void* data :
       {weight, bias, static_cast<const void*>(mean), static_cast<const void*>(scale)})
    if (!is_tensor(data, by)) return bad(call, "a parameter leaves its memory");
  for (const void* data : {running_mean, running_var})
    if (data && !is_tensor(data, by)) return bad(call, "running statistics leave their memory");
  if (!is_tensor(x, of) || !is_tensor(y, of)) return bad(call, "a tensor leaves its memory");
  // Statistics of another kind than brim's.
  const double error = wanted("batch-norm-differs") ? 1.01 : 1;
  const double last_error = wanted("batch-norm-differs-at-end") ? 1 : 0;
  return queue(call, handle, of, [=] {
    const Elements e = elements(of.type), p = elements(by.type);
    const auto count = static_cast<double>(of.size[0] * of.size[2] * of.size[3]);
    for (int64_t c = 0; c < of.size[1]; ++c) {
      double sum = 0, squares = 0;
      for_channel(of, c, [&](int64_t at) { sum += e.load(x, at); });
      const double m = sum / count;
      for_channel(of, c, [&](int64_t at) { squares += std::pow(e.load(x, at) - m, 2); });
      const double inverse = error / std::sqrt(squares / count + epsilon);
      for_channel(of, c, [&](int64_t at) {
        e.store(y, at, (e.load(x, at) - m) * inverse * p.load(weight, c) + p.load(bias, c));
      });
      p.store(mean, c, m);
      p.store(scale, c, inverse);
      if (!running_mean) continue;
      const auto blend = [&](void* kept, double value) {
        p.store(kept, c, (1 - factor) * p.load(kept, c) + factor * value);
      };
      blend(running_mean, m);
      blend(running_var, squares / (count - 1));
    }
    const int64_t last = of.last() - 1;
    e.store(y, last, e.load(y, last) + last_error);
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const void* alpha_parameters, const void* beta_parameters, const cudnnTensorDescriptor_t x_desc,
    const void* x, const cudnnTensorDescriptor_t dy_desc, const void* dy,
    const cudnnTensorDescriptor_t dx_desc, void* dx, const cudnnTensorDescriptor_t parameters,
    const void* weight, void* dweight, void* dbias, double epsilon, const void* mean,
    const void* scale) {
  const char* const call = "cudnnBatchNormalizationBackward";
  const Tensor of = *x_desc, by = *parameters;
  if (wanted(call)) return CUDNN_STATUS_EXECUTION_FAILED;
  if (const char* why = problem(handle, mode, of, *dy_desc, by, epsilon)) return bad(call, why);
  if (of.size != dx_desc->size || of.stride != dx_desc->stride) return bad(call, "dx");
  if (!replaces(of.type, alpha, beta) || !replaces(of.type, alpha_parameters, beta_parameters))
    return bad(call, "alpha or beta");
  for (const void* data :
       {weight, static_cast<const void*>(dweight), static_cast<const void*>(dbias), mean, scale})
    if (!is_tensor(data, by)) return bad(call, "a parameter leaves its memory");
  for (const void* data : {x, dy, static_cast<const void*>(dx)})
    if (!is_tensor(data, of)) return bad(call, "a tensor leaves its memory");
  return queue(call, handle, of, [=] {
    const Elements e = elements(of.type), p = elements(by.type);
    const auto count = static_cast<double>(of.size[0] * of.size[2] * of.size[3]);
    for (int64_t c = 0; c < of.size[1]; ++c) {
      const double m = p.load(mean, c), s = p.load(scale, c);
      double sum = 0, dot = 0;
      for_channel(of, c, [&](int64_t at) {
        sum += e.load(dy, at);
        dot += e.load(dy, at) * (e.load(x, at) - m) * s;
      });
      for_channel(of, c, [&](int64_t at) {
        const double unit = (e.load(x, at) - m) * s;
        e.store(dx, at,
                p.load(weight, c) * s * (e.load(dy, at) - sum / count - unit * dot / count));
      });
      p.store(dweight, c, dot);
      p.store(dbias, c, sum);
    }
  });
}
