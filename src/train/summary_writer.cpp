#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include <brim/data/image.h>
#include <brim/train/summary_writer.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/printable.h"
#include "data/image/decode.h"
#include "io/event_file.h"
#include "train/graph_events.h"

namespace brim::train {
namespace {

using Message = io::ProtobufWriter;

// Fields are those of tensorflow/core/framework/summary.proto and tensor.proto.

/// Strings of the format are UTF-8.
std::string as_utf8(const std::string& text) { return printable(text, "\n\t"); }

Message metadata_of(const std::string& plugin, const Message& content = {}) {
  return Message().message(1, Message().text(1, plugin).message(2, content));
}
Message value_of(const std::string& tag) { return Message().text(1, as_utf8(tag)); }
Message summary_of(const Message& value) { return Message().message(1, value); }

/// The buckets of TensorFlow's histograms grow by a tenth from 1e-12 on, to both sides of 0. Here
/// they end at numbers of eight binary digits, so that a value's first bits say which one it is in.
class Buckets {
 public:
  void add(double value) {
    const auto size = static_cast<size_t>(std::bit_cast<uint64_t>(value) << 1 >> (kRest + 1));
    const int sign = 1 - 2 * static_cast<int>(std::signbit(value));  // without a branch
    ++counts_[place_of(sign * of_[size])];
  }

  /// Upper limits and counts; of empty buckets that are neighbours one.
  void list(std::vector<double>& limits, std::vector<double>& counts) const {
    int next = kFarthest + 1;  // behind the last one listed
    for (int bucket = -kFarthest; bucket <= kFarthest; ++bucket) {
      const int64_t count = counts_[place_of(bucket)];
      if (count == 0) continue;
      if (bucket > next) limits.push_back(upper(bucket - 1)), counts.push_back(0);
      limits.push_back(upper(bucket)), counts.push_back(static_cast<double>(count));
      next = bucket + 1;
    }
  }

 private:
  static constexpr int kRest = 45;        // bits of a double behind those that count
  static constexpr int kFarthest = 7800;  // the bucket of the largest double is number 7737

  struct Tables {
    std::vector<double> ends;  // ends[n]: the first size beyond bucket n
    std::vector<int16_t> of;   // the bucket of a size by its first bits

    Tables()
        : ends(kFarthest + 1, std::numeric_limits<double>::max()), of(size_t{1} << (63 - kRest)) {
      long double end = 1e-12L;
      auto from = of.begin();
      int16_t n = 0;
      for (; end <= std::numeric_limits<double>::max(); ++n, end *= 1.1L) {
        const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(end)) >> kRest;
        ends[static_cast<size_t>(n)] = std::bit_cast<double>(bits << kRest);
        const auto to = of.begin() + static_cast<std::ptrdiff_t>(bits);
        std::fill(from, to, n);
        from = to;
      }
      std::fill(from, of.end(), n);
    }
  };
  static const Tables& tables() {
    static const Tables all;
    return all;
  }

  static size_t place_of(int bucket) {
    const int place = bucket + kFarthest;
    return static_cast<size_t>(place);
  }
  /// 0: around 0; n: from 1e-12 * 1.1^(n - 1); -n: the same below 0.
  static double upper(int bucket) {
    const std::vector<double>& ends = tables().ends;
    return bucket >= 0 ? ends[static_cast<size_t>(bucket)]
                       : -ends[static_cast<size_t>(-bucket - 1)];
  }

  const int16_t* const of_ = tables().of.data();
  std::vector<int64_t> counts_ = std::vector<int64_t>(2 * kFarthest + 1);
};

template <class T>
Message histogram_of(const std::string& tag, const std::vector<T>& values) {
  Buckets buckets;
  double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0, squares = 0;
  int64_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value), most = std::max(most, value);
    sum += value, squares += value * value;
    ++count;
    buckets.add(value);
  }
  BRIM_CHECK(count > 0, ValueError, "[tensorboard] the histogram '{}' of {} values: {}", tag,
             values.size(), values.empty() ? "there must be one" : "none of them is finite");
  std::vector<double> limits, counts;
  buckets.list(limits, counts);
  return Message()
      .f64(1, least)
      .f64(2, most)
      .f64(3, static_cast<double>(count))
      .f64(4, sum)
      .f64(5, squares)
      .all_f64(6, limits)
      .all_f64(7, counts);
}

