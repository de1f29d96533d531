// The functions of cuDNN 9 that brim calls, looked up at run time, and what each answer means.
#pragma once

#include <cudnn.h>
#include <fmt/core.h>

#include <memory>
#include <string>

#include "backend/cuda/libraries/open.h"
#include "backend/cuda/runtime/dynamic_library.h"
#include "backend/cuda/runtime/failure.h"
#include "core/check.h"

namespace brim::cuda::dnn {

inline const std::string kSoname = "libcudnn.so." + std::to_string(CUDNN_MAJOR);

struct Library : DynamicLibrary {
  Library()
      : DynamicLibrary("cuDNN", kSoname, open_library(kSoname),
                       "apt-get install cudnn9-cuda-13 (NVIDIA's repository), or pip install "
                       "nvidia-cudnn-cu13, or name its folder in BRIM_CUDA_LIBRARIES") {
    if (!problem().empty()) return;
    constexpr size_t kLeast = 90000, kCuda = 13;
    if (version() < kLeast)
      reject(fmt::format("is of version {}, and {} is needed", version(), kLeast));
    else if (cuda() / 1000 != kCuda)
      reject(fmt::format("was built for CUDA {}, not {}", cuda() / 1000, kCuda));
  }
  decltype(&cudnnGetVersion) version = find("cudnnGetVersion");
  decltype(&cudnnGetCudartVersion) cuda = find("cudnnGetCudartVersion");
  decltype(&cudnnGetErrorString) error_string = find("cudnnGetErrorString");
  decltype(&cudnnGetLastErrorString) last_error = find("cudnnGetLastErrorString");
  decltype(&cudnnCreate) create = find("cudnnCreate");
  decltype(&cudnnSetStream) set_stream = find("cudnnSetStream");
  decltype(&cudnnCreateTensorDescriptor) create_tensor = find("cudnnCreateTensorDescriptor");
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor = find("cudnnDestroyTensorDescriptor");
  decltype(&cudnnSetTensor4dDescriptorEx) set_tensor = find("cudnnSetTensor4dDescriptorEx");
  decltype(&cudnnCreateFilterDescriptor) create_filter = find("cudnnCreateFilterDescriptor");
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter = find("cudnnDestroyFilterDescriptor");
  decltype(&cudnnSetFilter4dDescriptor) set_filter = find("cudnnSetFilter4dDescriptor");
  decltype(&cudnnCreateConvolutionDescriptor) create_conv =
      find("cudnnCreateConvolutionDescriptor");
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_conv =
      find("cudnnDestroyConvolutionDescriptor");
  decltype(&cudnnSetConvolution2dDescriptor) set_conv = find("cudnnSetConvolution2dDescriptor");
  decltype(&cudnnSetConvolutionGroupCount) set_groups = find("cudnnSetConvolutionGroupCount");
  decltype(&cudnnSetConvolutionMathType) set_math = find("cudnnSetConvolutionMathType");
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithm =
      find("cudnnGetConvolutionForwardAlgorithm_v7");
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) grad_x_algorithm =
      find("cudnnGetConvolutionBackwardDataAlgorithm_v7");
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) grad_weight_algorithm =
      find("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_workspace =
      find("cudnnGetConvolutionForwardWorkspaceSize");
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) grad_x_workspace =
      find("cudnnGetConvolutionBackwardDataWorkspaceSize");
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) grad_weight_workspace =
      find("cudnnGetConvolutionBackwardFilterWorkspaceSize");
  decltype(&cudnnConvolutionForward) forward = find("cudnnConvolutionForward");
  decltype(&cudnnConvolutionBackwardData) grad_x = find("cudnnConvolutionBackwardData");
  decltype(&cudnnConvolutionBackwardFilter) grad_weight = find("cudnnConvolutionBackwardFilter");
  decltype(&cudnnBackendCreateDescriptor) create_backend = find("cudnnBackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) destroy_backend = find("cudnnBackendDestroyDescriptor");
  decltype(&cudnnBackendFinalize) finalize_backend = find("cudnnBackendFinalize");
  decltype(&cudnnBackendSetAttribute) set_backend = find("cudnnBackendSetAttribute");
  decltype(&cudnnBackendGetAttribute) get_backend = find("cudnnBackendGetAttribute");
  decltype(&cudnnBackendExecute) execute_backend = find("cudnnBackendExecute");
  decltype(&cudnnCreatePoolingDescriptor) create_pooling = find("cudnnCreatePoolingDescriptor");
  decltype(&cudnnDestroyPoolingDescriptor) destroy_pooling = find("cudnnDestroyPoolingDescriptor");
  decltype(&cudnnSetPooling2dDescriptor) set_pooling = find("cudnnSetPooling2dDescriptor");
  decltype(&cudnnPoolingForward) pool = find("cudnnPoolingForward");
  decltype(&cudnnBatchNormalizationForwardTraining) batch_norm =
      find("cudnnBatchNormalizationForwardTraining");
  decltype(&cudnnBatchNormalizationBackward) batch_norm_grad =
      find("cudnnBatchNormalizationBackward");
  decltype(&cudnnSetTensorNdDescriptor) set_tensor_nd = find("cudnnSetTensorNdDescriptor");
  decltype(&cudnnGetTensorNdDescriptor) get_tensor_nd = find("cudnnGetTensorNdDescriptor");
  decltype(&cudnnCreateDropoutDescriptor) create_dropout = find("cudnnCreateDropoutDescriptor");
  decltype(&cudnnDestroyDropoutDescriptor) destroy_dropout = find("cudnnDestroyDropoutDescriptor");
  decltype(&cudnnSetDropoutDescriptor) set_dropout = find("cudnnSetDropoutDescriptor");
  decltype(&cudnnCreateRNNDescriptor) create_rnn = find("cudnnCreateRNNDescriptor");
  decltype(&cudnnDestroyRNNDescriptor) destroy_rnn = find("cudnnDestroyRNNDescriptor");
  decltype(&cudnnSetRNNDescriptor_v8) set_rnn = find("cudnnSetRNNDescriptor_v8");
  decltype(&cudnnCreateRNNDataDescriptor) create_rnn_data = find("cudnnCreateRNNDataDescriptor");
  decltype(&cudnnDestroyRNNDataDescriptor) destroy_rnn_data = find("cudnnDestroyRNNDataDescriptor");
  decltype(&cudnnSetRNNDataDescriptor) set_rnn_data = find("cudnnSetRNNDataDescriptor");
  decltype(&cudnnGetRNNWeightSpaceSize) rnn_weight_space = find("cudnnGetRNNWeightSpaceSize");
  decltype(&cudnnGetRNNWeightParams) rnn_weight = find("cudnnGetRNNWeightParams");
  decltype(&cudnnGetRNNTempSpaceSizes) rnn_temp_space = find("cudnnGetRNNTempSpaceSizes");
  decltype(&cudnnRNNForward) rnn = find("cudnnRNNForward");
  decltype(&cudnnRNNBackwardData_v8) rnn_grad_data = find("cudnnRNNBackwardData_v8");
  decltype(&cudnnRNNBackwardWeights_v8) rnn_grad_weights = find("cudnnRNNBackwardWeights_v8");
};

