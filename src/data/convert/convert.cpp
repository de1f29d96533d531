// Any source to any format: threads read, resize and encode runs of samples, and the calling thread
// writes them in order.
#include <brim/core/threads.h>
#include <brim/data/convert.h>
#include <brim/data/source.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <optional>

#include "core/check.h"
#include "core/nearest.h"
#include "core/start_thread.h"
#include "core/write_cure.h"
#include "data/convert/sink.h"
#include "data/file.h"
#include "data/image/decode.h"
#include "data/image/jpeg.h"
#include "data/keyed.h"
#include "data/mapped_file.h"
#include "data/permutation.h"
#include "data/source/image_folder.h"
#include "data/source/listing.h"
#include "data/transform/resample.h"
#include "io/atomic_file.h"
#include "io/temporary.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

constexpr DataFormat kFormats[] = {DataFormat::cifar10, DataFormat::idx,
                                   DataFormat::folder,  DataFormat::tar,
                                   DataFormat::shards,  DataFormat::safetensors};

// One split in the order in which it is written.
struct Samples {
  std::shared_ptr<const Source> source;
  std::vector<int64_t> order, labels;
};

Samples order_samples(std::shared_ptr<const Source> source, uint64_t seed, bool test) {
  const int64_t n = source->size();
  const Permutation permutation(n, key64(seed, 0x636f6e76, test ? 1 : 0));
  Samples samples{std::move(source), {}, {}};
  for (int64_t i = 0; i < n; ++i) {
    samples.order.push_back(permutation[i]);
    samples.labels.push_back(samples.source->label(permutation[i]));
  }
  return samples;
}

SinkSample prepare(const Source& source, int64_t i, int side, bool as_file) {
  SinkSample sample;
  sample.label = source.label(i);
  sample.name = source.describe(i);
  if (as_file && side == 0) {
    std::vector<uint8_t> buffer;
    const auto bytes = source.file(i, buffer);
    if (!bytes.empty()) {
      static thread_local Image unused;
      decode_image(bytes, sample.name, unused);  // what is damaged is not passed on
      sample.extension = looks_like_jpeg(bytes) ? "jpg" : "png";
      sample.file.assign(bytes.begin(), bytes.end());
      return sample;
    }
  }
  source.read(i, sample.image);
  if (side > 0 && (sample.image.width != side || sample.image.height != side)) {
    Image resized;
    with_name([&] { return sample.name; },
              [&] {
                resample(sample.image, {0, 0, sample.image.width, sample.image.height}, side, side,
                         resized);
              });
    sample.image = std::move(resized);
  }
  if (as_file) {
    sample.file = encode_png(sample.image), sample.extension = "png";
    sample.image = {};  // it would wait in the queue
  }
  return sample;
}

class Conversion {
 public:
  Conversion(const ConvertOptions& options, int64_t total)
      : options_(options),
        workers_(static_cast<size_t>(options.workers < 0 ? available_cpus() : options.workers)),
        total_(total) {}

  void run(const Samples& samples, bool test, Sink& sink) {
    constexpr int64_t kRun = 32;
    const auto n = static_cast<int64_t>(samples.order.size());
    std::deque<std::future<std::vector<SinkSample>>> running;
    const auto take = [&] {
      auto first = std::move(running.front());
      running.pop_front();
      for (const SinkSample& sample : first.get()) sink.add(sample, test), ++done_;
      const double fraction = static_cast<double>(done_) / static_cast<double>(total_);
      if (options_.progress && !options_.progress({done_, fraction, "convert"}))
        raise<Error>("[data] conversion stopped");
    };
    const auto when = workers_ > 0 ? std::launch::async : std::launch::deferred;
    for (int64_t begin = 0; begin < n; begin += kRun) {
      if (running.size() >= workers_ + 1) take();
      const int64_t end = std::min(begin + kRun, n);
      const auto job = [&samples, begin, end, side = options_.side, files = sink.takes_files()] {
        std::vector<SinkSample> run;
        with_check(*samples.source, [&] {
          for (int64_t i = begin; i < end; ++i)
            run.push_back(
                prepare(*samples.source, samples.order[static_cast<size_t>(i)], side, files));
        });
        return run;
      };
      running.push_back(start_thread([&] { return std::async(when, job); }));
    }
    while (!running.empty()) take();
  }

