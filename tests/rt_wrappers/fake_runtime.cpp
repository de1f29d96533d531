// A library behind brim_rt.h that wrappers are tried with: it doubles (batch, 3) floats and reports
// every error when it is asked to. Its engines are texts: "fake engine CODE" opens with that
// brim_rt_code, which is 0 as a rule.
#include <brim_rt.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct brim_rt_model {
  bool is_wrong;  // as brim_rt_verify() is to find
};

struct brim_rt_session {
  brim_rt_model* model;
  brim_rt_session_options options;
  brim_rt_port in, out;
  std::string isa;
  std::atomic<bool> is_cancelled = false;
};

namespace {

int fail(brim_rt_error* error, brim_rt_code code, const char* message) {
  if (error) {
    error->code = code;
    std::snprintf(error->message, sizeof error->message, "%s", message);
  }
  return code;
}

constexpr int64_t kBatches[] = {1, 4};
std::atomic<int> open_handles = 0;

}  // namespace

extern "C" {

/// Models and sessions that nobody has closed.
BRIM_RT_API int fake_open_handles() { return open_handles; }

int brim_rt_open_memory(const void* data, size_t bytes, const brim_rt_allocator* /*allocator*/,
                        brim_rt_model** model, brim_rt_error* error) {
  if (reinterpret_cast<uintptr_t>(data) % 64 != 0)
    return fail(error, BRIM_RT_INVALID_ARGUMENT, "not aligned to 64 bytes");
  const std::string text(static_cast<const char*>(data), bytes);
  constexpr const char* kMagic = "fake engine ";
  if (text.rfind(kMagic, 0) != 0) return fail(error, BRIM_RT_DAMAGED, "no engine");
  const int code = std::atoi(text.c_str() + std::strlen(kMagic));
  if (code != BRIM_RT_OK && code != BRIM_RT_NOT_EQUAL)
    return fail(error, static_cast<brim_rt_code>(code), "as it was asked to");
  *model = new brim_rt_model{code == BRIM_RT_NOT_EQUAL};
  ++open_handles;
  return BRIM_RT_OK;
}

int brim_rt_open(const char* path, const brim_rt_allocator* allocator, brim_rt_model** model,
                 brim_rt_error* error) {
  std::FILE* const file = std::fopen(path, "rb");
  if (!file) return fail(error, BRIM_RT_FILE, (std::string(path) + " cannot be opened").c_str());
  alignas(64) char text[64];
  const size_t bytes = std::fread(text, 1, sizeof text, file);
  std::fclose(file);
  return brim_rt_open_memory(text, bytes, allocator, model, error);
}

void brim_rt_close(brim_rt_model* model) {
  if (model) --open_handles;
  delete model;
}

int brim_rt_session_create(brim_rt_model* model, const brim_rt_session_options* options,
                           brim_rt_session** session, brim_rt_error* error) {
  brim_rt_session_options o = options ? *options : brim_rt_session_options{};
  if (o.batch == 0) o.batch = kBatches[0];
  if (o.batch != kBatches[0] && o.batch != kBatches[1])
    return fail(error, BRIM_RT_INVALID_ARGUMENT, "batch: 1 or 4");
  if (o.isa && std::strcmp(o.isa, "avx2") != 0)
    return fail(error, BRIM_RT_UNSUPPORTED, "isa: avx2 only");
  if (o.own_threads > 1000) return fail(error, BRIM_RT_NO_THREAD, "too many threads");
  const brim_rt_port in = {
      "x", BRIM_RT_F32, 2, {o.batch, 3}, static_cast<size_t>(o.batch) * 3 * sizeof(float)};
  brim_rt_port out = in;
  out.name = "doubled";
  *session = new brim_rt_session{model, o, in, out, o.isa ? o.isa : "baseline"};
  ++open_handles;
  return BRIM_RT_OK;
}

void brim_rt_session_close(brim_rt_session* session) {
  if (session) --open_handles;
  delete session;
}

int brim_rt_run(brim_rt_session* session, const void* const* inputs, void* const* outputs,
                brim_rt_error* error) {
  if (session->is_cancelled.exchange(false)) return fail(error, BRIM_RT_CANCELLED, "cancelled");
  const auto* const x = static_cast<const float*>(inputs[0]);
  auto* const y = static_cast<float*>(outputs[0]);
  for (int64_t i = 0; i < session->options.batch * 3; ++i) y[i] = 2 * x[i];
  return BRIM_RT_OK;
}

void brim_rt_cancel(brim_rt_session* session) { session->is_cancelled = true; }

int brim_rt_verify(brim_rt_session* session, double* worst, brim_rt_error* error) {
  const bool is_wrong = session->model->is_wrong;
  if (worst) *worst = is_wrong ? 0.5 : 1e-7;
  return is_wrong ? fail(error, BRIM_RT_NOT_EQUAL, "doubled is off by 0.5") : BRIM_RT_OK;
}

const brim_rt_port* brim_rt_input(const brim_rt_session* session, int index) {
  return index == 0 ? &session->in : nullptr;
}
const brim_rt_port* brim_rt_output(const brim_rt_session* session, int index) {
  return index == 0 ? &session->out : nullptr;
}
size_t brim_rt_memory(const brim_rt_session*) { return 4096; }
const char* brim_rt_isa(const brim_rt_session* session) { return session->isa.c_str(); }
int brim_rt_abi() { return BRIM_RT_ABI; }

const char* brim_rt_step(const brim_rt_session*, int index) {
  constexpr const char* kSteps[] = {"double, of layer", "", "end"};
  return index >= 0 && index < 3 ? kSteps[index] : nullptr;
}
int64_t brim_rt_batch(const brim_rt_model*, int index) {
  return index >= 0 && index < 2 ? kBatches[index] : 0;
}
const char* brim_rt_label(const brim_rt_model*, int index) {
  constexpr const char* kLabels[] = {"cat", "dog", "한국어"};
  return index >= 0 && index < 3 ? kLabels[index] : nullptr;
}
const char* brim_rt_metadata(const brim_rt_model*, const char* key) {
  return std::strcmp(key, "model") == 0 ? "doubler" : nullptr;
}

}  // extern "C"
