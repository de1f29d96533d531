// Any source -> CIFAR-10 binary. Pictures are streamed: decoded records go to a temporary file in
// the order they come, and a keyed permutation spreads them over the final files. Memory holds a
// few chunks only.
#include <brim/data/convert.h>
#include <brim/data/source.h>

#include <brim/core/threads.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/printable.h"
#include "core/start_thread.h"
#include "core/write_cure.h"
#include "data/convert/output_file.h"
#include "data/file.h"
#include "data/keyed.h"
#include "data/mapped_file.h"
#include "data/permutation.h"
#include "data/source/archive_reader.h"
#include "data/source/cifar10.h"
#include "data/source/image_folder.h"
#include "data/source/listing.h"
#include "data/transform/resample.h"
#include "io/atomic_file.h"
#include "io/temporary.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

using Record = std::array<uint8_t, kCifarPixels>;

// Interleaved pixels to planes, resized if the options allow it.
void to_record(const Image& image, const std::string& name, int side, Record& out) {
  const Image* from = &image;
  Image resized;
  if (image.width != kCifarSide || image.height != kCifarSide) {
    BRIM_CHECK(side == kCifarSide, FileError,
               "{}: is {} x {} pixels; CIFAR-10 needs 32 x 32; convert with "
               "ConvertOptions::side=32 to make it so",
               name, image.width, image.height);
    with_name([&] { return name; },
              [&] {
                resample(image, {0, 0, image.width, image.height}, kCifarSide, kCifarSide, resized);
              });
    from = &resized;
  }
  constexpr size_t kPlane = kCifarPixels / 3;
  for (size_t p = 0; p < kPlane; ++p) {
    for (size_t c = 0; c < 3; ++c) out[c * kPlane + p] = from->pixels[3 * p + c];
  }
}

// Runs decoding jobs on threads and writes their records in the order in which they were added.
class Decoder {
 public:
  using Job = std::function<void(std::vector<Record>&)>;

  /// Without workers the calling thread does the work.
  Decoder(OutputFile& out, int workers) : out_(out), workers_(static_cast<size_t>(workers)) {}
  void add(Job job) {
    if (running_.size() >= workers_ + 1) take();
    const auto when = workers_ > 0 ? std::launch::async : std::launch::deferred;
    running_.push_back(start_thread([&] {
      return std::async(when, [job = std::move(job)] {
        std::vector<Record> records;
        job(records);
        return records;
      });
    }));
  }
  void finish() {
    while (!running_.empty()) take();
  }

 private:
  void take() {
    std::future<std::vector<Record>> first = std::move(running_.front());
    running_.pop_front();
    const std::vector<Record> records = first.get();
    for (const Record& record : records) out_.write(record.data(), record.size());
  }

  OutputFile& out_;
  size_t workers_;
  std::deque<std::future<std::vector<Record>>> running_;
};

constexpr size_t kChunkPictures = 256;

// What stage 1 leaves: pixel records in a file, and for each split the label of every record it
// has.
struct Gathered {
  std::vector<std::string> classes;
  struct Sample {
    int64_t record;
    int64_t label;
  };
  std::vector<Sample> train, test;
};

class Cifar10Conversion {
 public:
  Cifar10Conversion(const ConvertOptions& options, int workers)
      : options_(options), workers_(workers) {}

  void report(int64_t images, double fraction, const char* stage) const {
    if (options_.progress && !options_.progress({images, std::min(fraction, 1.0), stage})) {
      raise<Error>("[data] conversion stopped");
    }
  }

