// Where the samples of a conversion go: one class per format, in sinks.cpp and tar_sink.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <brim/data/convert.h>
#include <brim/data/image.h>
#include <brim/data/source.h>

namespace brim::data {

/// A sample ready to be written.
struct SinkSample {
  int64_t label = 0;
  std::string name;            ///< of the picture that it was, for messages
  std::vector<uint8_t> file;   ///< JPEG or PNG, for sinks that take files
  const char* extension = "";  ///< of `file`: "jpg" or "png"
  Image image;                 ///< for sinks that take pixels
};

/// What a sink may know before the first sample.
struct SinkPlan {
  std::vector<std::string> classes;
  std::vector<int64_t> train_labels, test_labels;  ///< in the order in which samples will come
  ImageShape shape;  ///< of the first sample; sinks of pixels need all to be like it
  /// Whether folders of classes lie below train/ and test/: there is a test split, or a class whose
  /// folder would be taken for one.
  bool split_up = false;
};

/// Takes all training samples, then all test samples.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual bool takes_files() const = 0;
  virtual void add(const SinkSample& sample, bool test) = 0;
  /// Completes the files.
  virtual void finish() = 0;
};

/// Writes below or to `path`, a temporary name. Throws FileError for data that the format cannot
/// hold.
std::unique_ptr<Sink> make_sink(DataFormat format, const std::string& path, const SinkPlan& plan);
std::unique_ptr<Sink> make_tar_sink(const std::string& path, const SinkPlan& plan);
std::unique_ptr<Sink> make_shards_sink(const std::string& path);

/// "train/cat/000012.jpg"; "cat/000012.jpg" where the plan is not split up. Throws FileError for a
/// class that cannot be the name of a folder.
std::string name_in_folder(const SinkPlan& plan, const SinkSample& sample, bool test,
                           int64_t number);

}  // namespace brim::data
