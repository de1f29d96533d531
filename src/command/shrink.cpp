// `brim shrink --weights F --latency 3ms`: gives each layer the form that costs least for what it
// takes off the accuracy, trains what was pruned on, and keeps the best network within the limits.
#include <memory>

#include "command/report.h"
#include "command/shrink_folder.h"
#include "command/shrink_search.h"

namespace brim::command {
namespace {

int run_shrink(const ShrinkArguments& o) {
  const ShrinkTarget target = ShrinkTarget::parse(o.latency, o.size, o.accuracy);
  (void)ShrinkPatterns::parse(o.patterns);
  if (o.resume && o.overwrite) throw UsageError("--resume goes on, --overwrite begins anew");
  check_finetune(o, o.finetune);
  ShrinkFolder::prepare(o);
  std::vector<NamedPath> outputs;
  if (!o.svg.empty()) {
    check_output_path("svg", o.svg);
    outputs.push_back({"--svg", o.svg});
  }
  return run_compression(o, "shrink", outputs,
                         [&](Device device) { return run_search(o, target, device); });
}

const Register shrink_command(
    {"shrink",
     "search which layers are pruned or in 8-bit integers, for a time, a size or an accuracy",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ShrinkArguments>();
       o->add_to(args);
       args.add("--latency", o->latency, "that a batch may take at most, as 3ms or 250us");
       args.add("--size", o->size, "that the file may have at most, as 500k");
       args.add("--accuracy", o->accuracy,
                "points that the accuracy may lose, as -0.5; alone: as small as that allows")
           .range(-100.0, 100.0);
       args.add("--at-batch", o->at_batch, "samples of the batch that is timed")
           .range(int64_t{1}, int64_t{4096})
           .show_default();
       args.add("--pattern", o->patterns,
                "what layers may lose: channels, vectors as vector:8, or none (then integers are "
                "all that is searched); may be given again (default: channels and vector:8)");
       args.add("--keep", o->keep, "a layer that stays as it is, as conv1; may be given again");
       args.add("--finetune", o->finetune, "epochs of training of each point; 0: none")
           .range(int64_t{0}, int64_t{1'000'000})
           .show_default();
       args.add("--teach", o->teach,
                "how much of the training's loss is to imitate the dense network's outputs")
           .range(0.0, 1.0)
           .show_default();
       args.add(
               "--points", o->points,
               "networks that are made at most (default: 5 where only --accuracy is given, else 3)")
           .range(int64_t{1}, int64_t{100});
       args.add("--samples", o->samples, "of the training split that layers are measured with")
           .range(int64_t{1}, int64_t{1'000'000})
           .show_default();
       args.add("--out", o->out, "folder for model.safetensors and all that is measured")
           .required();
       args.add("--svg", o->svg, "draw accuracy against time").file();
       args.flag("--resume", o->resume, "go on with the search in --out");
       args.flag("--overwrite", o->overwrite, "begin anew where --out has a search");
       return [o] { return run_shrink(*o); };
     }});

}  // namespace
}  // namespace brim::command
