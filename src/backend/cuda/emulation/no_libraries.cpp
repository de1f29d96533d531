// Where the headers of NVIDIA's libraries are not there to compile libraries/ with.
#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda {

BlasDone blas_product(const Context&, const BlasProduct&, const Work&) { return BlasDone::nothing; }
std::string blas_problem() { return "the emulation was built without cuBLASLt's headers"; }
std::string blas_version() { return "no cuBLASLt"; }

bool dnn_conv(const Context&, const DnnConv&, const Work&) { return false; }
bool dnn_avg_pool(const Context&, const DnnAvgPool&, const Work&) { return false; }
bool dnn_batch_norm(const Context&, const DnnBatchNorm&, const Work&) { return false; }
bool dnn_batch_norm_grad(const Context&, const DnnBatchNormGrad&, const Work&) { return false; }
bool dnn_batch_norm_relu(const Context&, const DnnBatchNormRelu&, const Work&) { return false; }
bool dnn_batch_norm_relu_grad(const Context&, const DnnBatchNormReluGrad&, const Work&) {
  return false;
}
std::string dnn_problem() { return ""; }
std::string dnn_version() { return "no cuDNN"; }

}  // namespace brim::cuda
