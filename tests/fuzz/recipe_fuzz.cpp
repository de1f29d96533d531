// A recipe from anywhere: parsing works or throws FileError or ValueError, and what was parsed
// survives being written and parsed again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <brim/train/recipe.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const brim::train::Recipe recipe = brim::train::parse_recipe(text, "fuzz");
    if (brim::train::parse_recipe(recipe.toml(), "fuzz").toml() != recipe.toml()) std::abort();
  } catch (const brim::FileError&) {
  } catch (const brim::ValueError&) {
  }
  return 0;
}
