#include "command/predictor.h"

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/data/loader.h>
#include <brim/data/tables.h>
#include <brim/data/transform.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "core/check.h"
#include "core/printable.h"
#include "data/image/channels.h"
#include "data/image/decode.h"
#include "io/atomic_file.h"
#include "train/run_folder.h"
#include "train/task/open.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// Throws ValueError where one is NaN or infinite.
std::vector<float> finite_values(const Tensor& values, const std::string& input,
                                 const TrainedNetwork& net) {
  std::vector<float> v = values.to(f32).flatten().to_vector<float>();
  BRIM_CHECK(std::ranges::all_of(v, [](float value) { return std::isfinite(value); }), ValueError,
             "[predict] {}: the network puts out NaN or infinity: {} holds weights that are no "
             "numbers, or "
             "too large; use others",
             input, net.path);
  return v;
}

std::string name_of(const TrainedNetwork& net, size_t output) {
  const auto& names = net.info.classes;
  return output < names.size() ? names[output] : std::to_string(output);
}

/// (1, C, H, W), as the recipe prepares a picture without anything random.
Tensor picture(const std::string& path, const TrainedNetwork& net) {
  const auto prepared = [&](const Tensor& x) { return x.unsqueeze(0).to(net.device); };
  if (net.recipe.task == "classify")
    return prepared(data::to_tensor(data::load_image(path),
                                    train::transform_of(net.recipe, {}, /*training=*/false)));
  const data::Transform transform =
      train::picture_options(net.recipe, /*training=*/false).transform;
  const data::PixelImage image = data::load_pixels(path);
  const Shape& input = net.info.input;
  if (input.rank() != 3 || input[0] == image.shape().channels)
    return prepared(data::to_tensor(image, transform));
  BRIM_CHECK(
      input[0] >= 1 && input[0] <= 4, ValueError,
      "[predict] {} takes pictures of {} channels, and files have 1 to 4; load the weights in "
      "a program (train::load_weights)",
      net.path, input[0]);
  data::PixelImage converted;
  data::convert_channels(image, static_cast<int>(input[0]), converted);
  return prepared(data::to_tensor(converted, transform));
}

/// Class probabilities, or numbers, of one row of outputs as a line and as JSON.
class Answers {
 public:
  Answers(const TrainedNetwork& net, int top) : net_(net), top_(static_cast<size_t>(top)) {}

  void add_classes(const std::string& input, std::span<const float> p, Json json,
                   Prediction& to) const {
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    order.resize(std::min(order.size(), top_));
    list(input, order, p, std::move(json), to);
  }
  /// Those that are there, the likeliest first.
  void add_labels(const std::string& input, std::span<const float> p, Json json,
                  Prediction& to) const {
    std::vector<size_t> there;
    for (size_t i = 0; i < p.size(); ++i)
      if (p[i] >= 0.5f) there.push_back(i);
    std::stable_sort(there.begin(), there.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    list(input, there, p, std::move(json), to);
  }
  void add_numbers(const std::string& input, std::span<const float> y, Json json,
                   Prediction& to) const {
    std::string line = input + ":";
    Json values = Json::object();
    for (size_t i = 0; i < y.size(); ++i) {
      const std::string name = net_.info.classes.empty() && y.size() == 1 ? "y" : name_of(net_, i);
      line += fmt::format("{} {} {:.6g}", i ? "," : "", name, y[i]);
      values[name] = y[i];
    }
    json["values"] = std::move(values);
    to.lines.push_back(std::move(line));
    to.json.push_back(std::move(json));
  }

 private:
  void list(const std::string& input, const std::vector<size_t>& outputs, std::span<const float> p,
            Json json, Prediction& to) const {
    std::string line;
    Json found = Json::array();
    for (const size_t i : outputs) {
      const std::string name = name_of(net_, i);
      line += fmt::format("{}{} {:.1f} %", line.empty() ? "" : ", ", name, 100.0 * p[i]);
      found.push_back({{"class", name}, {"probability", p[i]}});
    }
    json["classes"] = std::move(found);
    to.lines.push_back(fmt::format("{}: {}", input, line.empty() ? "none" : line));
    to.json.push_back(std::move(json));
  }

  const TrainedNetwork& net_;
  const size_t top_;
};

enum class Kind : uint8_t { classes, labels, numbers };

Tensor probabilities(const Tensor& output, Kind kind) {
  if (kind == Kind::classes) return softmax(output, 1);
  return kind == Kind::labels ? sigmoid(output) : output;
}

class OfPictures final : public Predictor {
 public:
  OfPictures(const TrainedNetwork& net, Kind kind, int top)
      : net_(net), kind_(kind), answers_(net, top) {}

