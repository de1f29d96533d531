// The classes of all pictures in a folder, by an engine of `brim export`.
//
//   classify model.brim FOLDER [TOP]
#include <cstdlib>

#include "input.h"
#include "outputs.h"

static void classify(const std::string& engine, const std::string& folder, size_t top) {
  const brim_rt::Model model(engine);
  brim_rt::Session session(model);
  PictureInput input(model, session);
  const Outputs outputs(model, session);
  for (const auto& file : files_in(folder)) {
    const std::string name = file.filename().string();
    try {
      input.fill(load_picture(file));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
      continue;
    }
    const void* const inputs[] = {input.data()};
    session.run(inputs, outputs.pointers());
    std::printf("%s:", name.c_str());
    const char* before = " ";
    for (const Class& found : outputs.likeliest(top)) {
      std::printf("%s%s", std::exchange(before, ", "), model.label(found.index).c_str());
      if (found.probability >= 0) std::printf(" %.1f %%", 100 * found.probability);
    }
    std::printf("\n");
  }
}

int main(int argc, char** argv) try {
  const int top = argc == 4 ? std::atoi(argv[3]) : 3;
  if (argc < 3 || argc > 4 || top < 1)
    throw std::runtime_error("usage: classify model.brim FOLDER [TOP]");
  classify(argv[1], argv[2], static_cast<size_t>(top));
} catch (const std::exception& error) {
  std::fprintf(stderr, "classify: %s\n", error.what());
  return 1;
}
