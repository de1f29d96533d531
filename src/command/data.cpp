// `brim data make DIR` and `brim data convert INPUT OUT`: data sets from one format to another.
// `brim data verify PATH` is in data_verify.cpp, `brim data get NAME` in data_get.cpp.
#include <brim/data/convert.h>

#include <limits>

#include "command/command.h"
#include "command/data_get.h"
#include "command/data_verify.h"
#include "command/progress.h"
#include "command/say.h"
#include "command/signals.h"

namespace brim::command {
namespace {

struct DataOptions {
  std::string input, out, to = "cifar10";
  uint64_t seed = 0;
  int size = 0;
  bool resize = false, overwrite = false;
  int workers = -1;
};

int run(const std::string& input, const DataOptions& o) {
  ProgressDisplay display;
  const std::atomic<int>& stop = watch_signals();
  try {
    const data::ConvertResult result =
        data::convert(input, o.out, data::parse_data_format(o.to),
                      {.side = o.resize ? 32 : o.size,
                       .workers = o.workers,
                       .seed = o.seed,
                       .overwrite = o.overwrite,
                       .progress = [&](const data::ConvertProgress& p) {
                         display.show(fmt::format("{} {} images", p.stage, p.images), p.fraction);
                         return stop.load() == 0;
                       }});
    display.finish();
    say(stdout, "{}: {} training and {} test images of {} classes in {} files\n", o.out,
        result.train, result.test, result.classes.size(), result.files.size());
  } catch (const Error&) {
    display.finish();
    if (stop.load() == 0) throw;
    say(stderr, "brim: stopped; nothing was written to {}\n", o.out);
    return 128 + stop.load();
  }
  return 0;
}

const Register data_command(
    {"data", "get, make, convert or verify data sets", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<DataOptions>();
       args.require_subcommand();
       Arguments make = args.subcommand("make", "write the drawn set shapes10 as CIFAR-10 binary");
       make.add("out", o->out, "folder to write to").required();
       make.add("--seed", o->seed, "of the drawings")
           .range(int64_t{0}, std::numeric_limits<int64_t>::max());
       Arguments convert = args.subcommand("convert", "write any data set in another format");
       convert.add("input", o->input, "any data set that can be trained on").required();
       convert.add("out", o->out, "file or folder to write to").required();
       convert.add("--to", o->to, "cifar10, idx, folder, tar, shards or safetensors")
           .show_default();
       convert.add("--size", o->size, "resize pictures to SIZE x SIZE").range(1, 8192);
       convert.flag("--resize", o->resize, "the same as --size 32");
       convert.add("--seed", o->seed, "of the order of the images")
           .range(int64_t{0}, std::numeric_limits<int64_t>::max());
       convert.add("--workers", o->workers, "decoding threads; 0: none beside the main one")
           .range(0, 1024);
       for (Arguments sub : {make, convert})
         sub.flag("--overwrite", o->overwrite, "replace files of an earlier conversion");
       auto v = std::make_shared<VerifyArguments>();
       Arguments verify =
           args.subcommand("verify", "read a data set once and tell what is damaged");
       verify.add("input", v->input, "any data set that can be trained on").required();
       verify.add("--workers", v->workers, "decoding threads; 0: none beside the main one")
           .range(0, 1024);
       verify.add("--json", v->json, "write the report to a file, or - for standard output");
       auto g = std::make_shared<GetArguments>();
       Arguments get = args.subcommand("get", "download a data set from where its authors put it");
       get.add("name", g->name, "cifar10, mnist or fashion-mnist").required();
       get.add("out", g->out, "folder to write to (default: the name)");
       get.add("--mirror", g->mirror, "address of a folder to look in first");
       return [o, v, g, make, verify, get] {
         if (verify.chosen()) return run_verify(*v);
         if (get.chosen()) return run_get(*g);
         return run(make.chosen() ? fmt::format("shapes10:{}", o->seed) : o->input, *o);
       };
     }});

}  // namespace
}  // namespace brim::command
