// The runtime's sources for the kernels of one engine: files that name others bring them along.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <vector>

#include <brim/deploy/engine.h>

#include "core/check.h"
#include "core/write_cure.h"
#include "io/atomic_file.h"

namespace brim::deploy {
namespace {

namespace fs = std::filesystem;

struct Kernel {
  const char* name;
  const char* op;  ///< in rt/step.h
  std::vector<const char*> files;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<const char*> kConvolution = {
      "ops/convolution.cpp", "kernels/convolution.cpp", "kernels/depthwise.cpp",
      "kernels/winograd.cpp"};
  static const std::vector<const char*> kPool = {"ops/pool.cpp", "kernels/pool.cpp"};
  static const std::vector<const char*> kElementwise = {"ops/elementwise.cpp",
                                                        "kernels/elementwise.cpp"};
  static const std::vector<const char*> kInt8 = {"ops/int8.cpp", "kernels/int8_convolution.cpp",
                                                 "kernels/int8_winograd.cpp",
                                                 "kernels/quantize.cpp"};
  static const std::vector<Kernel> all = {
      {"convolution", "kConvolutionOp", kConvolution},
      {"winograd", "kWinogradOp", kConvolution},
      {"depthwise", "kDepthwiseOp", kConvolution},
      {"plane_convolution",
       "kPlaneConvolutionOp",
       {"ops/plane_convolution.cpp", "kernels/plane_convolution.cpp"}},
      {"max_pool", "kMaxPoolOp", kPool},
      {"average_pool", "kAveragePoolOp", kPool},
      {"unary", "kUnaryOp", kElementwise},
      {"binary", "kBinaryOp", kElementwise},
      {"softmax", "kSoftmaxOp", kElementwise},
      {"layer_norm", "kLayerNormOp", kElementwise},
      {"quantize", "kQuantizeOp", kInt8},
      {"quantize_colours", "kQuantizeColoursOp", kInt8},
      {"int8_convolution", "kInt8ConvolutionOp", kInt8},
      {"int8_winograd", "kInt8WinogradOp", kInt8},
      {"copy", "kCopyOp", {"ops/copy.cpp"}},
      {"gather", "kGatherOp", {"ops/copy.cpp"}},
      {"resize", "kResizeOp", {"ops/resize.cpp", "kernels/resize.cpp"}},
      {"picture", "kPictureOp", {"ops/picture.cpp", "kernels/picture.cpp"}},
      {"top", "kTopOp", {"ops/choice.cpp"}},
      {"argmax", "kArgmaxOp", {"ops/choice.cpp"}},
      {"matmul",
       "kMatmulOp",
       {"ops/matmul.cpp", "kernels/convolution.cpp", "kernels/elementwise.cpp"}}};
  return all;
}

struct Target {
  const char* name;
  const char* flags;
};
constexpr Target kTargets[] = {{"native", "-march=native"},
                               {"x86-64-v2", "-march=x86-64-v2 -maes -mpclmul"},
                               {"x86-64-v3", "-march=x86-64-v3 -maes -mpclmul"},
                               {"x86-64-v4", "-march=x86-64-v4 -maes -mpclmul"},
                               {"armv8-a", "-march=armv8-a+crypto"},
                               {"armv8.2-a", "-march=armv8.2-a+crypto+dotprod+fp16"}};

const char* flags_of(const std::string& target) {
  std::vector<std::string_view> names;
  for (const Target& t : kTargets) {
    if (target == t.name) return t.flags;
    names.emplace_back(t.name);
  }
  raise<ValueError>("[engine] the target '{}' is none of {}", target, fmt::join(names, ", "));
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  BRIM_CHECK(file.is_open(), FileError,
             "[engine] {} is not there: the runtime's sources are installed with brim",
             path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Copies files, and what they include of brim.
class Copier {
 public:
  Copier(fs::path from, fs::path to) : from_(std::move(from)), to_(std::move(to)) {}

  /// A path below the root: src/.. or include/..
  void copy(const std::string& path) {
    if (!copied_.insert(path).second) return;
    const std::string text = text_of(from_ / path);
    write(path, text);
    static const std::regex kInclude("#include [<\"]([^>\"]+)[>\"]");
    for (std::sregex_iterator at(text.begin(), text.end(), kInclude), end; at != end; ++at) {
      const std::string name = (*at)[1].str();
      for (const char* root : {"src/", "include/"})
        if (fs::exists(from_ / root / name)) copy(root + name);
      const bool is_own = at->str().ends_with('"') && name.find('/') != std::string::npos;
      BRIM_CHECK(!is_own || copied_.contains("src/" + name), FileError,
                 "[engine] {} includes {}, which is not in {}: the sources of the runtime are not "
                 "whole; install brim anew",
                 path, name, from_.string());
    }
  }
  void write(const std::string& path, const std::string& text) const {
    make_folders("engine", (to_ / path).parent_path());
    io::write_file_atomically(to_ / path, text);
  }
  /// Those that are compiled.
  std::vector<std::string> sources() const {
    std::vector<std::string> all;
    for (const std::string& path : copied_)
      if (path.ends_with(".cpp")) all.push_back(path);
    return all;
  }

 private:
  fs::path from_, to_;
  std::set<std::string> copied_;
};

std::string table_of(const std::vector<std::string>& ops) {
  return fmt::format(R"(// The ops that one engine needs.
#include "rt/step.h"

namespace brim::rt {{

const Op* const kOps[] = {{{}, nullptr}};

}}  // namespace brim::rt
)",
                     fmt::join(ops, ", "));
}

std::string build_of(const std::vector<std::string>& sources, const std::string& target) {
  std::vector<std::string> tiles;
  for (const std::string& path : sources)
    if (path.starts_with("src/rt/kernels/") && !path.ends_with("pool.cpp") &&
        !path.ends_with("picture.cpp") && !path.ends_with("plane_convolution.cpp") &&
        !path.ends_with("resize.cpp"))
      tiles.push_back(path);
  std::string unrolled;
  if (!tiles.empty())
    unrolled = fmt::format(
        "# Tiles of sums stay in registers only where all their loops are unrolled; loops over\n"
        "# formulas are to be vectorised.\n"
        "set_source_files_properties({} PROPERTIES COMPILE_OPTIONS -O3)\n",
        fmt::join(tiles, " "));
  return fmt::format(R"(# The runtime of one engine, for {0}: libbrim_rt.so and libbrim_rt.a.
cmake_minimum_required(VERSION 3.16)
project(brim_rt CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_path(HIGHWAY_INCLUDE_DIR hwy/highway.h REQUIRED) # headers alone
find_package(Threads REQUIRED)
set(sources {1} src/rt/ops.cpp)
add_library(brim_rt SHARED ${{sources}})
add_library(brim_rt_static STATIC ${{sources}})
set_target_properties(brim_rt_static PROPERTIES OUTPUT_NAME brim_rt POSITION_INDEPENDENT_CODE ON)
foreach(target brim_rt brim_rt_static)
  target_compile_features(${{target}} PRIVATE cxx_std_20)
  target_include_directories(${{target}} PUBLIC include PRIVATE src ${{HIGHWAY_INCLUDE_DIR}})
  target_compile_definitions(${{target}} PRIVATE HWY_COMPILE_ONLY_STATIC)
  # Tables for unwinding would be 5 kB that only debuggers read: nothing here throws.
  target_compile_options(${{target}} PRIVATE {2} -O2 -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti
                                           -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -fvisibility=hidden
                                           -fvisibility-inlines-hidden)
  target_link_libraries(${{target}} PRIVATE Threads::Threads)
endforeach()
{3}target_link_options(brim_rt PRIVATE LINKER:--gc-sections LINKER:--as-needed -static-libgcc)
)",
                     target, fmt::join(sources, " "), flags_of(target), unrolled);
}

}  // namespace

void save_runtime(const std::string& sources, const std::string& folder,
                  const RuntimeOptions& options) {
  (void)flags_of(options.target);
  std::vector<std::string> ops;
  std::set<std::string> files = {"src/rt/isa.cpp",         "src/rt/model.cpp",
                                 "src/rt/session.cpp",     "src/rt/create_session.cpp",
                                 "src/rt/step.cpp",        "src/rt/threads.cpp",
                                 "src/rt/verify.cpp",      "src/core/hash.cpp",
                                 "src/core/cpu_quota.cpp", "include/brim_rt.h",
                                 "include/brim_rt.hpp"};
  for (const std::string& name : options.kernels) {
    const auto kernel =
        std::ranges::find_if(kernels(), [&](const Kernel& k) { return name == k.name; });
    BRIM_CHECK(kernel != kernels().end(), ValueError, "[engine] there is no kernel '{}'", name);
    ops.push_back(std::string("&") + kernel->op);
    for (const char* file : kernel->files) files.insert(std::string("src/rt/") + file);
  }
  BRIM_CHECK(!ops.empty(), ValueError, "[engine] a runtime without kernels");
  std::error_code error;
  BRIM_CHECK(!fs::exists(folder, error) || fs::is_empty(folder, error), FileError,
             "[engine] {} is there, and is no empty folder; name a new one", folder);
  Copier copier(sources, folder);
  for (const std::string& file : files) copier.copy(file);
  copier.write("src/rt/ops.cpp", table_of(ops));
  copier.write("CMakeLists.txt", build_of(copier.sources(), options.target));
}

}  // namespace brim::deploy
