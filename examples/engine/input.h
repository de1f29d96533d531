// From pictures to what an engine takes: resized, in planes, normalised as in its training.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include <brim_rt.hpp>

#if HAVE_JPEG
#include "jpeg.h"
#endif
#include "picture.h"

/// By its extension; throws std::runtime_error.
inline Picture load_picture(const std::filesystem::path& path) {
  std::string kind = path.extension().string();
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (kind == ".ppm") return load_ppm(path.string());
#if HAVE_PNG
  if (kind == ".png") return load_png(path.string());
#endif
#if HAVE_JPEG
  if (kind == ".jpg" || kind == ".jpeg") return load_jpeg(path.string());
#endif
  throw std::runtime_error("no picture that this program reads");
}

/// The files of a folder in the order of their names.
inline std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class PictureInput {
 public:
  PictureInput(const brim_rt::Model& model, const brim_rt::Session& session) {
    const brim_rt_port& port = session.inputs().at(0);
    if (port.rank != 4 || port.dtype != BRIM_RT_F32 || port.shape[1] != 3)
      throw std::runtime_error("the engine takes no pictures of three channels");
    height_ = port.shape[2], width_ = port.shape[3];
    pixels.resize(port.bytes / sizeof(float));
    for (const auto& [key, to] : {std::pair("mean", mean_), std::pair("std", std_)})
      if (const auto text = model.metadata(key))
        std::sscanf(text->c_str(), "[%f,%f,%f]", &to[0], &to[1], &to[2]);
  }
  /// Bilinear, into the first sample.
  void fill(const Picture& p) {
    const auto at = [](int64_t i, int64_t size, int of) {
      return std::clamp((i + 0.5f) * of / size - 0.5f, 0.0f, of - 1.0f);
    };
    for (int64_t y = 0; y < height_; ++y)
      for (int64_t x = 0; x < width_; ++x) {
        const float v = at(y, height_, p.height), u = at(x, width_, p.width);
        const int top = static_cast<int>(v), left = static_cast<int>(u);
        const int below = std::min(top + 1, p.height - 1), right = std::min(left + 1, p.width - 1);
        for (int c = 0; c < 3; ++c) {
          const auto of = [&](int row, int column) -> float {
            return p.rgb[(static_cast<size_t>(row) * p.width + column) * 3 + c];
          };
          const float first = of(top, left) + (u - left) * (of(top, right) - of(top, left));
          const float second = of(below, left) + (u - left) * (of(below, right) - of(below, left));
          const float value = (first + (v - top) * (second - first)) / 255;
          pixels[(c * height_ + y) * width_ + x] = (value - mean_[c]) / std_[c];
        }
      }
  }
  std::vector<float> pixels;

 private:
  int64_t height_ = 0, width_ = 0;
  float mean_[3] = {0, 0, 0}, std_[3] = {1, 1, 1};
};
