// Source::open: finds out by content what a path holds.
#include <brim/data/source.h>

#include <charconv>
#include <filesystem>
#include <fstream>

#include "core/check.h"
#include "data/source/archive_reader.h"
#include "data/source/arrays.h"
#include "data/source/cifar10.h"
#include "data/source/class_names.h"
#include "data/source/idx.h"
#include "data/source/shards.h"
#include "diag/span.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAccepted =
    "accepted are: shapes10, a CIFAR-10 binary folder or .bin file, a folder of MNIST's IDX files, "
    "a folder or tar (plain, gz, xz, zst) of CLASS/x.jpg or train/CLASS/x.jpg + "
    "test/CLASS/x.jpg, tar shards like x-{000000..000009}.tar, a safetensors file with images and "
    "labels";

// The seed of "shapes10" or "shapes10:SEED"; false if `where` is something else.
bool parse_shapes10(const std::string& where, uint64_t& seed) {
  constexpr std::string_view kName = "shapes10";
  seed = 0;
  if (where == kName) return true;
  if (!where.starts_with("shapes10:")) return false;
  const char* const end = where.data() + where.size();
  const auto [at, error] = std::from_chars(where.data() + kName.size() + 1, end, seed);
  BRIM_CHECK(error == std::errc() && at == end, ValueError,
             "[data] {}: the seed after the colon must be a whole number from 0 to 2^64-1", where);
  return true;
}

std::shared_ptr<const Source> open_by_content(const std::string& where, Split split,
                                              const OpenProgress& progress) {
  std::error_code error;
  const fs::file_status status = fs::status(where, error);
  uint64_t seed = 0;
  if (!fs::exists(status) && parse_shapes10(where, seed)) return open_shapes10(split, seed);
  if (!fs::exists(status) && is_shard_pattern(where)) return open_shards(where, split, progress);
  if (status.type() == fs::file_type::none) {
    raise<FileError>("[data] {}: cannot look at it: {}", where, error.message());
  }
  BRIM_CHECK(fs::exists(status), FileError, "[data] {}: no such file or folder; {}", where,
             kAccepted);
  if (fs::is_directory(status)) {
    if (is_cifar10_folder(where)) return open_cifar10(where, split);
    if (is_idx_folder(where)) return open_idx(where, split, progress);
    return open_image_folder(where, split);
  }
  BRIM_CHECK(fs::is_regular_file(status), FileError, "[data] {}: neither file nor folder; {}",
             where, kAccepted);
  BRIM_CHECK(!is_idx_file(where), FileError,
             "[data] {}: one of the four files of an MNIST data set; pass the folder that holds "
             "them",
             where);
  uint8_t head[512] = {};
  std::ifstream in(where, std::ios::binary);
  BRIM_CHECK(in.good(), FileError, "[data] {}: cannot open for reading", where);
  in.read(reinterpret_cast<char*>(head), sizeof head);
  const std::string extension = fs::path(where).extension().string();
  if (looks_like_archive({head, static_cast<size_t>(in.gcount())}) || extension == ".tar") {
    return open_image_tar(where, split, progress);
  }
  if (extension == ".bin") return open_cifar10(where, split);
  if (extension == ".safetensors" || is_safetensors(where)) return open_arrays(where, split);
  raise<FileError>("[data] {}: not a data set; {}", where, kAccepted);
}

}  // namespace

ImageView Source::view(int64_t) const { return {}; }

void Source::prefetch(int64_t) const noexcept {}

std::span<const uint8_t> Source::file(int64_t, std::vector<uint8_t>&) const { return {}; }

const char* to_string(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::test:
      return "test";
    case Split::all:
      return "all";
  }
  return "?";
}

Split parse_split(const std::string& word) {
  for (const Split split : {Split::train, Split::test, Split::all}) {
    if (word == to_string(split)) return split;
  }
  raise<ValueError>("[data] unknown split \"{}\"; expected train, test or all", word);
}

std::shared_ptr<const Source> Source::open(const std::string& where, Split split,
                                           const OpenProgress& progress) {
  const diag::Span span("open", diag::Cause::input);
  const auto told = [&progress](double fraction) {
    const diag::Span callback("progress", diag::Cause::user);
    return progress(fraction);
  };
  std::shared_ptr<const Source> source =
      open_by_content(where, split, progress ? OpenProgress(told) : OpenProgress());
  const std::string wrong = wrong_class_names(source->classes());
  BRIM_CHECK(wrong.empty(), FileError, "[data] {}: {}", where, wrong);
  return source;
}

}  // namespace brim::data
