// From pictures to what an engine takes: their bytes where it prepares them itself, else resized,
// in planes, normalised as in its training.
#pragma once

#include <cstdio>
#include <cstring>
#include <utility>

#include <brim_rt.hpp>

#include "files.h"

class PictureInput {
 public:
  PictureInput(const brim_rt::Model& model, const brim_rt::Session& session) {
    const brim_rt_port& port = session.inputs().at(0);
    takes_bytes_ = port.rank == 4 && port.dtype == BRIM_RT_U8 && port.shape[3] == 3;
    is_bgr_ = model.metadata("pictures").value_or("") == "BGR";
    if (!takes_bytes_ && (port.rank != 4 || port.dtype != BRIM_RT_F32 || port.shape[1] != 3))
      throw std::runtime_error("the engine takes no pictures of three channels");
    height_ = port.shape[takes_bytes_ ? 1 : 2], width_ = port.shape[takes_bytes_ ? 2 : 3];
    memory_.resize((port.bytes + sizeof(float) - 1) / sizeof(float));
    for (const auto& [key, to] : {std::pair("mean", mean_), std::pair("std", std_)})
      if (const auto text = model.metadata(key))
        std::sscanf(text->c_str(), "[%f,%f,%f]", &to[0], &to[1], &to[2]);
  }
  /// Into the first sample. Throws std::runtime_error where the engine takes pictures of one size.
  void fill(const Picture& p) {
    if (!takes_bytes_) return prepare(p);
    if (p.height != height_ || p.width != width_)
      throw std::runtime_error("a picture of " + std::to_string(p.width) + " x " +
                               std::to_string(p.height) + ", and the engine takes " +
                               std::to_string(width_) + " x " + std::to_string(height_));
    auto* const to = reinterpret_cast<unsigned char*>(memory_.data());
    std::memcpy(to, p.rgb.data(), p.rgb.size());
    for (size_t i = 0; is_bgr_ && i < p.rgb.size(); i += 3) std::swap(to[i], to[i + 2]);
  }
  const void* data() const { return memory_.data(); }

 private:
  /// Bilinear.
  void prepare(const Picture& p) {
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
          memory_[(c * height_ + y) * width_ + x] = (value - mean_[c]) / std_[c];
        }
      }
  }

  bool takes_bytes_ = false, is_bgr_ = false;
  int64_t height_ = 0, width_ = 0;
  float mean_[3] = {0, 0, 0}, std_[3] = {1, 1, 1};
  std::vector<float> memory_;
};
