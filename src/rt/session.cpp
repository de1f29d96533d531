#include "rt/session.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

namespace brim::rt {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 42;

int damaged(const Failure& fail, const char* what) {
  return fail(BRIM_RT_DAMAGED, "the engine is damaged: %s; write it anew with brim export", what);
}

constexpr int kMaxThreads = 1024;

}  // namespace

int core_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : count < kMaxThreads ? static_cast<int>(count) : kMaxThreads;
}

namespace {

/// Where the parts of a session lie in its block.
class Layout {
 public:
  template <class T>
  size_t add(size_t count) {
    const size_t at = bytes_;
    size_t more;
    if (__builtin_mul_overflow(count, sizeof(T), &more) ||
        __builtin_add_overflow(bytes_, more + kAlignment - 1, &bytes_) || more > SIZE_MAX / 2)
      overflows_ = true;
    bytes_ = bytes_ / kAlignment * kAlignment;
    return at;
  }
  size_t bytes() const { return bytes_; }
  bool overflows() const { return overflows_; }

 private:
  size_t bytes_ = 0;
  bool overflows_ = false;
};

/// Makes a session out of a program, step by step; what is wrong is the file's fault.
class Builder {
 public:
  Builder(const brim_rt_model& model, const ProgramRecord& program, const Failure& fail)
      : model_(model), program_(program), fail_(fail) {}

  int fill_values(const Lane& lane) const {
    const auto* const records = model_.table<ValueRecord>(program_.values);
    for (uint64_t i = 0; i < program_.values.count; ++i) {
      const ValueRecord r = records[i];
      Operand& v = *new (&lane.values[i]) Operand;
      if (static_cast<int>(r.dtype) >= kDTypes || r.rank > kMaxRank)
        return damaged(fail_, "a value's type is unknown");
      v.dtype = r.dtype;
      v.rank = r.rank;
      int64_t count = 1;
      for (int d = 0; d < v.rank; ++d) {
        if (r.dims[d] < 1 || __builtin_mul_overflow(count, r.dims[d], &count) ||
            count > kMaxElements)
          return damaged(fail_, "a value's size is out of range");
        v.dims[d] = r.dims[d];
      }
      const size_t bytes = v.bytes();
      const size_t room = r.place == Place::weights ? model_.header().weights.count
                                                    : static_cast<size_t>(program_.arena_bytes);
      switch (r.place) {
        case Place::weights:
        case Place::arena:
          if (r.at % kAlignment != 0 || r.at > room || bytes > room - r.at)
            return damaged(fail_, "a value lies beyond its memory");
          v.data = r.place == Place::arena
                       ? lane.arena + r.at
                       : const_cast<char*>(model_.data) + model_.header().weights.at + r.at;
          break;
        case Place::input:
          if (r.at >= program_.inputs.count) return damaged(fail_, "a value is of no input");
          v.port = static_cast<int>(r.at);
          break;
        case Place::output:
          if (r.at >= program_.outputs.count) return damaged(fail_, "a value is of no output");
          v.port = static_cast<int>(program_.inputs.count + r.at);
          break;
        default:
          return damaged(fail_, "a value is nowhere");
      }
    }
    return BRIM_RT_OK;
  }

  int fill_ports(brim_rt_session& s) const {
    s.inputs = static_cast<int>(program_.inputs.count);
    s.outputs = static_cast<int>(program_.outputs.count);
    for (int i = 0; i < s.inputs + s.outputs; ++i) {
      const bool is_input = i < s.inputs;
      const int index = is_input ? i : i - s.inputs;
      const PortRecord& r =
          model_.table<PortRecord>(is_input ? program_.inputs : program_.outputs)[index];
      if (r.name >= model_.header().text.count || r.value >= program_.values.count)
        return damaged(fail_, "an input or output is of no value");
      const ValueRecord& value = model_.table<ValueRecord>(program_.values)[r.value];
      if (value.place != (is_input ? Place::input : Place::output) ||
          value.at != static_cast<uint64_t>(index))
        return damaged(fail_, "an input or output is of another value");
      const Operand& v = s.lanes[0].values[r.value];
      brim_rt_port& port = s.ports[i];
      port = {};
      port.name = model_.text(r.name);
      port.dtype = static_cast<brim_rt_dtype>(v.dtype);
      port.rank = v.rank;
      std::copy_n(v.dims, v.rank, port.shape);
      port.bytes = v.bytes() * static_cast<size_t>(s.passes());
      if (v.rank < 1 || v.dims[0] % program_.pass != 0 ||
          __builtin_mul_overflow(v.dims[0], s.passes(), &port.shape[0]) ||
          v.count() > kMaxElements / s.passes())
        return damaged(fail_, "an input or output has no batch");
      s.port_values[i] = r.value;
    }
    return check_views(s);
  }

