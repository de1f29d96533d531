// What a data set to download is made of.
#pragma once

#include <brim/data/get.h>

#include <string>
#include <vector>

namespace brim::data {

struct RemoteFile {
  std::string name, md5;
};

struct RemoteSet {
  std::string name;
  std::vector<std::string> addresses;  // of folders, the authors' first
  std::vector<RemoteFile> files;
  std::vector<std::string> unpacked;  // what an archive leaves in the folder; empty: not unpacked
};

/// get_data_set for a set that need not be a known one.
std::vector<std::string> get_files(const RemoteSet& set, const std::string& folder,
                                   const GetOptions& options);

}  // namespace brim::data
