// Sessions out of programs: memory for all of it, and each value and step of the file checked.
#include <algorithm>
#include <cstring>
#include <new>

#include "rt/session.h"

namespace brim::rt {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 42;
constexpr size_t kMaxBytes = size_t{1} << 46;

/// Where the parts of a session lie in its block: itself, lanes and ports, then what each lane has
/// of its own, counted from the lane's begin.
class SessionLayout {
 public:
  SessionLayout(const ProgramRecord& program, int lane_count) {
    const size_t count = program.inputs.count + program.outputs.count;
    add<brim_rt_session>(1);
    lanes = add<Lane>(static_cast<size_t>(lane_count));
    ports = add<brim_rt_port>(count);
    port_values = add<uint32_t>(count);
    first_lane = bytes_;
    values = add<Operand>(program.values.count) - first_lane;
    steps = add<Step>(program.steps.count) - first_lane;
    ids = add<uint32_t>(program.ids.count) - first_lane;
    words = add<int64_t>(program.words.count) - first_lane;
    arena = add<char>(program.arena_bytes) - first_lane;
    lane_bytes = bytes_ - first_lane;
    for (int i = 1; i < lane_count; ++i) add<char>(lane_bytes);
    is_possible_ = is_possible_ && program.arena_bytes <= kMaxBytes && bytes_ <= kMaxBytes;
  }

  size_t lanes, ports, port_values, first_lane;
  size_t values, steps, ids, words, arena, lane_bytes;
  size_t bytes() const { return bytes_; }
  bool is_possible() const { return is_possible_; }

 private:
  template <class T>
  size_t add(size_t count) {
    const size_t at = bytes_;
    size_t more;
    if (__builtin_mul_overflow(count, sizeof(T), &more) || more > kMaxBytes || bytes_ > kMaxBytes) {
      is_possible_ = false;
      return at;
    }
    bytes_ = (bytes_ + more + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  size_t bytes_ = 0;
  bool is_possible_ = true;
};

/// Makes a session out of a program, step by step; what is wrong is the file's fault.
class SessionBuilder {
 public:
  SessionBuilder(const brim_rt_model& model, const ProgramRecord& program, const Failure& fail)
      : model_(model), program_(program), fail_(fail) {}

  /// Of the file: whoever writes to it meanwhile changes weights at most.
  void copy_tables(Lane& lane, uint32_t* ids, int64_t* words) const {
    std::copy_n(model_.table<uint32_t>(program_.ids), program_.ids.count, ids);
    std::copy_n(model_.table<int64_t>(program_.words), program_.words.count, words);
    lane.ids = ids;
    lane.words = words;
    lane.value_count = program_.values.count;
    lane.step_count = program_.steps.count;
  }

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
      const size_t available = r.place == Place::weights
                                   ? model_.header().weights.count
                                   : static_cast<size_t>(program_.arena_bytes);
      switch (r.place) {
        case Place::weights:
        case Place::arena:
          if (r.at % kAlignment != 0 || r.at > available || bytes > available - r.at)
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
  int fill_steps(const Lane& lane, Isa isa, int threads, size_t& scratch) const {
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
      if (op->scratch) scratch = std::max(scratch, op->scratch(step, isa, threads));
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
    return fail(BRIM_RT_INVALID_ARGUMENT,
                "isa: '%s' is none of avx512vnni, avx512, avx2, sse4, baseline", name);
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
  const SessionLayout layout(*program, lane_count);
  if (!layout.is_possible()) return damaged(fail, "its memory is out of range");
  char* const block = static_cast<char*>(model->memory.take(layout.bytes()));
  if (!block)
    return fail(BRIM_RT_NO_MEMORY, "no memory for the session's %llu bytes",
                static_cast<unsigned long long>(layout.bytes()));
  auto* const s = new (block) brim_rt_session;
  s->model = model;
  s->program = program;
  s->bytes = layout.bytes();
  s->isa = isa;
  s->lanes = reinterpret_cast<Lane*>(block + layout.lanes);
  s->lane_count = lane_count;
  s->ports = reinterpret_cast<brim_rt_port*>(block + layout.ports);
  s->port_values = reinterpret_cast<uint32_t*>(block + layout.port_values);
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
  const SessionBuilder builder(*model, *program, fail);
  size_t scratch = 0;
  for (int i = 0; i < lane_count; ++i) {
    char* const at = block + layout.first_lane + static_cast<size_t>(i) * layout.lane_bytes;
    Lane& lane = *new (&s->lanes[i]) Lane;
    lane.values = reinterpret_cast<Operand*>(at + layout.values);
    lane.steps = reinterpret_cast<Step*>(at + layout.steps);
    lane.arena = at + layout.arena;
    builder.copy_tables(lane, reinterpret_cast<uint32_t*>(at + layout.ids),
                        reinterpret_cast<int64_t*>(at + layout.words));
    if (const int code = builder.fill_values(lane)) return give_up(code);
    if (i == 0)
      if (const int code = builder.fill_ports(*s)) return give_up(code);
    if (const int code = builder.fill_steps(lane, isa, s->step_threads().count(), scratch))
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

}  // namespace
}  // namespace brim::rt

using brim::rt::Failure;

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
