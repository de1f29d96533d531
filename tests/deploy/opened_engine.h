// An engine by the runtime's C interface, for tests.
#pragma once

#include <brim_rt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/ops/create.h>

namespace brim::tests {

/// A model with one session. Throws std::runtime_error with the runtime's line.
class OpenedEngine {
 public:
  explicit OpenedEngine(const std::string& path, brim_rt_session_options options = {},
                        const brim_rt_allocator* allocator = nullptr)
      : model_(nullptr, &brim_rt_close), session_(nullptr, &brim_rt_session_close) {
    brim_rt_error error;
    brim_rt_model* model = nullptr;
    check(brim_rt_open(path.c_str(), allocator, &model, &error), error);
    model_.reset(model);
    brim_rt_session* session = nullptr;
    if (!options.own_threads && !options.threads) options.own_threads = 2;
    check(brim_rt_session_create(model, &options, &session, &error), error);
    session_.reset(session);
  }

  brim_rt_model* model() const { return model_.get(); }
  brim_rt_session* session() const { return session_.get(); }

  /// The first output of one input.
  Tensor operator()(const Tensor& x) const { return outputs(x)[0]; }
  /// All of them.
  std::vector<Tensor> outputs(const Tensor& x) const {
    constexpr DType kTypes[] = {DType::f32, DType::i64, DType::u8, DType::i32};
    std::vector<Tensor> all;
    std::vector<void*> pointers;
    for (int k = 0; const brim_rt_port* const port = brim_rt_output(session(), k); ++k) {
      Shape shape;
      for (int i = 0; i < port->rank; ++i) shape.push_back(port->shape[i]);
      all.push_back(Tensor::empty(shape, kTypes[port->dtype], Device::cpu()));
      pointers.push_back(all.back().raw());
    }
    const Tensor dense = x.contiguous();
    if (brim_rt_input(session(), 0)->bytes !=
        static_cast<size_t>(dense.numel()) * size_of(dense.dtype()))
      throw std::runtime_error("an input of another size");
    const void* inputs[] = {dense.raw()};
    brim_rt_error error;
    check(brim_rt_run(session(), inputs, pointers.data(), &error), error);
    return all;
  }

  static void check(int code, const brim_rt_error& error) {
    if (code != BRIM_RT_OK) throw std::runtime_error(error.message);
  }

 private:
  std::unique_ptr<brim_rt_model, void (*)(brim_rt_model*)> model_;
  std::unique_ptr<brim_rt_session, void (*)(brim_rt_session*)> session_;
};

/// Of a runtime, best first.
inline constexpr const char* kInstructionSets[] = {"avx512vnni", "avx512", "avx2", "sse4",
                                                   "baseline"};

/// On options.isa; null where this CPU or build has no such instructions.
inline std::unique_ptr<OpenedEngine> engine_on(const brim_rt_session_options& options,
                                               const std::string& path,
                                               const brim_rt_allocator* allocator = nullptr) {
  try {
    return std::make_unique<OpenedEngine>(path, options, allocator);
  } catch (const std::runtime_error& e) {
    if (std::string(e.what()).find("this CPU or this runtime lacks") == std::string::npos) throw;
    return nullptr;
  }
}

/// Calls f(engine) for all instruction sets and for one to three threads.
inline void for_each_engine(const std::string& path, int64_t batch,
                            const std::function<void(const OpenedEngine&)>& f) {
  int tried = 0;
  for (const char* isa : kInstructionSets)
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(std::string(isa) + ", " + std::to_string(threads) + " threads");
      const auto engine = engine_on({.batch = batch, .own_threads = threads, .isa = isa}, path);
      if (!engine) continue;
      f(*engine);
      ++tried;
    }
  EXPECT_GE(tried, 2);
}

/// The largest difference as a share of the largest number.
inline double relative_difference(const Tensor& found, const Tensor& expected) {
  const std::vector<float> a = found.contiguous().to_vector<float>(),
                           b = expected.contiguous().to_vector<float>();
  if (a.size() != b.size()) return 1e300;
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::fabs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::fabs(double{b[i]}));
  }
  return worst / largest;
}

}  // namespace brim::tests
