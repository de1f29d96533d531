// `brim verify model.brim`: an engine's samples, run by the runtime and compared.
#include <algorithm>
#include <brim_rt.hpp>
#include <memory>
#include <nlohmann/json.hpp>

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

/// What the runtime reports, with the file's name before it.
[[noreturn]] void report(const std::string& file, const brim_rt::Error& e) {
  const std::string_view message = e.what();
  const std::string text =
      message.starts_with(file) ? std::string(message) : fmt::format("{}: {}", file, message);
  if (e.code() == BRIM_RT_INVALID_ARGUMENT) throw UsageError(text);
  throw FileError(text);
}

/// One program: its row, and a line of it unless JSON goes to standard output.
Json verified(const brim_rt::Model& model, int64_t batch, const VerifyOptions& o) {
  brim_rt::Session session(model, {.batch = batch,
                                   .own_threads = o.threads,
                                   .threads = nullptr,
                                   .isa = o.isa.empty() ? nullptr : o.isa.c_str()});
  double worst = 0;
  brim_rt_error error{};
  const int code = brim_rt_verify(session.get(), &worst, &error);
  if (code != BRIM_RT_OK && code != BRIM_RT_NOT_EQUAL)
    throw brim_rt::Error(error.code, error.message);
  const size_t steps = session.steps().size();
  if (!is_stdout(o.json))
    say(stdout, "batch {}: {} steps on {}, {} of memory: {}\n", batch, steps, session.isa(),
        format_bytes(static_cast<int64_t>(session.memory())),
        code == BRIM_RT_OK ? fmt::format("outputs within {:.2g} of the largest one", worst)
                           : std::string(error.message));
  return {{"batch", batch},      {"isa", session.isa()}, {"memory_bytes", session.memory()},
          {"difference", worst}, {"steps", steps},       {"equal", code == BRIM_RT_OK}};
}

int run(const VerifyOptions& o) {
  check_json_path(o.json);
  check_outputs({{"--json", o.json}}, {{"the engine", o.engine}});
  Json rows = Json::array();
  try {
    const brim_rt::Model model(o.engine);
    for (const int64_t batch : model.batches()) rows.push_back(verified(model, batch, o));
  } catch (const brim_rt::Error& e) {
    report(o.engine, e);
  }
  const bool is_equal = std::ranges::all_of(rows, [](const Json& row) { return row["equal"]; });
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
                "avx512vnni, avx512, avx2, sse4 or baseline (default: the best that the CPU has)");
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
