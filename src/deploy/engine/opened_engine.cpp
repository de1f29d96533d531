#include "deploy/engine/opened_engine.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <vector>

#include "core/check.h"
#include "rt/format.h"

namespace brim::deploy {
namespace {

constexpr std::align_val_t kFileAlignment{rt::kAlignment};

/// What the runtime reports is why no file is written.
template <class F>
auto checked(const F& f) {
  try {
    return f();
  } catch (const brim_rt::Error& e) {
    raise<ValueError>("[engine] not written: {}", e.what());
  }
}

}  // namespace

OpenedEngine::Copy::Copy(const std::string& bytes)
    : data_(::operator new(bytes.size(), kFileAlignment)) {
  std::ranges::copy(bytes, static_cast<char*>(data_));
}
OpenedEngine::Copy::~Copy() { ::operator delete(data_, kFileAlignment); }

OpenedEngine::OpenedEngine(const std::string& bytes, int threads)
    : file_(bytes),
      threads_(threads),
      model_(checked([&] { return brim_rt::Model(file_.data(), bytes.size()); })) {}

brim_rt::Session OpenedEngine::session(int64_t batch) const {
  return checked([&] {
    return brim_rt::Session(
        model_, {.batch = batch, .own_threads = threads_, .threads = nullptr, .isa = nullptr});
  });
}

OpenedEngine::Verified OpenedEngine::verify(int64_t batch) const {
  brim_rt::Session s = session(batch);
  return {checked([&] { return s.verify(); }), static_cast<int64_t>(s.memory())};
}

double OpenedEngine::seconds(int64_t batch) const {
  brim_rt::Session s = session(batch);
  std::vector<std::vector<char>> elements;
  std::vector<void*> inputs, outputs;
  const auto add = [&](const std::vector<brim_rt_port>& ports, std::vector<void*>& to) {
    for (const brim_rt_port& port : ports)
      to.push_back(elements.emplace_back(port.bytes, '\0').data());
  };
  add(s.inputs(), inputs);
  add(s.outputs(), outputs);
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  constexpr int kRounds = 6;
  constexpr double kEnough = 0.5;  // seconds
  for (int i = 0; i < kRounds && (i < 2 || spent < kEnough); ++i) {
    const auto start = Clock::now();
    checked([&] { s.run(inputs.data(), outputs.data()); });
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, taken);
    spent += taken;
  }
  return best;
}

}  // namespace brim::deploy
