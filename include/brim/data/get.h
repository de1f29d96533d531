// Fetches data sets from where their authors put them. Link brim::datasets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/error.h>

namespace brim::data {

/// How far a download is.
struct GetProgress {
  std::string file;   ///< name of the file
  int64_t done = 0;   ///< bytes of it that are there
  int64_t total = 0;  ///< bytes of the whole; 0: not known
};

/// Options of get().
struct GetOptions {
  /// Where to look first: the address of the folder that holds the set's files.
  std::string mirror = {};
  /// Called now and then. Returning false stops with an Error; what came is kept.
  std::function<bool(const GetProgress&)> progress = {};
  /// Told what went wrong with one address before the next one is tried.
  std::function<void(const std::string&)> warn = {};
};

/// "cifar10", "mnist" and "fashion-mnist".
std::vector<std::string> known_data_sets();

/// Fetches the data set `name` into `folder`, which is made if needed, and returns the paths of its
/// files; Source::open takes the folder. Each file is written as NAME.part, goes on where an
/// earlier attempt ended, and gets its name once its published checksum (MD5) is right; with a
/// wrong one it is deleted. Files that are there already are not fetched again. Archives are
/// unpacked and removed. Commands that fetch into one folder wait for each other. Throws ValueError
/// for an unknown name, FileError when no address has the file, for a wrong checksum, and when the
/// folder cannot be written.
std::vector<std::string> get_data_set(const std::string& name, const std::string& folder,
                                      const GetOptions& options = {});

}  // namespace brim::data
