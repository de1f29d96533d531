// A fake of libcudnn.so.9: descriptors of recurrent layers, their sizes, their weights' places.
#include "fakes/cudnn_rnn.h"

using namespace brim::fake;

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int rank,
                                         const int size[], const int stride[]) {
  if (rank < 3 || rank > 4) return bad("cudnnSetTensorNdDescriptor", "rank");
  *d = {.type = type, .size = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}, .rank = rank};
  std::copy(size, size + rank, d->size.begin());
  std::copy(stride, stride + rank, d->stride.begin());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t d, int wanted_rank,
                                         cudnnDataType_t* type, int* rank, int size[],
                                         int stride[]) {
  *type = d->type;
  *rank = d->rank;
  for (int i = 0; i < std::min(wanted_rank, d->rank); ++i) {
    size[i] = static_cast<int>(d->size[static_cast<size_t>(i)]);
    stride[i] = static_cast<int>(d->stride[static_cast<size_t>(i)]);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* made) {
  *made = new cudnnDropoutStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t d, cudnnHandle_t handle,
                                        float dropout, void* states, size_t bytes,
                                        unsigned long long) {
  const char* const call = "cudnnSetDropoutDescriptor";
  if (!handle) return bad(call, "no handle");
  if (dropout != 0 || states || bytes != 0) return bad(call, "brim's own op drops out");
  d->is_set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* made) {
  *made = new cudnnRNNStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t d, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t compute,
                                       cudnnMathType_t math, int32_t in, int32_t hidden,
                                       int32_t projection, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  const char* const call = "cudnnSetRNNDescriptor_v8";
  if (wanted("no-rnn")) return CUDNN_STATUS_NOT_SUPPORTED;
  if (wanted(call)) return CUDNN_STATUS_INTERNAL_ERROR;
  if (!dropout || !dropout->is_set) return bad(call, "dropout is not set");
  if (algo != CUDNN_RNN_ALGO_STANDARD || direction != CUDNN_UNIDIRECTIONAL ||
      input != CUDNN_LINEAR_INPUT || layers != 1)
    return bad(call, "what brim does not use");
  if (mode != CUDNN_LSTM && mode != CUDNN_GRU) return bad(call, "mode");
  if (bias != CUDNN_RNN_DOUBLE_BIAS && bias != CUDNN_RNN_NO_BIAS) return bad(call, "bias");
  // cuDNN 9.26 refuses 0.
  if (in <= 0 || hidden <= 0 || projection != hidden) return bad(call, "sizes");
  if (!elements(type).size ||
      compute != (type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return bad(call, "types");
  if (flags != CUDNN_RNN_PADDED_IO_ENABLED) return bad(call, "unpacked sequences need padded I/O");
  *d = {true, mode, bias, type, math, in, hidden};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* made) {
  *made = new cudnnRNNDataStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch, int size,
                                        const int lengths[], void*) {
  const char* const call = "cudnnSetRNNDataDescriptor";
  if (layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED) return bad(call, "layout");
  if (steps <= 0 || batch <= 0 || size <= 0) return bad(call, "a size is 0");
  if (!std::all_of(lengths, lengths + batch, [&](int length) { return length == steps; }))
    return bad(call, "a sequence of another length");
  *d = {type, steps, batch, size};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t* workspace, size_t* reserve) {
  const char* const call = "cudnnGetRNNTempSpaceSizes";
  if (wanted(call)) return CUDNN_STATUS_INTERNAL_ERROR;
  if (!handle || !rnn->is_set || x->size != rnn->in || x->type != rnn->type)
    return bad(call, "descriptors");
  *workspace = static_cast<size_t>(rnn_workspace(*x, mode));
  *reserve =
      mode == CUDNN_FWD_MODE_TRAINING ? static_cast<size_t>(RnnReserve(*rnn, *x).bytes()) : 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         size_t* bytes) {
  if (!handle || !rnn->is_set) return bad("cudnnGetRNNWeightSpaceSize", "descriptors");
  *bytes = static_cast<size_t>(RnnWeights(*rnn).bytes());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer,
                                      size_t bytes, const void* space, int32_t part,
                                      cudnnTensorDescriptor_t matrix, void** matrix_at,
                                      cudnnTensorDescriptor_t vector, void** vector_at) {
  const char* const call = "cudnnGetRNNWeightParams";
  const RnnWeights weights(*rnn);
  if (!handle || !rnn->is_set || layer != 0 || part < 0 || part >= 2 * rnn->gates())
    return bad(call, "no such weights");
  if (static_cast<int64_t>(bytes) != weights.bytes() || !is_memory(space, weights.bytes()))
    return bad(call, "size of the weight space");
  const int64_t size = elements(rnn->type).size, rows = rnn->hidden,
                columns = weights.columns(part);
  auto* const begin = static_cast<char*>(const_cast<void*>(space));
  *matrix = {rnn->type, {1, rows, columns, 1}, {rows * columns, columns, 1, 1}, 3};
  if (wanted("rnn-columns")) std::swap(matrix->stride[1], matrix->stride[2]);
  *matrix_at = begin + weights.matrix(part) * size;
  *vector = {rnn->type, {1, rows, 1, 1}, {rows, 1, 1, 1}, weights.has_vectors() ? 3 : 0};
  *vector_at = weights.has_vectors() ? begin + weights.vector(part) * size : nullptr;
  return CUDNN_STATUS_SUCCESS;
}
