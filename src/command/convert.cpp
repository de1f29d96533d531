// `brim convert IN OUT`: weights between PyTorch's files and safetensors, told apart by extension.
#include <brim/io/pth.h>
#include <brim/io/safetensors.h>
#include <brim/ops/binary.h>
#include <brim/train/weights.h>

#include <cmath>
#include <filesystem>

#include "command/command.h"
#include "command/format.h"
#include "command/say.h"
#include "core/check.h"

namespace brim::command {
namespace {

struct ConvertOptions {
  std::string in, out;
  bool overwrite = false;
  int64_t sparse = 0;
  double max_growth = 4;
};

void check_extension(const std::string& path) {
  if (!train::is_pth(path) && !path.ends_with(".safetensors"))
    throw UsageError(fmt::format(
        "[convert] {} has another extension than .pth, .pt and .safetensors, which can be read "
        "and written; rename it (engines and ONNX files are written alone, by `brim export`)",
        path));
}

/// Thousands of tensors may view one storage of a .pth file; written, each has its own.
void check_growth(const train::WeightsFile& file, double max_growth) {
  double bytes = 0;
  for (const std::string& name : file.names())
    if (!file.is_encoded(name)) bytes += static_cast<double>(file.info(name).bytes);
  std::error_code error;
  const auto size = static_cast<double>(std::filesystem::file_size(file.path(), error));
  BRIM_CHECK(bytes <= max_growth * size, FileError,
             "[convert] {}: its tensors share memory; one by one they take {}, {:.0f} times the "
             "file; give --max-growth {:.0f} if they shall",
             file.path(), format_bytes(static_cast<int64_t>(bytes)), bytes / size,
             std::ceil(bytes / size));
}

/// What layers in integers add to their outputs is added to their biases, where they have one.
void add_corrections(const train::WeightsFile& file, io::TensorMap& tensors) {
  for (const auto& [name, layer] : file.int8_layers()) {
    const size_t end = name.rfind("weight");
    const auto bias = tensors.find(end == std::string::npos ? "" : name.substr(0, end) + "bias");
    const Tensor& correction = layer.correction();
    if (!correction.defined() || bias == tensors.end()) continue;
    if (bias->second.shape() == correction.shape() && bias->second.dtype() == DType::f32)
      bias->second = bias->second + correction;
  }
}

int run(const ConvertOptions& o) {
  check_extension(o.in);
  check_extension(o.out);
  if (o.sparse > 0 && train::is_pth(o.out))
    throw UsageError("--sparse is of .safetensors files; name OUT so");
  std::error_code error;
  BRIM_CHECK(o.overwrite || !exists(std::filesystem::symlink_status(o.out, error)), FileError,
             "[convert] {} exists; give --overwrite to replace it", o.out);
  const train::WeightsFile file(o.in);
  check_growth(file, o.max_growth);
  io::TensorMap tensors = file.load_all();
  add_corrections(file, tensors);
  io::Metadata metadata = file.metadata();
  const bool loses = train::is_pth(o.out) && metadata.contains("brim.recipe");
  metadata.emplace("format", "pt");  // which other readers of safetensors look for
  metadata.erase("brim.sparse");
  metadata.erase("brim.int8");
  if (o.sparse > 0) {
    if (file.int8_count() > 0)
      throw UsageError(
          fmt::format("--sparse: {} has weights in 8-bit integers, and this stores floats; convert "
                      "it to floats "
                      "first (`brim quantize` of a pruned network leaves its zeros out)",
                      o.in));
    train::save_sparse_weights(o.out, tensors, o.sparse, metadata);
    say(stdout, "{}: {} tensors, {}\n", o.out, tensors.size(),
        format_bytes(static_cast<int64_t>(std::filesystem::file_size(o.out))));
    return 0;
  }
  if (train::is_pth(o.out))
    io::save_pth(o.out, tensors);
  else
    io::save_safetensors(o.out, tensors, metadata);

  int64_t bytes = 0;
  for (const auto& [name, x] : tensors)
    bytes += x.numel() * static_cast<int64_t>(size_of(x.dtype()));
  say(stdout, "{}: {} tensors, {}\n", o.out, tensors.size(), format_bytes(bytes));
  if (const size_t count = file.int8_count(); count > 0)
    say(stdout, "{} weights in 8-bit integers became floats\n", count);
  if (loses)
    say(stdout,
        "it does not keep the recipe and the names of the classes; to use it, name a recipe: brim "
        "recipe {} --out NAME.toml\n",
        shell_word(o.in));
  return 0;
}

const Register convert_command(
    {"convert", "convert weights between .pth and .safetensors",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ConvertOptions>();
       args.add("in", o->in, "a .pth, .pt or .safetensors file").required();
       args.add("out", o->out, "the file to write, of one of these kinds").required();
       args.add("--max-growth", o->max_growth,
                "times the size of IN that tensors may take which share memory there")
           .range(1.0, 1e9)
           .show_default();
       args.add("--sparse", o->sparse,
                "leave out columns that are zero for so many outputs at once, as `brim prune "
                "--pattern vector:V` makes them; brim reads it as any other file")
           .one_of({"4", "8", "16", "32", "64"});
       args.flag("--overwrite", o->overwrite, "replace the file that is there");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