  Gathered from_archive(const std::string& path, const std::string& records_path) const {
    ArchiveReader reader(path);
    std::vector<Entry> entries;
    {
      OutputFile out(records_path);
      Decoder decoder(out, workers_);
      struct File {
        std::string name;
        std::vector<uint8_t> bytes;
      };
      std::vector<File> chunk;
      const auto flush = [&] {
        decoder.add([files = std::move(chunk), side = options_.side](std::vector<Record>& records) {
          Image image;
          records.resize(files.size());
          for (size_t i = 0; i < files.size(); ++i) {
            decode_image(files[i].bytes, files[i].name, image);
            to_record(image, files[i].name, side, records[i]);
          }
        });
        chunk.clear();
      };
      std::string name;
      std::span<const uint8_t> bytes;
      size_t held = 0;
      while (reader.next(name, bytes)) {
        entries.push_back({name, static_cast<int64_t>(entries.size())});
        chunk.push_back({path + ": " + name, {bytes.begin(), bytes.end()}});
        held += bytes.size();
        if (chunk.size() < kChunkPictures && held < (size_t{32} << 20)) continue;
        flush();
        held = 0;
        report(static_cast<int64_t>(entries.size()), reader.fraction() * 0.9, "decode");
      }
      if (!chunk.empty()) flush();
      decoder.finish();
      out.close();
    }
    Gathered found;
    const auto take = [](const Listing& listing, std::vector<Gathered::Sample>& samples) {
      for (size_t i = 0; i < listing.entries.size(); ++i) {
        samples.push_back({listing.entries[i].payload, listing.labels[i]});
      }
    };
    const Listing train = make_listing(entries, path, Split::train);
    found.classes = train.classes;
    take(train, found.train);
    if (has_split(entries, Split::test))
      take(make_listing(std::move(entries), path, Split::test), found.test);
    return found;
  }

  Gathered from_sources(const std::vector<std::shared_ptr<const Source>>& sources,
                        const std::string& records_path) const {
    OutputFile out(records_path);
    Decoder decoder(out, workers_);
    Gathered found;
    found.classes = sources[0]->classes();
    int64_t total = 0, done = 0;
    for (const auto& source : sources) total += source->size();
    for (size_t s = 0; s < sources.size(); ++s) {
      const auto& source = sources[s];
      for (int64_t first = 0; first < source->size(); first += kChunkPictures) {
        const int64_t last = std::min<int64_t>(first + kChunkPictures, source->size());
        for (int64_t i = first; i < last; ++i, ++done) {
          (s == 0 ? found.train : found.test).push_back({done, source->label(i)});
        }
        decoder.add([source, first, last, side = options_.side](std::vector<Record>& records) {
          Image image;
          records.resize(static_cast<size_t>(last - first));
          for (int64_t i = first; i < last; ++i) {
            source->read(i, image);
            to_record(image, source->describe(i), side, records[static_cast<size_t>(i - first)]);
          }
        });
        report(done, 0.9 * static_cast<double>(done) / static_cast<double>(total), "decode");
      }
    }
    decoder.finish();
    out.close();
    return found;
  }

  // Writes the samples in permuted order, kCifarRecordsPerFile a file; adds the names of the files.
  void write_files(const std::vector<Gathered::Sample>& samples, const MappedFile& records,
                   bool test, const io::ScratchFolder& scratch,
                   std::vector<std::string>& names) const {
    const auto n = static_cast<int64_t>(samples.size());
    const Permutation order(std::max<int64_t>(n, 1),
                            key64(options_.seed, 0x636f6e76, test ? 1 : 0));
    for (int64_t first = 0, number = 1; first < n; first += kCifarRecordsPerFile, ++number) {
      names.push_back(test ? "test_batch.bin" : fmt::format("data_batch_{}.bin", number));
      OutputFile out(scratch / names.back());
      const int64_t last = test ? n : std::min(first + kCifarRecordsPerFile, n);
      for (int64_t i = first; i < last; ++i) {
        const Gathered::Sample& sample = samples[static_cast<size_t>(order[i])];
        const auto label = static_cast<uint8_t>(sample.label);
        out.write(&label, 1);
        out.write(records.bytes().data() + sample.record * kCifarPixels, kCifarPixels);
      }
      out.close();
      report(last, 0.95, "write");
      if (test) break;
    }
  }

 private:
  const ConvertOptions& options_;
  int workers_;
};

