// Versions come from the libraries' headers, so asking for them loads nothing. libmd's has none.
#include "command/libraries.h"

#include <brim/version.h>
#include <fmt/core.h>
#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <toml++/toml.h>
#include <xxhash.h>
#include <zlib.h>
#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backend/cpu/runtime/isa.h"
#include "command/report_page/embedded.h"
#if BRIM_HAVE_JPEG
#include <cstdio>
// jpeglib.h uses FILE without including it.
#include <jpeglib.h>
#endif
#if BRIM_HAVE_PNG
#include <png.h>
#endif
#if BRIM_HAVE_ARCHIVE
#include <archive.h>
#endif
#if BRIM_HAVE_CURL
#include <curl/curlver.h>
#endif
#if BRIM_HAVE_CURSES
#define NCURSES_NOMACROS 1
#include <curses.h>
#endif

#define BRIM_TEXT_(x) #x
#define BRIM_TEXT(x) BRIM_TEXT_(x)

namespace brim::command {
namespace {

/// Of its first lines: "Chart.js v3.9.1".
std::string chart_js_version() {
  constexpr std::string_view kBefore = "Chart.js v";
  const std::string_view head = page::chart_js().substr(0, 200);
  const size_t at = head.find(kBefore);
  if (at == std::string_view::npos) return page::chart_js().empty() ? "" : "-";
  const std::string_view rest = head.substr(at + kBefore.size());
  return std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
}

}  // namespace

std::vector<Library> libraries() {
  std::vector<Library> all = {
      {"oneDNN", true,
       fmt::format("{}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH),
       "convolutions on the CPU", "libdnnl-dev"},
      {"Highway", true, fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH),
       "vector instructions chosen at run time", "libhwy-dev"},
      {"OpenMP", true, BRIM_TEXT(_OPENMP), "threads inside an op", "libgomp1"},
      {"fmt", true,
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100),
       "messages", "libfmt-dev"},
      {"nlohmann-json", true,
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                   NLOHMANN_JSON_VERSION_PATCH),
       "safetensors headers, --json", "nlohmann-json3-dev"},
      {"toml++", true, fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH),
       "recipes", "libtomlplusplus-dev"},
      {"zlib", true, ZLIB_VERSION, "checksums of .pth files, MNIST files that end in .gz",
       "zlib1g-dev"},
      {"xxHash", true,
       fmt::format("{}.{}.{}", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE),
       "checksums of checkpoints", "libxxhash-dev"},
      {"libmd", true, "-", "checksums of data sets", "libmd-dev"},
      {"CLI11", true, CLI11_VERSION, "this command", "libcli11-dev"}};
  const auto optional = [&](const char* name, const char* version, const char* purpose,
                            const char* package) {
    all.push_back({name, *version != '\0', version, purpose, package});
  };
#if BRIM_HAVE_JPEG
#ifdef LIBJPEG_TURBO_VERSION
  constexpr const char* kJpeg = BRIM_TEXT(LIBJPEG_TURBO_VERSION);
#else
  constexpr const char* kJpeg = BRIM_TEXT(JPEG_LIB_VERSION);
#endif
#else
  constexpr const char* kJpeg = "";
#endif
  optional("libjpeg-turbo", kJpeg, "JPEG images", "libjpeg-dev");
#if BRIM_HAVE_PNG
  optional("libpng", PNG_LIBPNG_VER_STRING, "PNG images", "libpng-dev");
#else
  optional("libpng", "", "PNG images", "libpng-dev");
#endif
#if BRIM_HAVE_ARCHIVE
  optional("libarchive", ARCHIVE_VERSION_ONLY_STRING, "tar archives of images", "libarchive-dev");
#else
  optional("libarchive", "", "tar archives of images", "libarchive-dev");
#endif
#if BRIM_HAVE_CURL
  optional("libcurl", LIBCURL_VERSION, "brim data get", "libcurl4-openssl-dev");
#else
  optional("libcurl", "", "brim data get", "libcurl4-openssl-dev");
#endif
#ifdef BRIM_HTTPLIB_VERSION
  optional("cpp-httplib", BRIM_HTTPLIB_VERSION, "brim train --metrics", "libcpp-httplib-dev");
#else
  optional("cpp-httplib", "", "brim train --metrics", "libcpp-httplib-dev");
#endif
#if BRIM_HAVE_CURSES
  optional("ncurses", NCURSES_VERSION, "brim top", "libncurses-dev");
#else
  optional("ncurses", "", "brim top", "libncurses-dev");
#endif
  optional("Chart.js", chart_js_version().c_str(), "brim report", "libjs-chart.js");
  return all;
}

nlohmann::ordered_json build_versions() {
  nlohmann::ordered_json versions;
  versions["brim"] = BRIM_VERSION;
#if defined(__clang__)
  versions["compiler"] = fmt::format("clang {}", __clang_version__);
#else
  versions["compiler"] = fmt::format("gcc {}", __VERSION__);
#endif
  versions["isa"] =
      cpu::arithmetic();  // of the CPU's kernels: results differ by it in the last bits
  for (const Library& l : libraries())
    if (l.found) versions[l.name] = l.version;
  return versions;
}

}  // namespace brim::command
