// Writes the numbers of a graph: they travel as arguments of the kernel, which CUDA keeps until it
// has run, so that no memory of the host must stay as it is.
#include "backend/cuda/graph/graph_parameters.h"

#include "backend/cuda/device/launch.cuh"

namespace brim::cuda {
namespace {

template <int N>
struct Words {
  uint64_t word[N];
};

template <int N>
__global__ void write_kernel(Words<N> words, uint64_t* at, int count) {
  begin_kernel();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    at[i] = words.word[i];
}

template <int N>
void write(const Context& context, uint64_t* at, std::span<const uint64_t> some) {
  Words<N> words{};
  std::copy(some.begin(), some.end(), words.word);
  launch(context, &write_kernel<N>, Grid{dim3(1), dim3(N < 128 ? N : 128)}, words, at,
         static_cast<int>(some.size()));
}

constexpr size_t kFew = 16, kMany = 480;  // below the 4 KiB of arguments that every GPU takes

}  // namespace

void write_words(Stream stream, uint64_t* at, std::span<const uint64_t> words) {
  const Context context{stream};
  for (; words.size() > kMany; words = words.subspan(kMany), at += kMany)
    write<kMany>(context, at, words.first(kMany));
  if (words.size() > kFew)
    write<kMany>(context, at, words);
  else if (!words.empty())
    write<kFew>(context, at, words);
}

}  // namespace brim::cuda
