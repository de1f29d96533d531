// Where the headers of NVIDIA's libraries are not there to compile libraries/ with.
#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda {

BlasDone blas_product(const Context&, const BlasProduct&, const std::function<void()>&) {
  return BlasDone::nothing;
}
std::string blas_problem() { return "the emulation was built without cuBLASLt's headers"; }
bool dnn_conv(const Context&, const DnnConv&, const std::function<void()>&) { return false; }
std::string dnn_problem() { return ""; }

}  // namespace brim::cuda
