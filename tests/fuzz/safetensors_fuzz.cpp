// A safetensors file in memory: opening and reading it either works or throws FileError. The recipe
// in its metadata may be bad in its values as well.
#include <cstddef>
#include <cstdint>

#include <brim/io/safetensors.h>
#include <brim/train/recipe.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const brim::io::SafeTensors file({data, size}, "fuzz");
    for (const std::string& name : file.names())
      if (file.info(name).dtype) (void)file.load(name);
    if (const auto it = file.metadata().find("brim.recipe"); it != file.metadata().end())
      (void)brim::train::parse_recipe(it->second, "fuzz");
  } catch (const brim::FileError&) {
  } catch (const brim::ValueError&) {
  }
  return 0;
}
