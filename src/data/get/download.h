// One file over HTTP, through libcurl, which is opened at run time: linked, it would load two dozen
// libraries at every start.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include <brim/core/error.h>

namespace brim::data {

/// The transfer did not come to its end: what came is kept, and going on may help.
class TransferError : public FileError {
 public:
  using FileError::FileError;
};

/// Bytes of the file that are there, and of the whole (0: not known). Returning false stops.
using DownloadProgress = std::function<bool(int64_t done, int64_t total)>;

/// Whether this build can download, where libcurl is installed.
bool built_with_curl();

/// Fetches `url` (http or https) into the file `part`, going on behind what it holds already if the
/// server can (Range, RFC 9110 section 14). Throws TransferError for a server that does not answer,
/// answers with an error or breaks off; FileError if the file cannot be written (what came is kept)
/// or libcurl is missing; Error when stopped.
void download(const std::string& url, const std::string& part, const DownloadProgress& progress);

}  // namespace brim::data
