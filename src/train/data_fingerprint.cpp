#include "train/data_fingerprint.h"

#include <brim/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <vector>

#include "data/dataset/get_sample.h"
#include "data/dataset/sample_access.h"
#include "io/hash.h"

namespace brim::train {
namespace {

constexpr int64_t kSamples = 16;

void add(io::StreamHash& hash, const std::string& text) { hash.add(text.data(), text.size()); }

void add_picture(io::StreamHash& hash, const data::Source& pictures, int64_t i) {
  add(hash, fmt::format("{};", pictures.label(i)));
  std::vector<uint8_t> buffer;
  if (const std::span<const uint8_t> file = pictures.file(i, buffer); !file.empty())
    return hash.add(file.data(), file.size());
  data::Image image;
  pictures.read(i, image);
  hash.add(image.pixels.data(), image.pixels.size());
}

template <class T>
std::string about(const data::SampleField& field) {
  double sum = 0, weight = 0;
  for (const T value : field.values<T>()) sum += ++weight * static_cast<double>(value);
  return fmt::format("{:.3g}", sum);
}

void add_sample(io::StreamHash& hash, const data::Dataset& samples, int64_t i) {
  data::Sample sample;
  data::SampleAccess::begin(sample, 0);
  data::get_sample(samples, i, sample);
  for (const data::SampleField& field : sample.fields()) {
    add(hash, fmt::format("{} {} {};", field.name, name(field.dtype), field.shape.str()));
    if (field.dtype == DType::f32)
      add(hash, about<float>(field));
    else if (field.dtype == DType::f64)
      add(hash, about<double>(field));
    else if (is_integral(field.dtype))
      hash.add(field.data, static_cast<size_t>(field.bytes()));
  }
}

}  // namespace

std::string fingerprint_of(const TaskData& data) {
  io::StreamHash hash;
  const int64_t size = data.pictures ? data.pictures->size() : data.samples->size();
  const int64_t count = std::min(size, kSamples);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = k * (size - 1) / std::max<int64_t>(count - 1, 1);
    try {
      if (data.pictures)
        add_picture(hash, *data.pictures, i);
      else
        add_sample(hash, *data.samples, i);
    } catch (const std::exception&) {
      add(hash, "unreadable");
    }
  }
  return hash.digest().hex;
}

}  // namespace brim::train