  /// Values that are an input or output in another shape have its elements.
  int check_views(const brim_rt_session& s) const {
    for (uint64_t i = 0; i < program_.values.count; ++i) {
      const int port = s.lanes[0].values[i].port;
      if (port < 0) continue;
      const Operand *const values = s.lanes[0].values, &v = values[i],
                           &whole = values[s.port_values[port]];
      if (v.dtype != whole.dtype || v.count() != whole.count())
        return damaged(fail_, "a value is more than the input or output it is of");
    }
    return BRIM_RT_OK;
  }

  /// `scratch`: bytes that a lane takes.
  int fill_steps(const Lane& lane, int threads, size_t& scratch) const {
    const auto* const records = model_.table<StepRecord>(program_.steps);
    for (uint64_t i = 0; i < program_.steps.count; ++i) {
      const StepRecord& r = records[i];
      const Op* const op = find_op(r.op);
      if (r.name >= model_.header().text.count) return damaged(fail_, "a step has no name");
      if (!op)
        return fail_(
            BRIM_RT_UNSUPPORTED,
            "%s: this runtime was made for another engine and lacks it (op %u); take one with all "
            "ops, or export this engine with --runtime",
            model_.text(r.name), r.op);
      const uint64_t ids = uint64_t{r.inputs} + r.outputs;
      if (r.first_id > program_.ids.count || ids > program_.ids.count - r.first_id ||
          r.first_word > program_.words.count || r.words > program_.words.count - r.first_word)
        return damaged(fail_, "a step's operands lie beyond their table");
      Step& step = *new (&lane.steps[i]) Step;
      step = {.op = op,
              .name = model_.text(r.name),
              .values = lane.values,
              .ids = lane.ids + r.first_id,
              .inputs = r.inputs,
              .outputs = r.outputs,
              .words = lane.words + r.first_word,
              .word_count = static_cast<int>(r.words)};
      for (uint64_t k = 0; k < ids; ++k) {
        if (step.ids[k] >= program_.values.count) return damaged(fail_, "a step has no operand");
        const Operand& v = lane.values[step.ids[k]];
        const bool is_ours = v.data >= lane.arena && v.data < lane.arena + program_.arena_bytes;
        const bool is_output = v.port >= static_cast<int>(program_.inputs.count);
        if (k >= r.inputs && !is_ours && !is_output)
          return damaged(fail_, "a step writes what is only read");
      }
      if (const int code = op->check(step, fail_)) return code;
      if (op->scratch) scratch = std::max(scratch, op->scratch(step, threads));
    }
    return BRIM_RT_OK;
  }