  Prediction predict(const std::string& path, const ShowText&) override {
    const Tensor y = probabilities((*net_.network)(picture(path, net_)), kind_);
    const std::vector<float> values = finite_values(y, path, net_);
    Prediction result;
    if (kind_ == Kind::classes)
      answers_.add_classes(path, values, {{"image", path}}, result);
    else if (kind_ == Kind::labels)
      answers_.add_labels(path, values, {{"image", path}}, result);
    else
      answers_.add_numbers(path, values, {{"image", path}}, result);
    return result;
  }

 private:
  const TrainedNetwork& net_;
  const Kind kind_;
  const Answers answers_;
};

/// All rows of a CSV file.
class OfTables final : public Predictor {
 public:
  OfTables(const TrainedNetwork& net, Kind kind, int top)
      : net_(net), kind_(kind), answers_(net, top) {}

  Prediction predict(const std::string& path, const ShowText&) override {
    const auto table = data::open_csv(path, {.columns = net_.info.columns, .has_target = false});
    Prediction result;
    for (const data::Batch& batch : data::Loader(table, {.batch = kRows, .shuffle = false})) {
      const Tensor y = probabilities((*net_.network)(batch.x.to(net_.device)), kind_);
      const std::vector<float> values = finite_values(y, path, net_);
      const size_t width = values.size() / batch.samples.size();
      for (size_t row = 0; row < batch.samples.size(); ++row) {
        const std::string where = table->describe(batch.samples[row]);
        const std::span<const float> part = std::span(values).subspan(row * width, width);
        Json json{{"row", where}};
        if (kind_ == Kind::classes)
          answers_.add_classes(where, part, std::move(json), result);
        else
          answers_.add_numbers(where, part, std::move(json), result);
      }
    }
    return result;
  }

 private:
  static constexpr int64_t kRows = 256;  // at once
  const TrainedNetwork& net_;
  const Kind kind_;
  const Answers answers_;
};

/// Masks as grey PNGs whose values are classes.
class OfMasks final : public Predictor {
 public:
  /// Throws before anything is written.
  OfMasks(const TrainedNetwork& net, const PredictOptions& options)
      : net_(net), folder_(options.out) {
    BRIM_CHECK(!folder_.empty(), ValueError,
               "[predict] {} makes masks; say with --out FOLDER where to write them", net.path);
    std::set<std::string> written;
    for (const std::string& path : options.inputs) {
      const std::string to = mask_path(path);
      BRIM_CHECK(written.insert(to).second, ValueError,
                 "[predict] two pictures would both become {}; give them folders of their own", to);
      BRIM_CHECK(!std::filesystem::exists(to), FileError,
                 "[predict] {} is there already and stays; give --out another folder", to);
    }
    train::make_folder(folder_);
  }

  Prediction predict(const std::string& path, const ShowText&) override {
    const Tensor y = (*net_.network)(picture(path, net_));
    (void)finite_values(amax(y), path, net_);
    const Tensor classes = argmax(y, 1);
    const std::vector<int64_t> mask = classes.to_vector<int64_t>();
    data::Image image{.width = static_cast<int>(y.size(3)),
                      .height = static_cast<int>(y.size(2)),
                      .channels = 1,
                      .pixels = std::vector<uint8_t>(mask.begin(), mask.end())};
    const std::string to = mask_path(path);
    BRIM_CHECK(y.size(1) <= 256, ValueError,
               "[predict] {} knows {} classes, and a mask has bytes for 256", net_.path, y.size(1));
    io::AtomicFile file(to);
    const std::vector<uint8_t> png = data::encode_png(image);
    file.write({reinterpret_cast<const char*>(png.data()), png.size()});
    file.commit();

    std::vector<int64_t> pixels(static_cast<size_t>(y.size(1)));
    for (const int64_t c : mask) ++pixels[static_cast<size_t>(c)];
    std::string line;
    Json parts = Json::object();
    for (size_t c = 0; c < pixels.size(); ++c) {
      if (pixels[c] == 0) continue;
      const double part = static_cast<double>(pixels[c]) / static_cast<double>(mask.size());
      line += fmt::format("{}{} {:.1f} %", line.empty() ? "" : ", ", name_of(net_, c), 100 * part);
      parts[name_of(net_, c)] = part;
    }
    return {{fmt::format("{}: {} ({})", path, to, line)},
            {Json{{"image", path}, {"mask", to}, {"parts", std::move(parts)}}}};
  }

 private:
  const TrainedNetwork& net_;
  std::string mask_path(const std::string& picture) const {
    return folder_ + "/" + std::filesystem::path(picture).stem().string() + ".png";
  }

  const std::string folder_;
};

/// A text goes on, token by token.
class OfTexts final : public Predictor {
 public:
  OfTexts(const TrainedNetwork& net, const PredictOptions& options)
      : net_(net), options_(options), random_(options.seed) {}

