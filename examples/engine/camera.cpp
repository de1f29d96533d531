// A camera's loop: frames come at their own pace, from a folder here, and the engine takes the
// newest; those that it was too slow for are dropped, so that no answer is about an old picture.
//
//   camera model.brim FOLDER [FRAMES A SECOND] [FRAMES]
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include "input.h"
#include "outputs.h"

using Clock = std::chrono::steady_clock;

/// Where the camera leaves its newest frame.
struct Slot {
  std::mutex mutex;
  std::condition_variable changed;
  const Picture* frame = nullptr;  // null: the engine has it
  Clock::time_point taken;
  int dropped = 0;
  bool is_over = false;
};

static void film(const std::stop_token& stop, const std::vector<Picture>& pictures, double fps,
                 int frames, Slot& slot) {
  const auto begin = Clock::now();
  for (int i = 0; i <= frames && !stop.stop_requested(); ++i) {
    const std::chrono::duration<double> due(i / fps);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(due));
    const std::lock_guard lock(slot.mutex);
    slot.is_over = i == frames;
    if (!slot.is_over) {
      slot.dropped += slot.frame != nullptr;
      slot.frame = &pictures[static_cast<size_t>(i) % pictures.size()];
      slot.taken = Clock::now();
    }
    slot.changed.notify_one();
  }
}

static void watch(const std::string& engine, const std::string& folder, double fps, int frames) {
  const brim_rt::Model model(engine);
  brim_rt::Session session(model);
  PictureInput input(model, session);
  const Outputs outputs(model, session);
  const std::vector<Picture> pictures = load_pictures(folder);
  Slot slot;
  std::vector<double> ms;
  const std::jthread camera(film, std::cref(pictures), fps, frames, std::ref(slot));
  for (std::unique_lock lock(slot.mutex);; lock.lock()) {
    slot.changed.wait(lock, [&] { return slot.frame || slot.is_over; });
    if (!slot.frame) break;
    const Picture& frame = *std::exchange(slot.frame, nullptr);
    const auto taken = slot.taken;
    lock.unlock();
    input.fill(frame);
    const void* const inputs[] = {input.data()};
    session.run(inputs, outputs.pointers());
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - taken).count());
  }
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double p) { return ms[static_cast<size_t>(p * (ms.size() - 1))]; };
  std::printf("%zu frames answered, %d dropped; ms: p50 %.2f, p90 %.2f, p99 %.2f, max %.2f\n",
              ms.size(), slot.dropped, at(0.5), at(0.9), at(0.99), ms.back());
}

int main(int argc, char** argv) try {
  const double fps = argc > 3 ? std::atof(argv[3]) : 30;
  const int frames = argc > 4 ? std::atoi(argv[4]) : 300;
  if (argc < 3 || argc > 5 || !(fps > 0) || frames < 1)
    throw std::runtime_error("usage: camera model.brim FOLDER [FRAMES A SECOND] [FRAMES]");
  watch(argv[1], argv[2], fps, frames);
} catch (const std::exception& error) {
  std::fprintf(stderr, "camera: %s\n", error.what());
  return 1;
}
