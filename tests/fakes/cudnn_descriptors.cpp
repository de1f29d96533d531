// A fake of libcudnn.so.9: handle, descriptors, and what moves tensors.
#include "fakes/cudnn_fake.h"

using namespace brim::fake;
using Tensor = cudnnTensorStruct;
using Filter = cudnnFilterStruct;
using Conv = cudnnConvolutionStruct;

size_t cudnnGetVersion() { return wanted("old") ? 8907 : wanted("9.12") ? 91200 : 91900; }
size_t cudnnGetCudartVersion() { return wanted("mismatched") ? 12090 : 13000; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                 : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "the fake says so");
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (machine->is_capturing()) return bad("cudnnCreate", "in a capture");
  if (wanted("cudnnCreate")) return CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH;
  note("create");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  *made = new Tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n,
                                           int c, int h, int w, int sn, int sc, int sh, int sw) {
  *d = {type, {n, c, h, w}, {sn, sc, sh, sw}};
  return n > 0 && c > 0 && h > 0 && w > 0 ? CUDNN_STATUS_SUCCESS
                                          : bad("cudnnSetTensor4dDescriptorEx", "a size is 0");
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  *made = new Filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  d->type = type;
  d->format = format;
  d->size = {k, c, h, w};
  if (format == CUDNN_TENSOR_NHWC)
    d->stride = {int64_t{h} * w * c, 1, int64_t{w} * c, c};
  else
    d->stride = {int64_t{c} * h * w, int64_t{h} * w, w, 1};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  *made = new Conv;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
                                              int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  *d = {pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  d->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* made) {
  *made = new cudnnPoolingStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t d, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int h, int w, int pad_h,
                                          int pad_w, int stride_h, int stride_w) {
  if (wanted("pooling-descriptor-fails")) return CUDNN_STATUS_INTERNAL_ERROR;
  *d = {mode, nan, h, w, pad_h, pad_w, stride_h, stride_w};
  return CUDNN_STATUS_SUCCESS;
}