  Prediction predict(const std::string& prompt, const ShowText& show) override {
    std::vector<int64_t> tokens = tokens_of(prompt);
    const auto window = static_cast<size_t>(net_.recipe.input.window);
    std::string text;
    size_t shown = 0;  // of the text's bytes
    bool wanted = true;
    for (int64_t k = 0; wanted && k < options_.length; ++k) {
      const size_t begin = tokens.size() > window ? tokens.size() - window : 0;
      const std::vector<int64_t> seen(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                      tokens.end());
      const auto length = static_cast<int64_t>(seen.size());
      const Tensor y = (*net_.network)(Tensor::from(seen, {1, length}, net_.device));
      tokens.push_back(next(y.select(1, length - 1).to(f32).to(Device::cpu())));
      if (k == 0) wanted = show(prompt);
      text += bytes() ? std::string(1, static_cast<char>(tokens.back()))
                      : " " + std::to_string(tokens.back());
      const size_t whole = k + 1 == options_.length ? text.size() : whole_characters(text);
      wanted = wanted && show(text.substr(shown, whole - shown));
      shown = whole;
    }
    show("\n");
    const std::string written = bytes() || text.empty() ? text : text.substr(1);
    return {{}, {Json{{"prompt", prompt}, {"text", written}}}};
  }

 private:
  static constexpr double kSurest = 1e-6;  // below it the likeliest token alone is drawn

  bool bytes() const { return net_.recipe.input.tokens == "u8"; }

  /// How many bytes of `text` do not end amid a character of UTF-8.
  static size_t whole_characters(const std::string& text) {
    for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
      const auto c = static_cast<unsigned char>(text[text.size() - back]);
      if ((c & 0xC0) == 0x80) continue;  // not the first byte of one
      const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
      return length > back ? text.size() - back : text.size();
    }
    return text.size();
  }

  /// Of the logits (1, V) of what comes next.
  int64_t next(const Tensor& logits) {
    (void)finite_values(logits, "the text", net_);
    if (options_.temperature < kSurest) return argmax(logits, 1).item<int64_t>();
    const Tensor p = softmax((logits - amax(logits)) / options_.temperature, 1);
    return multinomial(p, 1, false, &random_).item<int64_t>();
  }
  std::vector<int64_t> tokens_of(const std::string& prompt) const {
    std::vector<int64_t> tokens;
    if (bytes()) {
      for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
    } else {
      std::istringstream words(prompt);
      for (std::string word; words >> word;) {
        int64_t token = -1;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
        BRIM_CHECK(
            error == std::errc() && end == word.data() + word.size(), ValueError,
            "[predict] '{}' is no token; the network knows numbers, with spaces between them",
            word);
        tokens.push_back(token);
      }
    }
    BRIM_CHECK(!tokens.empty(), ValueError, "[predict] the text holds no token to go on from");
    for (const int64_t token : tokens)
      BRIM_CHECK(token >= 0 && token < net_.recipe.input.vocabulary, ValueError,
                 "[predict] token {} in the prompt, and the network knows 0 to {}", token,
                 net_.recipe.input.vocabulary - 1);
    return tokens;
  }

  const TrainedNetwork& net_;
  const PredictOptions& options_;
  Generator random_;
};

}  // namespace

void check_can_be_asked(const std::string& path, const train::Recipe& recipe) {
  const std::string& task = recipe.task;
  const bool known = task == "classify" || task == "multilabel" || task == "regress" ||
                     task == "segment" || task == "language";
  BRIM_CHECK(known && recipe.input.transforms.empty(), ValueError,
             "[predict] {} was trained for task '{}'{}, which this command cannot ask; load the "
             "weights in a program (train::load_weights)",
             path, task, known ? " with transforms of a program's own" : "");
}

std::unique_ptr<Predictor> make_predictor(const TrainedNetwork& net, const PredictOptions& o) {
  const std::string& task = net.recipe.task;
  BRIM_CHECK(o.out.empty() || task == "segment", ValueError,
             "[predict] --out is for masks, and {} was trained for task {}", net.path, task);
  if (task == "segment") return std::make_unique<OfMasks>(net, o);
  if (task == "language") return std::make_unique<OfTexts>(net, o);
  const bool table = !net.info.columns.empty();
  if (task == "classify" && table) return std::make_unique<OfTables>(net, Kind::classes, o.top);
  if (task == "classify") return std::make_unique<OfPictures>(net, Kind::classes, o.top);
  if (task == "multilabel") return std::make_unique<OfPictures>(net, Kind::labels, o.top);
  if (task == "regress" && table) return std::make_unique<OfTables>(net, Kind::numbers, o.top);
  if (task == "regress") return std::make_unique<OfPictures>(net, Kind::numbers, o.top);
  raise<ValueError>(
      "[predict] {} was trained for task '{}', which this command cannot ask; load the weights in "
      "a "
      "program (train::load_weights)",
      net.path, task);
}

}  // namespace brim::command
