// See cudnn_recurrent.h. cuDNN's reference (cudnnGetRNNWeightParams, cudnnRNNMode_t) has matrices
// of gates row-major, those of the input first; LSTM: i, f, g, o; GRU: r, z, n, whose reset gate is
// multiplied with R h + b_R. That is PyTorch's order and form, so the gates of a parameter are one
// copy wherever cuDNN keeps them side by side.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_recurrent.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "backend/cuda/libraries/cudnn_tensor.h"
#include "core/context.h"

namespace brim::cuda::dnn {
namespace {

using backend::RecurrentCell;
using backend::RecurrentLayer;

/// As of convolutions (cudnn_operation.h).
cudnnMathType_t recurrent_math(DType dtype, const RecurrentLayer& l) {
  if (size_of(dtype) == 2) return CUDNN_TENSOR_OP_MATH;
  return is_in_tf32(dtype, l) ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

RnnDataDesc sequence_of(DType dtype, const RecurrentLayer& l, int64_t size) {
  cudnnRNNDataDescriptor_t made = nullptr;
  check(library().create_rnn_data(&made), "cudnnCreateRNNDataDescriptor");
  RnnDataDesc result(made);
  const std::vector<int> lengths(static_cast<size_t>(l.batch), static_cast<int>(l.steps));
  check(library().set_rnn_data(made, type_of(dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                               static_cast<int>(l.steps), static_cast<int>(l.batch),
                               static_cast<int>(size), lengths.data(), nullptr),
        "cudnnSetRNNDataDescriptor");
  return result;
}

TensorDesc new_tensor() {
  cudnnTensorDescriptor_t made = nullptr;
  check(library().create_tensor(&made), "cudnnCreateTensorDescriptor");
  return TensorDesc(made);
}

/// (1, N, H): of one layer.
TensorDesc state_of(DType dtype, const RecurrentLayer& l) {
  TensorDesc result = new_tensor();
  const auto batch = static_cast<int>(l.batch), hidden = static_cast<int>(l.hidden);
  const std::array size = {1, batch, hidden}, stride = {batch * hidden, hidden, 1};
  check(library().set_tensor_nd(result.get(), type_of(dtype), 3, size.data(), stride.data()),
        "cudnnSetTensorNdDescriptor");
  return result;
}

/// False where cuDNN does not support the layer.
bool describe_layer(cudnnHandle_t handle, DType dtype, const RecurrentLayer& l,
                    RecurrentOperation& r) {
  cudnnDropoutDescriptor_t dropout = nullptr;
  check(library().create_dropout(&dropout), "cudnnCreateDropoutDescriptor");
  r.no_dropout.reset(dropout);
  check(library().set_dropout(dropout, handle, 0, nullptr, 0, 0), "cudnnSetDropoutDescriptor");
  cudnnRNNDescriptor_t rnn = nullptr;
  check(library().create_rnn(&rnn), "cudnnCreateRNNDescriptor");
  r.rnn.reset(rnn);
  const auto hidden = static_cast<int32_t>(l.hidden);  // and of the projection, as there is none
  if (!is_supported(library().set_rnn(rnn, CUDNN_RNN_ALGO_STANDARD,
                                      l.cell == RecurrentCell::lstm ? CUDNN_LSTM : CUDNN_GRU,
                                      l.bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
                                      CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type_of(dtype),
                                      dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT,
                                      recurrent_math(dtype, l), static_cast<int32_t>(l.in), hidden,
                                      hidden, 1, dropout, CUDNN_RNN_PADDED_IO_ENABLED),
                    "cudnnSetRNNDescriptor_v8"))
    return false;
  r.x = sequence_of(dtype, l, l.in);
  r.y = sequence_of(dtype, l, l.hidden);
  r.state = state_of(dtype, l);
  const char* const call = "cudnnGetRNNTempSpaceSizes";
  size_t none = 0;
  return is_supported(library().rnn_weight_space(handle, rnn, &r.weights),
                      "cudnnGetRNNWeightSpaceSize") &&
         is_supported(library().rnn_temp_space(handle, rnn, CUDNN_FWD_MODE_INFERENCE, r.x.get(),
                                               &r.inference, &none),
                      call) &&
         is_supported(library().rnn_temp_space(handle, rnn, CUDNN_FWD_MODE_TRAINING, r.x.get(),
                                               &r.training, &r.saved),
                      call);
}

/// Throws DeviceError unless it is a row-major matrix of these sizes.
void check_matrix(const TensorDesc& desc, int rows, int columns) {
  cudnnDataType_t type{};
  int rank = 0;
  std::array<int, 3> size{}, stride{};
  check(library().get_tensor_nd(desc.get(), 3, &type, &rank, size.data(), stride.data()),
        "cudnnGetTensorNdDescriptor");
  if (rank == 3 && size == std::array{1, rows, columns} && stride[2] == 1 &&
      (rows == 1 || stride[1] == columns))
    return;
  raise<DeviceError>("[{}] cuDNN keeps the {} x {} weights of a recurrent layer in another way",
                     op_name(), rows, columns);
}

/// Where the parameters go in the weight space, which `space` is one of.
std::vector<WeightSegment> find_segments(cudnnHandle_t handle, const RecurrentOperation& r,
                                         DType dtype, const RecurrentLayer& l, const char* space) {
  std::vector<WeightSegment> all;
  const size_t size = size_of(dtype), units = static_cast<size_t>(l.hidden);
  const auto add = [&](size_t parameter, size_t gate, const void* at, size_t elements) {
    const WeightSegment next = {parameter, gate * elements * size,
                                static_cast<size_t>(static_cast<const char*>(at) - space),
                                elements * size};
    const auto is_before = [&](const WeightSegment& s) {
      return s.parameter == parameter && s.from + s.bytes == next.from && s.to + s.bytes == next.to;
    };
    if (const auto before = std::ranges::find_if(all, is_before); before != all.end())
      before->bytes += next.bytes;
    else
      all.push_back(next);
  };
  const TensorDesc matrix = new_tensor(), vector = new_tensor();
  const auto gates = static_cast<size_t>(l.gates());
  for (size_t side = 0; side < 2; ++side)  // of the input, of the hidden state
    for (size_t gate = 0; gate < gates; ++gate) {
      void *weight = nullptr, *bias = nullptr;
      check(library().rnn_weight(handle, r.rnn.get(), 0, r.weights, space,
                                 static_cast<int32_t>(side * gates + gate), matrix.get(), &weight,
                                 vector.get(), &bias),
            "cudnnGetRNNWeightParams");
      const int64_t columns = side == 0 ? l.in : l.hidden;
      check_matrix(matrix, static_cast<int>(l.hidden), static_cast<int>(columns));
      add(side, gate, weight, units * static_cast<size_t>(columns));
      if (!l.bias) continue;
      check_matrix(vector, static_cast<int>(l.hidden), 1);
      add(2 + side, gate, bias, units);
    }
  return all;
}

}  // namespace

RecurrentOperation describe_recurrent(cudnnHandle_t handle, Stream stream, DType dtype,
                                      const RecurrentLayer& l) {
  RecurrentOperation r;
  if (!describe_layer(handle, dtype, l, r)) return r;
  const Workspace space(r.weights, stream, nullptr);
  r.segments = find_segments(handle, r, dtype, l, space.as<char>());
  r.possible = true;
  return r;
}

}  // namespace brim::cuda::dnn

#endif