 private:
  const brim_rt_model& model_;
  const ProgramRecord& program_;
  const Failure& fail_;
};

int choose_isa(const char* name, Isa& isa, const Failure& fail) {
  isa = best_isa();
  if (!is_available(Isa::baseline))
    return fail(BRIM_RT_UNSUPPORTED,
                "this runtime was compiled for instructions that the CPU lacks");
  if (!name) return BRIM_RT_OK;
  if (!parse_isa(name, isa))
    return fail(BRIM_RT_INVALID_ARGUMENT, "isa: '%s' is none of avx512, avx2, sse4, baseline",
                name);
  if (!is_available(isa))
    return fail(BRIM_RT_UNSUPPORTED, "isa: this CPU or this runtime lacks %s; the best is %s", name,
                name_of(best_isa()));
  return BRIM_RT_OK;
}

int create(brim_rt_model* model, const brim_rt_session_options& options, brim_rt_session** session,
           const Failure& fail) {
  const FileHeader& header = model->header();
  const ProgramRecord* program = nullptr;
  for (uint64_t i = 0; i < header.programs.count && !program; ++i) {
    const ProgramRecord& p = model->program(static_cast<int64_t>(i));
    if (options.batch == 0 || p.batch == options.batch) program = &p;
  }
  if (!program)
    return fail(BRIM_RT_INVALID_ARGUMENT,
                "the engine has no program for batches of %lld; its first is for %lld",
                static_cast<long long>(options.batch),
                static_cast<long long>(model->program(0).batch));
  const int count = options.threads       ? options.threads->count
                    : options.own_threads ? options.own_threads
                                          : core_count();
  if (count < 1 || count > kMaxThreads || (options.threads && !options.threads->run))
    return fail(BRIM_RT_INVALID_ARGUMENT, "threads: %d are not between 1 and %d, or cannot run",
                count, kMaxThreads);
  Isa isa;
  if (const int code = choose_isa(options.isa, isa, fail)) return code;

  const int64_t passes = program->batch / program->pass;
  const int lane_count =
      count > 1 && passes > 1 ? static_cast<int>(std::min<int64_t>(count, passes)) : 1;
  Layout layout;
  const size_t ports = program->inputs.count + program->outputs.count;
  layout.add<brim_rt_session>(1);
  const size_t lanes = layout.add<Lane>(static_cast<size_t>(lane_count));
  const size_t port_room = layout.add<brim_rt_port>(ports);
  const size_t port_values = layout.add<uint32_t>(ports);
  const size_t first_lane = layout.bytes();
  const size_t values = layout.add<Operand>(program->values.count) - first_lane;
  const size_t steps = layout.add<Step>(program->steps.count) - first_lane;
  const size_t ids = layout.add<uint32_t>(program->ids.count) - first_lane;
  const size_t words = layout.add<int64_t>(program->words.count) - first_lane;
  const size_t arena = layout.add<char>(program->arena_bytes) - first_lane;
  const size_t lane_bytes = layout.bytes() - first_lane;
  if (lane_count > 1) layout.add<char>(lane_bytes * static_cast<size_t>(lane_count - 1));
  constexpr size_t kMaxBytes = size_t{1} << 46;
  if (layout.overflows() || program->arena_bytes > kMaxBytes || layout.bytes() > kMaxBytes)
    return damaged(fail, "its memory is out of range");
  char* const block = static_cast<char*>(model->memory.take(layout.bytes()));
  if (!block)
    return fail(BRIM_RT_NO_MEMORY, "no memory for the session's %llu bytes",
                static_cast<unsigned long long>(layout.bytes()));
  auto* const s = new (block) brim_rt_session;
  s->model = model;
  s->program = program;
  s->bytes = layout.bytes();
  s->isa = isa;
  s->lanes = reinterpret_cast<Lane*>(block + lanes);
  s->lane_count = lane_count;
  s->ports = reinterpret_cast<brim_rt_port*>(block + port_room);
  s->port_values = reinterpret_cast<uint32_t*>(block + port_values);
  const auto give_up = [&](int code) {
    brim_rt_session_close(s);
    return code;
  };
  if (options.threads)
    s->threads.borrow(*options.threads);
  else if (const int code = s->threads.start(count, model->memory))
    return give_up(code == BRIM_RT_NO_MEMORY
                       ? fail(BRIM_RT_NO_MEMORY, "no memory for %d threads", count)
                       : fail(BRIM_RT_NO_THREAD, "the system starts no %d threads", count));
  const Builder builder(*model, *program, fail);
  size_t scratch = 0;
  for (int i = 0; i < lane_count; ++i) {
    char* const at = block + first_lane + static_cast<size_t>(i) * lane_bytes;
    Lane& lane = *new (&s->lanes[i]) Lane;
    lane.values = reinterpret_cast<Operand*>(at + values);
    lane.steps = reinterpret_cast<Step*>(at + steps);
    lane.arena = at + arena;
    // Copies: whoever writes to the file meanwhile changes weights at most.
    auto* const own_ids = reinterpret_cast<uint32_t*>(at + ids);
    auto* const own_words = reinterpret_cast<int64_t*>(at + words);
    std::copy_n(model->table<uint32_t>(program->ids), program->ids.count, own_ids);
    std::copy_n(model->table<int64_t>(program->words), program->words.count, own_words);
    lane.value_count = program->values.count;
    lane.step_count = program->steps.count;
    lane.ids = own_ids;
    lane.words = own_words;
    if (const int code = builder.fill_values(lane)) return give_up(code);
    if (i == 0)
      if (const int code = builder.fill_ports(*s)) return give_up(code);
    if (const int code = builder.fill_steps(lane, s->step_threads().count(), scratch))
      return give_up(code);
  }
  scratch = (scratch + kAlignment - 1) / kAlignment * kAlignment;
  if (scratch > kMaxBytes) return give_up(damaged(fail, "its memory is out of range"));
  if (scratch > 0) {
    const size_t all = scratch * static_cast<size_t>(lane_count);
    s->scratch = static_cast<char*>(model->memory.take(all));
    if (!s->scratch)
      return give_up(fail(BRIM_RT_NO_MEMORY, "no memory for %llu bytes of scratch",
                          static_cast<unsigned long long>(all)));
    s->scratch_bytes = all;
    for (int i = 0; i < lane_count; ++i)
      s->lanes[i].scratch = s->scratch + static_cast<size_t>(i) * scratch;
  }
  *session = s;
  return BRIM_RT_OK;
}

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
using brim::rt::Operand;

int brim_rt_session_create(brim_rt_model* model, const brim_rt_session_options* options,
                           brim_rt_session** session, brim_rt_error* error) {
  const Failure fail(error);
  if (!model || !session)
    return fail(BRIM_RT_INVALID_ARGUMENT, "brim_rt_session_create: a null pointer");
  *session = nullptr;
  return brim::rt::create(model, options ? *options : brim_rt_session_options{}, session, fail);
}

void brim_rt_session_close(brim_rt_session* session) {
  if (!session) return;
  const brim::rt::Memory memory = session->model->memory;
  memory.give_back(session->scratch, session->scratch_bytes);
  const size_t bytes = session->bytes;
  session->~brim_rt_session();
  memory.give_back(session, bytes);
}

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
