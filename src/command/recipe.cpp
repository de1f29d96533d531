// `brim recipe NAME`: a built-in recipe, or that of trained weights, as a file to start from.
#include <brim/train/recipe.h>
#include <brim/train/weights.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "command/command.h"
#include "command/say.h"
#include "core/check.h"
#include "io/atomic_file.h"

namespace brim::command {
namespace {

struct RecipeOptions {
  std::string name, out;
  bool overwrite = false;
};

/// That of weights has the channels that are left of their network.
train::Recipe recipe_of(const std::string& name) {
  if (train::is_pth(name))
    throw UsageError(fmt::format(
        "{}: PyTorch's files hold no recipe; name the .safetensors file that it was made of",
        name));
  if (!name.ends_with(".safetensors")) return train::load_recipe(name);
  const std::optional<train::Recipe> own =
      train::read_weights_info(train::WeightsFile(name)).recipe;
  BRIM_CHECK(own, FileError, "[recipe] {} does not say which recipe it was trained by", name);
  return *own;
}

int show_recipe(const RecipeOptions& o) {
  if (o.name.empty()) {
    if (!o.out.empty())
      throw UsageError("--out: which recipe? `brim recipe` lists the built-in ones");
    for (const std::string& name : train::recipe_names()) say(stdout, "{}\n", name);
    return 0;
  }
  const std::string toml = recipe_of(o.name).toml();
  if (o.out.empty()) {
    std::fputs(toml.c_str(), stdout);  // say() is for lines
    return 0;
  }
  if (!o.out.ends_with(".toml"))
    throw UsageError(
        fmt::format("--out {}: `brim train` knows a recipe by .toml; name it so", o.out));
  std::error_code error;
  BRIM_CHECK(o.overwrite || !exists(std::filesystem::symlink_status(o.out, error)), FileError,
             "[recipe] {} exists; give --overwrite to replace it", o.out);
  io::write_file_atomically(o.out, toml);
  say(stdout, "{}: edit it, then `brim train {}`\n", o.out, o.out);
  return 0;
}

const Register recipe_command(
    {"recipe", "print a recipe as TOML to start from", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<RecipeOptions>();
       args.add(
           "name", o->name,
           "a built-in recipe, a .toml file, or weights of brim train as .safetensors; without "
           "it the built-in ones are listed");
       args.add("--out,-o", o->out, "write it to this file").file();
       args.flag("--overwrite", o->overwrite, "replace the file that is there");
       return [o] { return show_recipe(*o); };
     }});

}  // namespace
}  // namespace brim::command
