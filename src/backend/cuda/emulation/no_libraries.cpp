// Where the headers of NVIDIA's libraries are not there to compile libraries/ with; for
// convolutions and the like see libraries/no_cudnn.cpp.
#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda {

BlasDone blas_product(const Context&, const BlasProduct&, const Work&) { return BlasDone::nothing; }
std::string blas_problem() { return "the emulation was built without cuBLASLt's headers"; }
std::string blas_version() { return "no cuBLASLt"; }
std::string dnn_problem() { return ""; }

}  // namespace brim::cuda