// The CIFAR-10 files that a folder holds now.
std::vector<std::string> existing_files(const fs::path& folder) {
  std::vector<std::string> paths = cifar10_train_files(folder.string());
  for (const char* name : {"test_batch.bin", kCifarMeta}) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(folder / name, error)))
      paths.push_back((folder / name).string());
  }
  return paths;
}

bool is_archive(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const MappedFile file(path);
  return looks_like_archive(file.bytes()) || path.ends_with(".tar");
}

// The splits of an input that is no archive: train, and test where there is one.
std::vector<std::shared_ptr<const Source>> open_sources(const std::string& input) {
  std::vector<std::shared_ptr<const Source>> sources{Source::open(input, Split::train)};
  try {
    sources.push_back(Source::open(input, Split::test));
  } catch (const NoSuchSplit&) {
    // No test split: the result says so with test == 0.
  }
  return sources;
}

}  // namespace

ConvertResult convert_to_cifar10(const std::string& input, const std::string& out_dir,
                                 const ConvertOptions& options) {
  BRIM_CHECK(options.side == 0 || options.side == kCifarSide, ValueError,
             "[data] convert to side {}: CIFAR-10 pictures are 32 x 32; use 32, or 0 for no resize",
             options.side);
  const bool archive = is_archive(input);
  std::vector<std::shared_ptr<const Source>> sources;
  if (!archive) sources = open_sources(input);

  BRIM_CHECK(options.workers >= -1 && options.workers <= 1024, ValueError,
             "[data] workers {}: must be 0 to 1024, or -1 for one per CPU", options.workers);
  check_outside(input, out_dir);
  const fs::path folder = out_dir;
  const EmptyFolders made(out_dir);
  make_folders("data", out_dir);
  const std::vector<std::string> old = existing_files(folder);
  BRIM_CHECK(old.empty() || options.overwrite, FileError,
             "{}: exists already; choose another folder, or use ConvertOptions::overwrite",
             old.empty() ? "" : old[0]);

  ConvertResult result;
  const io::ScratchFolder scratch(out_dir, "cifar10");
  std::vector<std::string> names;
  const Cifar10Conversion conversion(options,
                                     options.workers < 0 ? available_cpus() : options.workers);
  const std::string records_path = scratch / "records";
  const Gathered found = archive ? conversion.from_archive(input, records_path)
                                 : conversion.from_sources(sources, records_path);
  BRIM_CHECK(found.classes.size() <= 256, FileError,
             "{}: has {} classes; the CIFAR-10 format has one byte for the label, so at most 256",
             input, found.classes.size());
  const MappedFile records(records_path);
  conversion.write_files(found.train, records, false, scratch, names);
  conversion.write_files(found.test, records, true, scratch, names);

  names.emplace_back(kCifarMeta);
  OutputFile meta(scratch / kCifarMeta);
  for (const std::string& name : found.classes) {
    BRIM_CHECK(
        name.find('\n') == std::string::npos && !name.ends_with(' ') && !name.ends_with('\r'),
        FileError,
        "{}: the class '{}' holds a line break or ends in a space, which {} cannot keep; "
        "rename it",
        input, printable(name), kCifarMeta);
    meta.write((name + "\n").data(), name.size() + 1);
  }
  meta.close();

  for (const std::string& name : names) {
    const std::string from = scratch / name, to = (folder / name).string();
    BRIM_CHECK(::rename(from.c_str(), to.c_str()) == 0, FileError, "{}: cannot rename {} to it: {}",
               to, from, std::strerror(errno));
    result.files.push_back(to);
  }
  for (const std::string& path : old) {  // files of a longer set that was here before
    if (std::find(result.files.begin(), result.files.end(), path) == result.files.end())
      ::unlink(path.c_str());
  }
  io::sync_folder(out_dir);
  result.train = static_cast<int64_t>(found.train.size());
  result.test = static_cast<int64_t>(found.test.size());
  result.classes = found.classes;
  if (options.progress) options.progress({result.train + result.test, 1, "write"});
  return result;
}

}  // namespace brim::data