inline const Library& library() {
  static const Library dnn;
  return dnn;
}

/// Throws DeviceError with the call, the status and what cuDNN says, unless it succeeded.
inline void check(cudnnStatus_t result, const char* call) {
  if (result == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  raise_if_lost(call);
  char detail[512] = "";
  library().last_error(detail, sizeof detail);
  raise<DeviceError>("[{}] cuDNN: {} failed: {}{}{}", op_name(), call,
                     library().error_string(result), *detail ? ": " : "", detail);
}

/// False where cuDNN does not support what was asked for; throws if it failed otherwise.
inline bool is_supported(cudnnStatus_t result, const char* call) {
  if (CUDNN_STATUS_CATEGORY(result) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check(result, call);
  return true;
}

// Descriptors that go when their owner does.
struct Destroy {
  void operator()(cudnnTensorStruct* d) const { (void)library().destroy_tensor(d); }
  void operator()(cudnnFilterStruct* d) const { (void)library().destroy_filter(d); }
  void operator()(cudnnConvolutionStruct* d) const { (void)library().destroy_conv(d); }
  void operator()(cudnnPoolingStruct* d) const { (void)library().destroy_pooling(d); }
  void operator()(cudnnDropoutStruct* d) const { (void)library().destroy_dropout(d); }
  void operator()(cudnnRNNStruct* d) const { (void)library().destroy_rnn(d); }
  void operator()(cudnnRNNDataStruct* d) const { (void)library().destroy_rnn_data(d); }
};
using TensorDesc = std::unique_ptr<cudnnTensorStruct, Destroy>;
using FilterDesc = std::unique_ptr<cudnnFilterStruct, Destroy>;
using ConvDesc = std::unique_ptr<cudnnConvolutionStruct, Destroy>;
using PoolingDesc = std::unique_ptr<cudnnPoolingStruct, Destroy>;
using DropoutDesc = std::unique_ptr<cudnnDropoutStruct, Destroy>;
using RnnDesc = std::unique_ptr<cudnnRNNStruct, Destroy>;
using RnnDataDesc = std::unique_ptr<cudnnRNNDataStruct, Destroy>;

}  // namespace brim::cuda::dnn