Message image_of(const std::string& tag, const Tensor& tensor) {
  const bool fits = tensor.rank() == 3 && (tensor.size(0) == 1 || tensor.size(0) == 3) &&
                    tensor.numel() > 0 && tensor.size(1) <= 1 << 16 && tensor.size(2) <= 1 << 16;
  BRIM_CHECK(fits && (tensor.dtype() == DType::u8 || is_floating(tensor.dtype())), ValueError,
             "[tensorboard] the picture '{}' is {} of shape {}; give u8 or floats of shape (1 or "
             "3, height, width)",
             tag, name(tensor.dtype()), tensor.shape().str());
  const int channels[] = {1, 2, 0};
  data::Image image;
  image.channels = static_cast<int>(tensor.size(0));
  image.height = static_cast<int>(tensor.size(1));
  image.width = static_cast<int>(tensor.size(2));
  const Tensor rows = tensor.detach().permute(channels);
  if (tensor.dtype() == DType::u8) {
    image.pixels = rows.to_vector<uint8_t>();
  } else {
    for (const float x : rows.to(DType::f32).to_vector<float>())
      image.pixels.push_back(
          static_cast<uint8_t>(std::isnan(x) ? 0 : std::lround(std::clamp(x, 0.0F, 1.0F) * 255)));
  }
  const std::vector<uint8_t> png = data::encode_png(image);
  return Message()
      .number(1, image.height)
      .number(2, image.width)
      .number(3, image.channels)
      .text(4, {reinterpret_cast<const char*>(png.data()), png.size()});
}

/// Fields of tensorboard/plugins/hparams/{plugin_data,api}.proto.
namespace hparams {

constexpr const char* kPlugin = "hparams";

Message summary(const char* tag, int field, const Message& content) {
  const Message none = Message().number(1, 1).message(2, Message().message(2, {}));  // f32, (0)
  return summary_of(value_of(tag).message(8, none).message(
      9, metadata_of(kPlugin, Message().message(field, content))));
}

Message experiment(const std::map<std::string, HyperParameter>& given,
                   const std::vector<std::string>& metrics) {
  constexpr int kString = 1, kNumber = 3;
  Message message;
  for (const auto& [name, value] : given)
    message.message(4, Message()
                           .text(1, as_utf8(name))
                           .number(4, std::holds_alternative<double>(value) ? kNumber : kString));
  for (const std::string& tag : metrics)
    message.message(5, Message().message(1, Message().text(2, as_utf8(tag))));
  return message;
}

Message session_start(const std::map<std::string, HyperParameter>& given, double seconds) {
  Message message;
  for (const auto& [name, value] : given) {
    Message one;  // google.protobuf.Value
    if (const double* number = std::get_if<double>(&value))
      one.f64(2, *number);
    else
      one.text(3, as_utf8(std::get<std::string>(value)));
    message.message(1, Message().text(1, as_utf8(name)).message(2, one));
  }
  return message.f64(5, seconds);
}

}  // namespace hparams

}  // namespace

struct SummaryWriter::State {
  explicit State(const std::string& folder) : file(folder) {}

  void add(int64_t step, const Message& summary) {
    const std::lock_guard lock(mutex);
    file.add_summary(step, summary);
  }

  std::mutex mutex;
  io::EventFile file;
};

SummaryWriter::SummaryWriter(const std::string& folder, std::optional<int64_t> purge_from)
    : state_(std::make_unique<State>(folder)) {
  if (!purge_from) return;
  state_->file.add_restart(*purge_from);
  state_->file.flush();
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::add_scalar(const std::string& tag, double value, int64_t step) {
  state_->add(step, summary_of(value_of(tag).f32(2, static_cast<float>(value))));
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, int64_t step) {
  const Tensor all = values.detach();
  const Message histogram = all.dtype() == DType::f64
                                ? histogram_of(tag, all.to_vector<double>())
                                : histogram_of(tag, all.to(DType::f32).to_vector<float>());
  state_->add(step, summary_of(value_of(tag).message(5, histogram)));
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, int64_t step) {
  state_->add(step, summary_of(value_of(tag).message(4, image_of(tag, image))));
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, int64_t step) {
  constexpr int kString = 7;
  const Message shape = Message().message(2, Message().number(1, 1));
  const Message tensor = Message().number(1, kString).message(2, shape).text(8, as_utf8(text));
  state_->add(step, summary_of(value_of(tag).message(8, tensor).message(9, metadata_of("text"))));
}

void SummaryWriter::add_hparams(const std::map<std::string, HyperParameter>& given,
                                const std::vector<std::string>& metrics) {
  state_->add(0, hparams::summary("_hparams_/experiment", 2, hparams::experiment(given, metrics)));
  state_->add(0, hparams::summary("_hparams_/session_start_info", 3,
                                  hparams::session_start(given, unix_seconds())));
}

void SummaryWriter::add_graph(const deploy::NetworkSummary& network) {
  const Message graph = graph_def_of(network);
  const std::lock_guard lock(state_->mutex);
  state_->file.add_graph(graph);
}

void SummaryWriter::flush() {
  const std::lock_guard lock(state_->mutex);
  state_->file.flush();
}

const std::string& SummaryWriter::path() const { return state_->file.path(); }

}  // namespace brim::train