 private:
  const ConvertOptions& options_;
  size_t workers_;
  int64_t total_, done_ = 0;
};

std::vector<std::string> files_of(const std::string& out) {
  if (!fs::is_directory(out)) return {out};
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(out))
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

const char* to_string(DataFormat format) {
  switch (format) {
    case DataFormat::cifar10:
      return "cifar10";
    case DataFormat::idx:
      return "idx";
    case DataFormat::folder:
      return "folder";
    case DataFormat::tar:
      return "tar";
    case DataFormat::shards:
      return "shards";
    case DataFormat::safetensors:
      return "safetensors";
  }
  return "?";
}

DataFormat parse_data_format(const std::string& word) {
  std::vector<std::string> names;
  for (const DataFormat format : kFormats) {
    names.emplace_back(to_string(format));
    if (word == names.back()) return format;
  }
  raise<ValueError>("[data] unknown format '{}'{}", word, suggestion(word, names));
}

ConvertResult convert(const std::string& input, const std::string& out, DataFormat format,
                      const ConvertOptions& options) {
  if (format == DataFormat::cifar10) return convert_to_cifar10(input, out, options);
  BRIM_CHECK(options.workers >= -1 && options.workers <= 1024, ValueError,
             "[data] workers {}: must be 0 to 1024, or -1 for one per CPU", options.workers);
  constexpr int kMaxSide = 1 << 13;
  BRIM_CHECK(options.side >= 0 && options.side <= kMaxSide, ValueError,
             "[data] size {}: must be 1 to {}, or 0 for pictures as they are", options.side,
             kMaxSide);
  std::string path = out;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::error_code error;
  const bool one_file = format == DataFormat::tar || format == DataFormat::safetensors;
  if (!one_file) check_outside(input, path);
  const bool exists = fs::exists(fs::symlink_status(path, error));
  const bool empty =
      exists && !one_file && fs::is_directory(path, error) && fs::is_empty(path, error);
  const bool replaceable = one_file && fs::is_regular_file(path, error);
  BRIM_CHECK(!exists || empty || (replaceable && options.overwrite), FileError,
             "{}: exists already{}; choose another name{}", path,
             one_file && !replaceable ? " and is not a file" : "",
             replaceable ? ", or use ConvertOptions::overwrite" : "");

  const auto open_progress = [&](double fraction) {
    return !options.progress || options.progress({0, fraction, "open"});
  };
  Samples train =
      order_samples(Source::open(input, Split::train, open_progress), options.seed, false);
  std::optional<Samples> test;
  try {
    test = order_samples(Source::open(input, Split::test, open_progress), options.seed, true);
  } catch (const NoSuchSplit&) {
    // No test split: the result says so with test == 0.
  }
  SinkPlan plan{
      train.source->classes(), train.labels, test ? test->labels : std::vector<int64_t>{}, {}};
  plan.shape = prepare(*train.source, train.order[0], options.side, false).image.shape();
  plan.split_up = test || std::any_of(plan.classes.begin(), plan.classes.end(), names_split);

  const fs::path parent = fs::absolute(path).parent_path();
  const EmptyFolders made(parent.string());
  make_folders("data", parent.string());
  const io::ScratchFolder scratch(parent.string(), fs::path(path).filename().string());
  const std::string made_there = scratch / "out";
  const int64_t total = static_cast<int64_t>(plan.train_labels.size() + plan.test_labels.size());
  try {
    const auto sink = make_sink(format, made_there, plan);
    Conversion conversion(options, total);
    conversion.run(train, false, *sink);
    if (test) conversion.run(*test, true, *sink);
    sink->finish();
  } catch (const fs::filesystem_error& failure) {
    raise<FileError>("{}: cannot write: {}", path, write_failure(failure.code().value()));
  }
  BRIM_CHECK(::rename(made_there.c_str(), path.c_str()) == 0, FileError,
             "{}: cannot rename {} to it: {}", path, made_there, std::strerror(errno));
  io::sync_folder(parent.string());
  return {static_cast<int64_t>(plan.train_labels.size()),
          static_cast<int64_t>(plan.test_labels.size()), plan.classes, files_of(path)};
}

}  // namespace brim::data
