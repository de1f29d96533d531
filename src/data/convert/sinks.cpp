// Folders, IDX files and safetensors.
#include <brim/core/error.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "data/convert/output_file.h"
#include "data/convert/sink.h"
#include "data/source/arrays.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

class FolderSink final : public Sink {
 public:
  FolderSink(const std::string& path, const SinkPlan& plan) : folder_(path), plan_(plan) {}
  bool takes_files() const override { return true; }
  void add(const SinkSample& sample, bool test) override {
    const fs::path path = folder_ / name_in_folder(plan_, sample, test, number_++);
    fs::create_directories(path.parent_path());
    OutputFile out(path.string());
    out.write(sample.file.data(), sample.file.size());
    out.flush();
  }
  void finish() override {}

 private:
  fs::path folder_;
  const SinkPlan& plan_;
  int64_t number_ = 0;
};

// Throws unless the sample has the shape of the first one.
void check_shape(const SinkSample& sample, const SinkPlan& plan, const char* format) {
  BRIM_CHECK(
      sample.image.shape() == plan.shape, FileError,
      "{}: is {} x {} pixels, and others are {} x {}; {} holds pictures of one size, convert "
      "with ConvertOptions::side",
      sample.name, sample.image.width, sample.image.height, plan.shape.width, plan.shape.height,
      format);
}

class IdxSink final : public Sink {
 public:
  IdxSink(const std::string& path, const SinkPlan& plan) : plan_(plan) {
    BRIM_CHECK(plan.classes.size() <= 256, FileError,
               "[data] {} classes; IDX files have one byte for the label, so at most 256",
               plan.classes.size());
    fs::create_directories(path);
    const auto open = [&](const char* split, const std::vector<int64_t>& labels,
                          std::optional<OutputFile>& images) {
      if (labels.empty()) return;
      const auto count = static_cast<uint32_t>(labels.size());
      OutputFile out((fs::path(path) / fmt::format("{}-labels-idx1-ubyte", split)).string());
      write_words(out, {0x801, count});
      for (const int64_t label : labels) {
        const auto byte = static_cast<uint8_t>(label);
        out.write(&byte, 1);
      }
      out.close();
      images.emplace((fs::path(path) / fmt::format("{}-images-idx3-ubyte", split)).string());
      write_words(*images, {0x803, count, static_cast<uint32_t>(plan.shape.height),
                            static_cast<uint32_t>(plan.shape.width)});
    };
    open("train", plan.train_labels, train_);
    open("t10k", plan.test_labels, test_);
  }
  bool takes_files() const override { return false; }
  void add(const SinkSample& sample, bool test) override {
    check_shape(sample, plan_, "an IDX file");
    grey_.clear();
    const std::vector<uint8_t>& pixels = sample.image.pixels;
    for (size_t i = 0; i < pixels.size(); i += 3) {
      BRIM_CHECK(pixels[i] == pixels[i + 1] && pixels[i] == pixels[i + 2], FileError,
                 "{}: is in colour; IDX files hold grey pictures, convert to another format",
                 sample.name);
      grey_.push_back(pixels[i]);
    }
    (test ? test_ : train_)->write(grey_.data(), grey_.size());
  }
  void finish() override {
    if (train_) train_->close();
    if (test_) test_->close();
  }

 private:
  static void write_words(OutputFile& out, std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) {
      const std::array<uint8_t, 4> bytes = {
          static_cast<uint8_t>(word >> 24), static_cast<uint8_t>(word >> 16),
          static_cast<uint8_t>(word >> 8), static_cast<uint8_t>(word)};  // big-endian
      out.write(bytes.data(), 4);
    }
  }

  const SinkPlan& plan_;
  std::optional<OutputFile> train_, test_;
  std::vector<uint8_t> grey_;
};

class SafeTensorsSink final : public Sink {
 public:
  SafeTensorsSink(const std::string& path, const SinkPlan& plan) : plan_(plan), out_(path) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string names;
    for (const std::string& name : plan.classes) {
      BRIM_CHECK(name.find('\n') == std::string::npos, FileError,
                 "[data] a class name holds a line break, which separates names in the metadata");
      names += (names.empty() ? "" : "\n") + name;
    }
    header["__metadata__"] = {{kArrayClasses, names}};
    int64_t at = 0;
    const auto tensor = [&](const std::string& name, const char* dtype,
                            const std::vector<int64_t>& shape, int64_t bytes) {
      header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
      at += bytes;
    };
    const auto [channels, height, width] = plan.shape;
    // Labels first: they are wider, and so aligned.
    for (const bool images : {false, true}) {
      for (const bool test : {false, true}) {
        const auto n = static_cast<int64_t>((test ? plan.test_labels : plan.train_labels).size());
        const ArrayNames array = array_names(test ? "test_" : "train_");
        if (n == 0) continue;
        if (images)
          tensor(array.images, "U8", {n, height, width, channels}, n * plan.shape.bytes());
        else
          tensor(array.labels, "I64", {n}, 8 * n);
      }
    }
    std::string json;
    try {
      json = header.dump();
    } catch (const nlohmann::json::exception&) {
      raise<FileError>("[data] a class name is not UTF-8; rename it");
    }
    while ((8 + json.size()) % 64 != 0) json += ' ';
    const uint64_t length = json.size();
    out_.write(&length, 8);
    out_.write(json.data(), json.size());
    for (const auto* labels : {&plan.train_labels, &plan.test_labels})
      out_.write(labels->data(), labels->size() * 8);
  }
  bool takes_files() const override { return false; }
  void add(const SinkSample& sample, bool) override {
    check_shape(sample, plan_, "a safetensors file");
    out_.write(sample.image.pixels.data(), sample.image.pixels.size());
  }
  void finish() override { out_.close(); }

 private:
  const SinkPlan& plan_;
  OutputFile out_;
};

}  // namespace

std::string name_in_folder(const SinkPlan& plan, const SinkSample& sample, bool test,
                           int64_t number) {
  const std::string& name = plan.classes[static_cast<size_t>(sample.label)];
  BRIM_CHECK(!name.empty() && !name.starts_with('.') && name.find('/') == std::string::npos &&
                 name.find('\0') == std::string::npos,
             FileError, "{}: its class \"{}\" cannot be the name of a folder; rename it",
             sample.name, name);
  const char* const split = !plan.split_up ? "" : test ? "test/" : "train/";
  return fmt::format("{}{}/{:06}.{}", split, name, number, sample.extension);
}

std::unique_ptr<Sink> make_sink(DataFormat format, const std::string& path, const SinkPlan& plan) {
  switch (format) {
    case DataFormat::idx:
      return std::make_unique<IdxSink>(path, plan);
    case DataFormat::folder:
      return std::make_unique<FolderSink>(path, plan);
    case DataFormat::tar:
      return make_tar_sink(path, plan);
    case DataFormat::shards:
      return make_shards_sink(path);
    case DataFormat::safetensors:
      return std::make_unique<SafeTensorsSink>(path, plan);
    case DataFormat::cifar10:
      break;
  }
  raise<ValueError>("[data] no writer for {}", to_string(format));
}

}  // namespace brim::data
