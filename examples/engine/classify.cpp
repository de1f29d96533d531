// The classes of all pictures in a folder, by an engine of `brim export`.
//
//   classify model.brim FOLDER [TOP]
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "input.h"

/// Probabilities of logits.
static void softmax(std::vector<float>& scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& s : scores) sum += s = std::exp(s - largest);
  for (float& s : scores) s /= sum;
}

static void classify(const std::string& engine, const std::string& folder, size_t top) {
  const brim_rt::Model model(engine);
  brim_rt::Session session(model);
  PictureInput input(model, session);
  const brim_rt_port& port = session.outputs().at(0);
  if (port.rank != 2 || port.dtype != BRIM_RT_F32)
    throw std::runtime_error("the engine puts out no classes");
  std::vector<float> outputs(port.bytes / sizeof(float));
  const auto classes = static_cast<size_t>(port.shape[1]);
  for (const auto& file : files_in(folder)) {
    const std::string name = file.filename().string();
    try {
      input.fill(load_picture(file));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
      continue;
    }
    session.run({input.pixels.data()}, {outputs.data()});
    std::vector<float> p(outputs.begin(), outputs.begin() + static_cast<int64_t>(classes));
    softmax(p);
    std::vector<int> order(classes);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return p[a] > p[b]; });
    std::printf("%s:", name.c_str());
    for (size_t i = 0; i < std::min(top, classes); ++i)
      std::printf("%s %s %.1f %%", i ? "," : "", model.label(order[i]).c_str(), 100 * p[order[i]]);
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
