// libcurl behind download.h.
#include "data/get/download.h"

#include "core/check.h"

#if BRIM_HAVE_CURL

#include <curl/curl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>

#include "core/open_to_write.h"
#include "core/write_cure.h"

namespace brim::data {
namespace {

constexpr int64_t kMaxBytes = int64_t{8} << 30;  // no data set here is nearly as large

// The functions of libcurl that are used.
struct Curl {
  decltype(&curl_easy_init) init = nullptr;
  decltype(&curl_easy_setopt) set = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) info = nullptr;
  decltype(&curl_easy_strerror) text = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;

  Curl() {
    void* const library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    BRIM_CHECK(library != nullptr, FileError,
               "[data] downloads need libcurl, which is not installed; apt-get install libcurl4");
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
      BRIM_CHECK(function != nullptr, FileError, "[data] libcurl.so.4 has no {}; update it", name);
    };
    find(init, "curl_easy_init");
    find(set, "curl_easy_setopt");
    find(perform, "curl_easy_perform");
    find(info, "curl_easy_getinfo");
    find(text, "curl_easy_strerror");
    find(cleanup, "curl_easy_cleanup");
  }
};

const Curl& library() {
  static const Curl curl;
  return curl;
}

struct Transfer {
  const Curl& curl;
  CURL* handle;
  std::FILE* file;
  const DownloadProgress& progress;
  int64_t done;               // bytes in the file
  int64_t start;              // where this answer begins in the file
  bool begun = false;         // an answer with content came
  bool stopped = false;       // by `progress`
  std::exception_ptr thrown;  // by `progress`: not through the C of libcurl
  int write_error = 0;        // errno

  long status() const {
    long code = 0;
    curl.info(handle, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
  // The whole length, or 0.
  int64_t total() const {
    curl_off_t left = -1;
    curl.info(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &left);
    return left > 0 ? start + left : 0;
  }
};

size_t on_data(const char* data, size_t, size_t bytes, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  if (!t.begun) {
    t.begun = true;
    if (t.status() != 206 && t.done > 0) {  // the server sends all of it
      if (::ftruncate(::fileno(t.file), 0) != 0) return t.write_error = errno, 0;
      t.done = 0;
    }
    t.start = t.done;
  }
  if (t.done + static_cast<int64_t>(bytes) > kMaxBytes) return t.write_error = EFBIG, 0;
  if (std::fwrite(data, 1, bytes, t.file) != bytes) return t.write_error = errno, 0;
  t.done += static_cast<int64_t>(bytes);
  return bytes;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& t = *static_cast<Transfer*>(user);
  try {
    t.stopped = t.progress && !t.progress(t.done, t.total());
  } catch (...) {
    t.thrown = std::current_exception();
    return 1;
  }
  return t.stopped ? 1 : 0;
}

}  // namespace

bool built_with_curl() { return true; }

void download(const std::string& url, const std::string& part, const DownloadProgress& progress) {
  const Curl& curl = library();
  const auto cannot_write = [&](int error) {
    raise<FileError>("{}: cannot write: {}; what came is kept, and getting it again goes on there",
                     part, write_failure(error));
  };
  const OwnedStream file = open_stream(part, O_WRONLY | O_APPEND);
  if (!file) cannot_write(errno);
  const std::unique_ptr<CURL, decltype(curl.cleanup)> handle(curl.init(), curl.cleanup);
  if (!handle) throw std::bad_alloc();
  const auto held = static_cast<int64_t>(std::filesystem::file_size(part));
  Transfer transfer{curl, handle.get(), file.get(), progress, held, held};
  const auto set = [&](CURLoption option, auto value) { curl.set(handle.get(), option, value); };
  const std::string range = fmt::format("{}-", held);
  set(CURLOPT_URL, url.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
  set(CURLOPT_REDIR_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 20L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, 60L);
  set(CURLOPT_USERAGENT, "brim");
  if (held > 0) set(CURLOPT_RANGE, range.c_str());
  set(CURLOPT_WRITEFUNCTION, &on_data);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));

  const CURLcode code = curl.perform(handle.get());
  if (std::fflush(file.get()) != 0 && transfer.write_error == 0) transfer.write_error = errno;
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.stopped) raise<Error>("{}: stopped; getting it again goes on there", part);
  if (transfer.write_error != 0) cannot_write(transfer.write_error);
  const long status = transfer.status();
  if (status == 416) return;  // nothing follows what is there: the checksum decides
  if (status >= 400) raise<TransferError>("{}: the server answers {}", url, status);
  if (code != CURLE_OK)
    raise<TransferError>("{}: {} ({} bytes came)", url, curl.text(code), transfer.done);
}

}  // namespace brim::data

#else

namespace brim::data {

bool built_with_curl() { return false; }

void download(const std::string&, const std::string&, const DownloadProgress&) {
  raise<FileError>(
      "[data] this build of brim cannot download; install libcurl4-openssl-dev and rebuild, or "
      "download the files yourself (docs/DATA.md says which)");
}

}  // namespace brim::data

#endif
