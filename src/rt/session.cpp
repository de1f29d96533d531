// Runs: passes through the steps, in one lane or in several at a time.
#include "rt/session.h"

namespace brim::rt {
namespace {

/// Takes one pass through all steps.
int run_pass(brim_rt_session& s, Lane& lane, int64_t pass, const void* const* inputs,
             void* const* outputs) {
  for (uint64_t i = 0; i < lane.value_count; ++i) {
    Operand& v = lane.values[i];
    if (v.port < 0) continue;
    const void* const all = v.port < s.inputs ? inputs[v.port] : outputs[v.port - s.inputs];
    v.data = static_cast<char*>(const_cast<void*>(all)) + static_cast<size_t>(pass) * v.bytes();
  }
  const Failure fail(&lane.error);
  const Run run{s.isa, s.step_threads(), lane.scratch};
  for (uint64_t i = 0; i < lane.step_count; ++i) {
    if (s.is_cancelled.load(std::memory_order_relaxed))
      return fail(BRIM_RT_CANCELLED, "the run was cancelled");
    const Step& step = lane.steps[i];
    if (const int code = step.op->run(step, run, fail)) return code;
  }
  return BRIM_RT_OK;
}

/// Passes that no other lane has begun, until one fails.
void run_lane(brim_rt_session& s, Lane& lane, const void* const* inputs, void* const* outputs) {
  lane.error.code = BRIM_RT_OK;
  for (;;) {
    const int64_t pass = s.next_pass.fetch_add(1, std::memory_order_relaxed);
    if (pass >= s.passes()) return;
    if (run_pass(s, lane, pass, inputs, outputs) == BRIM_RT_OK) continue;
    s.next_pass.store(s.passes(), std::memory_order_relaxed);
    return;
  }
}

}  // namespace
}  // namespace brim::rt

using brim::rt::Failure;

int brim_rt_run(brim_rt_session* session, const void* const* inputs, void* const* outputs,
                brim_rt_error* error) {
  const Failure fail(error);
  if (!session || (!inputs && session->inputs > 0) || (!outputs && session->outputs > 0))
    return fail(BRIM_RT_INVALID_ARGUMENT, "brim_rt_run: a null pointer");
  for (int i = 0; i < session->inputs + session->outputs; ++i) {
    const bool is_input = i < session->inputs;
    const void* const data = is_input ? inputs[i] : outputs[i - session->inputs];
    if (!data)
      return fail(BRIM_RT_INVALID_ARGUMENT, "brim_rt_run: no elements of %s",
                  session->ports[i].name);
  }
  if (session->threads.follow_fork() != BRIM_RT_OK)
    return fail(BRIM_RT_NO_THREAD, "the system starts no %d threads in this child of fork()",
                session->threads.count());
  session->next_pass.store(0, std::memory_order_relaxed);
  struct Job {
    brim_rt_session& session;
    const void* const* inputs;
    void* const* outputs;
  } job{*session, inputs, outputs};
  if (session->lane_count == 1)
    brim::rt::run_lane(*session, session->lanes[0], inputs, outputs);
  else
    session->threads.run(
        session->lane_count,
        [](void* context, int64_t part) {
          const Job& j = *static_cast<const Job*>(context);
          brim::rt::run_lane(j.session, j.session.lanes[part], j.inputs, j.outputs);
        },
        &job);
  const brim_rt_error* first = nullptr;
  for (int i = session->lane_count; i-- > 0;) {
    const brim_rt_error& found = session->lanes[i].error;
    if (found.code == BRIM_RT_CANCELLED)
      session->is_cancelled.store(false, std::memory_order_relaxed);
    if (found.code != BRIM_RT_OK) first = &found;
  }
  return first ? fail(first->code, "%s", first->message) : BRIM_RT_OK;
}

void brim_rt_cancel(brim_rt_session* session) {
  if (session) session->is_cancelled.store(true, std::memory_order_relaxed);
}

const brim_rt_port* brim_rt_input(const brim_rt_session* session, int index) {
  return session && index >= 0 && index < session->inputs ? &session->ports[index] : nullptr;
}

const brim_rt_port* brim_rt_output(const brim_rt_session* session, int index) {
  return session && index >= 0 && index < session->outputs
             ? &session->ports[session->inputs + index]
             : nullptr;
}

size_t brim_rt_memory(const brim_rt_session* session) {
  return session ? session->bytes + session->scratch_bytes : 0;
}

const char* brim_rt_isa(const brim_rt_session* session) {
  return session ? brim::rt::name_of(session->isa) : nullptr;
}

const char* brim_rt_step(const brim_rt_session* session, int index) {
  if (!session || index < 0 || static_cast<uint64_t>(index) >= session->program->steps.count)
    return nullptr;
  return session->lanes[0].steps[index].name;
}
