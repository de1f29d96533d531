// Products of bf16: by gemm_bf16, and as f32 copies that gemm multiplies, in turns so that other
// work on the machine disturbs all alike. Arguments: m, n, k and the operands' form (NN, NT: B is a
// transpose, TN: A is one). Each column is the rate of one thread at a kernel's shortest call, in
// 10^9 multiply-adds per second; "f32" multiplies f32 operands.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/threads.h>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/gemm_bf16.h"

namespace brim::cpu {
namespace {

enum Form { NN, NT, TN, TT };

template <class T>
struct Operands {
  std::vector<T> a, b, c;
  Matrix<T> ma, mb;

  Operands(int64_t m, int64_t n, int64_t k, Form form)
      : a(static_cast<size_t>(m * k)),
        b(static_cast<size_t>(k * n)),
        c(static_cast<size_t>(m * n)) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = T(std::sin(static_cast<float>(i)));
    for (size_t i = 0; i < b.size(); ++i) b[i] = T(std::cos(static_cast<float>(i)));
    const bool ta = form == TN || form == TT, tb = form == NT || form == TT;
    ma = ta ? Matrix<T>{a.data(), 1, m} : Matrix<T>{a.data(), k, 1};
    mb = tb ? Matrix<T>{b.data(), 1, k} : Matrix<T>{b.data(), n, 1};
  }
};

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void gemm_bf16_kernels(benchmark::State& state) {
  set_num_threads(1);
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const auto form = static_cast<Form>(state.range(3));
  Operands<float> wide(m, n, k, form);
  Operands<BFloat16> narrow(m, n, k, form);
  std::vector<float> sums(static_cast<size_t>(bf16_sums(m, n, k)));
  struct Kernel {
    std::string name;
    std::function<void()> run;
    double best = 1e30;
  };
  const auto multiply_wide = [&] { gemm(m, n, k, wide.ma, wide.mb, false, wide.c.data(), n); };
  std::vector<Kernel> kernels;
  kernels.push_back({"f32", multiply_wide});
  kernels.push_back({"copies", [&] {
                       convert_run(narrow.a.data(), wide.a.data(), m * k);
                       convert_run(narrow.b.data(), wide.b.data(), k * n);
                       multiply_wide();
                       convert_run(wide.c.data(), narrow.c.data(), m * n);
                     }});
  if (multiplies_bf16())
    kernels.push_back({"bf16", [&] {
                         gemm_bf16(m, n, k, narrow.ma, narrow.mb, narrow.c.data(), n, sums.data());
                       }});
  const double work = static_cast<double>(m * n * k);
  const int calls = std::max(1, static_cast<int>(2e6 / work));  // in a row, after a first one
  for (auto _ : state)
    for (Kernel& kernel : kernels) {
      kernel.run();
      const double start = thread_seconds();
      for (int i = 0; i < calls; ++i) kernel.run();
      kernel.best = std::min(kernel.best, (thread_seconds() - start) / calls);
    }
  for (const Kernel& kernel : kernels) state.counters[kernel.name] = work / kernel.best * 1e-9;
}

void products(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "form"});
  const auto add = [&](int64_t m, int64_t n, int64_t k, Form form) {
    bench->Args({m, n, k, form});
  };
  for (const Form form : {NN, NT, TN, TT})
    for (const int64_t n : {16, 32, 64, 128, 256, 1024}) add(n, n, n, form);
  for (const Form form : {NN, NT, TN}) {
    add(4096, 1024, 1024, form);
    for (const int64_t few : {1, 2, 4, 8, 12, 16, 24, 32}) {
      add(few, 512, 512, form);
      add(512, few, 512, form);
      add(512, 512, few, form);
    }
  }
  for (const int64_t k : {32, 64, 128, 256})
    for (const int64_t few : {1, 4, 8, 16, 32}) {
      add(few, 256, k, NT);
      add(256, few, k, NT);
    }
  add(100000, 10, 128, NT);
  add(62500, 16, 256, NN);
  add(16, 16, 62500, NN);
  for (const int64_t n : {128, 2048}) add(512, n, 512, NN);
  add(512, 512, 4096, NN);
  add(16, 16, 4096, NN);
  add(1000, 1000, 3000, NN);
}
BENCHMARK(gemm_bf16_kernels)->Apply(products)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace brim::cpu

BENCHMARK_MAIN();
