// gemm and the kernels it chooses among beside oneDNN's sgemm, run in turns so that other work on
// the machine disturbs all alike. Arguments: m, n, k, the operands' form (NN, NT: B is a transpose,
// TN: A is one) and threads. Each column is the rate at a kernel's shortest call, in 10^9
// multiply-adds per second; "choice" is gemm's.
#include <benchmark/benchmark.h>
#include <omp.h>

#if BRIM_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/threads.h>

#include "backend/cpu/gemm/gemm_kernels.h"
#include "backend/cpu/runtime/parallel.h"

namespace brim::cpu {
namespace {

enum Form { NN, NT, TN, TT };

struct Product {
  int64_t m, n, k;
  Form form;
  std::vector<float> a, b, c;
  Matrix<float> ma, mb;

  explicit Product(const benchmark::State& state)
      : m(state.range(0)),
        n(state.range(1)),
        k(state.range(2)),
        form(static_cast<Form>(state.range(3))),
        a(static_cast<size_t>(m * k)),
        b(static_cast<size_t>(k * n)),
        c(static_cast<size_t>(m * n)) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
    const bool ta = form == TN || form == TT, tb = form == NT || form == TT;
    ma = ta ? Matrix<float>{a.data(), 1, m} : Matrix<float>{a.data(), k, 1};
    mb = tb ? Matrix<float>{b.data(), 1, k} : Matrix<float>{b.data(), n, 1};
  }
};

#if BRIM_HAVE_DNNL
/// oneDNN's sgemm, one call per thread for its rows or columns: its own threads would spin.
void onednn(Product& p) {
  const bool ta = p.ma.col != 1, tb = p.mb.col != 1, by_rows = p.m >= p.n;
  const int64_t length = by_rows ? p.m : p.n, blocks = (length + 63) / 64;
  const int64_t grain =
      std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(1, p.m * p.n * p.k / blocks));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * 64, count = std::min(length, end * 64) - from;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', by_rows ? count : p.m, by_rows ? p.n : count, p.k,
               1.0f, p.ma.data + (by_rows ? from * p.ma.row : 0), ta ? p.m : p.k,
               p.mb.data + (by_rows ? 0 : from * p.mb.col), tb ? p.k : p.n, 0.0f,
               p.c.data() + (by_rows ? from * p.n : from), p.n);
    omp_set_num_threads(threads);
  });
}
#endif

/// Of one thread its own time, without the moments in which it does not run.
double seconds_now(bool of_thread) {
  timespec now;
  clock_gettime(of_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void gemm_kernels(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(4)));
  Product p(state);
  struct Kernel {
    std::string name;
    std::function<void()> run;
    double best = 1e30;
  };
  std::vector<Kernel> kernels;
  const auto add = [&](const std::string& name, auto* kernel) {
    kernels.push_back(
        {name, [&p, kernel] { kernel(p.m, p.n, p.k, p.ma, p.mb, false, p.c.data(), p.n); }});
  };
  add("choice", &gemm<float>);
  add("packed", &gemm_packed<float>);
  if (p.form == NN || p.form == TN) add("broadcast", &gemm_broadcast<float>);
  if (p.form == NT) add("dot", &gemm_dot<float>);
#if BRIM_HAVE_DNNL
  kernels.push_back({"onednn", [&p] { onednn(p); }});
#endif
  const double work = static_cast<double>(p.m * p.n * p.k);
  const int calls = std::max(1, static_cast<int>(2e6 / work));  // in a row, after a first one
  for (auto _ : state)
    for (Kernel& kernel : kernels) {
      kernel.run();
      const double start = seconds_now(state.range(4) == 1);
      for (int i = 0; i < calls; ++i) kernel.run();
      kernel.best = std::min(kernel.best, (seconds_now(state.range(4) == 1) - start) / calls);
    }
  for (const Kernel& kernel : kernels) state.counters[kernel.name] = work / kernel.best * 1e-9;
}

void products(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "form", "threads"});
  const auto add = [&](int64_t m, int64_t n, int64_t k, Form form) {
    for (const int64_t threads : {1, 2}) bench->Args({m, n, k, form, threads});
  };
  for (const Form form : {NN, NT, TN, TT})
    for (const int64_t n : {64, 128, 256, 512, 768, 1024}) add(n, n, n, form);
  for (const int64_t m : {8, 32, 64}) add(m, 128, 256, NT);
  for (const Form form : {NN, NT, TN}) add(2048, 2048, 2048, form);
  add(512, 4096, 1024, TN);
  add(1024, 512, 2048, TN);
  for (const int64_t n : {10, 16, 24}) add(128, n, 784, NT);
  add(4096, 64, 576, NN);
  add(64, 4096, 576, NN);
  add(4096, 64, 576, NT);
  // Fully connected layers (rows, inputs, outputs): forward, gradients of x and of the weight.
  const int64_t layers[][3] = {
      {32, 784, 512},  {64, 784, 512},    {128, 784, 512},  {256, 784, 512}, {32, 512, 512},
      {128, 784, 128}, {128, 400, 120},   {128, 120, 84},   {64, 400, 120},  {32, 512, 10},
      {128, 128, 10},  {1024, 256, 1024}, {4096, 256, 1024}};
  for (const auto& [rows, in, out] : layers) {
    add(rows, out, in, NT);
    add(rows, in, out, NN);
    add(out, in, rows, TN);
  }
}
BENCHMARK(gemm_kernels)->Apply(products)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace brim::cpu

BENCHMARK_MAIN();
