// The samples in a file, run and compared.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "rt/session.h"

namespace {

using brim::rt::Failure;
using brim::rt::ProofRecord;

/// Rows of the proof, repeated until a batch is full.
void repeat(const char* rows, size_t row, int64_t samples, int64_t batch, char* to) {
  for (int64_t i = 0; i < batch; ++i)
    std::memcpy(to + static_cast<size_t>(i) * row, rows + static_cast<size_t>(i % samples) * row,
                row);
}

/// The largest difference of f32 outputs as a share of the largest output; infinity where one of
/// two is NaN.
double difference(const float* found, const float* expected, size_t count) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double a = found[i], b = expected[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
      continue;
    }
    const double apart = std::fabs(a - b);
    worst = apart <= 1e300 ? std::max(worst, apart) : HUGE_VAL;
    if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
  }
  return worst == 0 ? 0 : worst / std::max(largest, 1e-30);
}

/// Whether indices are the expected ones, where that is not -1: there several may be right.
bool are_indices(const int32_t* found, const int32_t* expected, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (expected[i] != -1 && found[i] != expected[i]) return false;
  return true;
}

}  // namespace

int brim_rt_verify(brim_rt_session* session, double* worst, brim_rt_error* error) {
  const Failure fail(error);
  if (!session) return fail(BRIM_RT_INVALID_ARGUMENT, "brim_rt_verify: a null pointer");
  const brim_rt_model& model = *session->model;
  const auto& header = model.header();
  const int64_t samples = header.proof_samples, batch = session->program->batch;
  const int ports = session->inputs + session->outputs;
  const auto* const proofs = model.table<ProofRecord>(header.proof);
  if (samples == 0) return fail(BRIM_RT_UNSUPPORTED, "the engine holds no samples to verify it by");
  bool fits = samples > 0 && header.proof.count == static_cast<uint64_t>(ports);
  size_t bytes = static_cast<size_t>(ports) * sizeof(void*);
  for (int i = 0; i < ports && fits; ++i) {
    const size_t row = session->ports[i].bytes / static_cast<size_t>(batch);
    fits =
        row > 0 && proofs[i].bytes % row == 0 &&
        proofs[i].bytes / row == static_cast<uint64_t>(samples) &&
        !__builtin_add_overflow(bytes, session->ports[i].bytes + 2 * brim::rt::kAlignment, &bytes);
  }
  if (!fits) return fail(BRIM_RT_DAMAGED, "the engine's samples do not fit its inputs and outputs");
  char* const block = static_cast<char*>(model.memory.take(bytes));
  if (!block) return fail(BRIM_RT_NO_MEMORY, "no memory for the outputs of samples");
  void** const pointers = reinterpret_cast<void**>(block);
  char* at = block + static_cast<size_t>(ports) * sizeof(void*);
  for (int i = 0; i < ports; ++i) {
    at += (brim::rt::kAlignment - reinterpret_cast<uintptr_t>(at) % brim::rt::kAlignment) %
          brim::rt::kAlignment;
    pointers[i] = at;
    at += session->ports[i].bytes;
    if (i < session->inputs)
      repeat(model.data + proofs[i].at, session->ports[i].bytes / static_cast<size_t>(batch),
             samples, batch, static_cast<char*>(pointers[i]));
  }
  int code = brim_rt_run(session, pointers, pointers + session->inputs, error);
  double all = 0;
  for (int i = session->inputs; i < ports && !code; ++i) {
    const brim_rt_port& port = session->ports[i];
    const size_t row = port.bytes / static_cast<size_t>(batch);
    for (int64_t b = 0; b < batch && !code; ++b) {
      const char* const found = static_cast<char*>(pointers[i]) + static_cast<size_t>(b) * row;
      const char* const expected =
          model.data + proofs[i].at + static_cast<size_t>(b % samples) * row;
      if (port.dtype == BRIM_RT_F32)
        all = std::max(all,
                       difference(reinterpret_cast<const float*>(found),
                                  reinterpret_cast<const float*>(expected), row / sizeof(float)));
      else if (port.dtype == BRIM_RT_I32
                   ? !are_indices(reinterpret_cast<const int32_t*>(found),
                                  reinterpret_cast<const int32_t*>(expected), row / sizeof(int32_t))
                   : std::memcmp(found, expected, row) != 0)
        all = HUGE_VAL;
    }
    if (!(all <= header.tolerance))
      code = port.dtype != BRIM_RT_F32
                 ? fail(BRIM_RT_NOT_EQUAL, "%s are not those that brim computed", port.name)
                 : fail(BRIM_RT_NOT_EQUAL,
                        "%s differs by %.3g of its largest value from what brim computed; %.3g is "
                        "allowed",
                        port.name, all, header.tolerance);
  }
  model.memory.give_back(block, bytes);
  if (worst) *worst = all;
  return code;
}
