// `brim verify model.brim`: an engine's samples, run by the runtime and compared.
#include <brim_rt.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "command/command.h"
#include "command/format.h"
#include "command/report.h"
#include "command/say.h"
#include "core/check.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyOptions {
  std::string engine, isa, json;
  int threads = 0;
};

using Model = std::unique_ptr<brim_rt_model, void (*)(brim_rt_model*)>;
using Session = std::unique_ptr<brim_rt_session, void (*)(brim_rt_session*)>;

/// Throws what the code says, with the file's name before it.
void check(const std::string& file, int code, const brim_rt_error& error) {
  if (code == BRIM_RT_OK) return;
  const std::string_view message = error.message;
  const std::string text =
      message.starts_with(file) ? std::string(message) : fmt::format("{}: {}", file, message);
  if (code == BRIM_RT_INVALID_ARGUMENT) throw UsageError(text);
  throw FileError(text);
}

Json row_of(const Json& sizes, int64_t batch, const brim_rt_session& session, double difference) {
  Json row = {{"batch", batch},
              {"isa", brim_rt_isa(&session)},
              {"memory_bytes", brim_rt_memory(&session)},
              {"difference", difference}};
  row.update(sizes);
  return row;
}

int run(const VerifyOptions& o) {
  check_json_path(o.json);
  check_outputs({{"--json", o.json}}, {{"the engine", o.engine}});
  brim_rt_error error{};
  brim_rt_model* opened = nullptr;
  check(o.engine, brim_rt_open(o.engine.c_str(), nullptr, &opened, &error), error);
  const Model model(opened, &brim_rt_close);
  Json rows = Json::array();
  bool is_equal = true;
  std::vector<int64_t> batches;
  while (const int64_t batch = brim_rt_batch(model.get(), static_cast<int>(batches.size())))
    batches.push_back(batch);
  for (const int64_t batch : batches) {
    const brim_rt_session_options options = {.batch = batch,
                                             .own_threads = o.threads,
                                             .threads = nullptr,
                                             .isa = o.isa.empty() ? nullptr : o.isa.c_str()};
    brim_rt_session* created = nullptr;
    check(o.engine, brim_rt_session_create(model.get(), &options, &created, &error), error);
    const Session session(created, &brim_rt_session_close);
    double worst = 0;
    const int code = brim_rt_verify(session.get(), &worst, &error);
    if (code != BRIM_RT_NOT_EQUAL) check(o.engine, code, error);
    is_equal = is_equal && code == BRIM_RT_OK;
    int steps = 0;
    while (brim_rt_step(session.get(), steps)) ++steps;
    rows.push_back(
        row_of({{"steps", steps}, {"equal", code == BRIM_RT_OK}}, batch, *session, worst));
    if (is_stdout(o.json)) continue;
    say(stdout, "batch {}: {} steps on {}, {} of memory: {}\n", batch, steps,
        brim_rt_isa(session.get()),
        format_bytes(static_cast<int64_t>(brim_rt_memory(session.get()))),
        code == BRIM_RT_OK ? fmt::format("outputs within {:.2g} of the largest one", worst)
                           : std::string(error.message));
  }
  if (!o.json.empty())
    write_json({{"file", o.engine}, {"equal", is_equal}, {"programs", rows}}, o.json);
  return is_equal ? 0 : 1;
}

const Register verify_command(
    {"verify", "run the samples that an engine holds, and compare their outputs",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<VerifyOptions>();
       args.add("engine", o->engine, "a file that brim export wrote").required();
       args.add("--threads", o->threads, "of the runtime (default: one for each core)")
           .range(1, 1024);
       args.add("--isa", o->isa,
                "avx512, avx2, sse4 or baseline (default: the best that the CPU has)");
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
