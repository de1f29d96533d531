// Reading checks everything against the size of the file; writing is atomic.
#include <brim/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "core/check.h"
#include "diag/span.h"
#include "io/atomic_file.h"
#include "io/input_bytes.h"
#include "io/safetensors_header.h"
#include "io/safetensors_writer.h"
#include "io/shard_index.h"

namespace brim::io {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

/// A file of tensors.
struct Shard {
  InputBytes input;
  SafeTensorsHeader header;

  explicit Shard(InputBytes bytes) : input(std::move(bytes)) {
    const std::string& path = input.path();
    const uint64_t file_bytes = input.size();
    BRIM_CHECK(file_bytes >= 8, FileError,
               "[safetensors] {} holds {} bytes; expected at least the 8 of the header's length",
               path, file_bytes);
    uint64_t length = 0;
    input.read(&length, 8, 0);
    BRIM_CHECK(length <= kMaxHeader, FileError,
               "[safetensors] {}: a header of {} bytes is above the format's limit of {}; this is "
               "no safetensors file",
               path, length, kMaxHeader);
    BRIM_CHECK(length <= file_bytes - 8, FileError,
               "[safetensors] {}: the header should have {} bytes, but only {} follow; the file is "
               "truncated or no safetensors file",
               path, length, file_bytes - 8);
    std::string json(length, '\0');
    input.read(json.data(), length, 8);
    header = parse_header(json, 8 + length, file_bytes - 8 - length, path);
  }
  explicit Shard(const std::string& path)
      : Shard(InputBytes(path, "safetensors", "a readable .safetensors file")) {}
};

/// The index that lists the shards of `path`; "" where it is a file of its own.
std::string index_of(const std::string& path) {
  if (path.ends_with(kIndexSuffix)) return path;
  std::error_code ignored;
  const std::string index = path + std::string(kIndexSuffix);
  const bool is_sharded =
      !std::filesystem::exists(path, ignored) && std::filesystem::exists(index, ignored);
  return is_sharded ? index : "";
}

}  // namespace

struct SafeTensors::State {
  std::string path;
  std::deque<Shard> shards;
  std::vector<std::string> names;
  std::unordered_map<std::string, const Shard*> shard_of;  // by tensor

  explicit State(InputBytes bytes) : path(bytes.path()) {
    shards.emplace_back(std::move(bytes));
    names = shards[0].header.names;
    for (const std::string& name : names) shard_of[name] = &shards[0];
  }
  explicit State(const ShardIndex& index) : path(index.path) {
    for (const auto& [file, tensors] : index.tensors_of) {
      const Shard& shard =
          shards.emplace_back((std::filesystem::path(path).parent_path() / file).string());
      for (const std::string& name : tensors)
        BRIM_CHECK(shard.header.tensors.contains(name), FileError,
                   "[safetensors] {}: tensor '{}' is not in {}, which should hold it", path, name,
                   file);
      const std::set<std::string> listed(tensors.begin(), tensors.end());
      for (const std::string& name : shard.header.names)
        if (listed.contains(name)) names.push_back(name), shard_of[name] = &shard;
    }
  }
  const Shard& of(const std::string& name) const {
    const auto it = shard_of.find(name);
    BRIM_CHECK(it != shard_of.end(), FileError, "[safetensors] {} has no tensor '{}' among its {}",
               path, name, names.size());
    return *it->second;
  }
};

SafeTensors::SafeTensors(const std::string& path)
    : state_([&] {
        const diag::Scope scope("load", diag::Cause::file_read);
        const std::string index = index_of(path);
        return index.empty() ? std::make_unique<State>(
                                   InputBytes(path, "safetensors", "a readable .safetensors file"))
                             : std::make_unique<State>(read_shard_index(index));
      }()) {}

SafeTensors::SafeTensors(std::span<const uint8_t> bytes, const std::string& name)
    : state_(std::make_unique<State>(InputBytes(bytes, name))) {}

SafeTensors::~SafeTensors() = default;
SafeTensors::SafeTensors(SafeTensors&&) noexcept = default;
SafeTensors& SafeTensors::operator=(SafeTensors&&) noexcept = default;

const std::vector<std::string>& SafeTensors::names() const { return state_->names; }
const Metadata& SafeTensors::metadata() const {
  static const Metadata none;
  return state_->shards.empty() ? none : state_->shards[0].header.metadata;
}
bool SafeTensors::contains(const std::string& name) const {
  return state_->shard_of.contains(name);
}

const TensorInfo& SafeTensors::info(const std::string& name) const {
  return state_->of(name).header.tensors.at(name);
}

Tensor SafeTensors::load(const std::string& name, Device device) const {
  const Shard& shard = state_->of(name);
  const TensorInfo& t = shard.header.tensors.at(name);
  BRIM_CHECK(t.dtype, FileError,
             "[safetensors] {}: tensor '{}' is {}, which brim has no dtype for; convert the file",
             shard.input.path(), name, t.dtype_name);
  const diag::Scope scope("load", diag::Cause::file_read);
  Tensor x = Tensor::empty(t.shape, *t.dtype, Device::cpu());
  shard.input.read(x.raw(), t.bytes, t.offset);
  if (*t.dtype == bool_) {
    const auto* values = static_cast<const uint8_t*>(x.raw());
    BRIM_CHECK(std::all_of(values, values + t.bytes, [](uint8_t v) { return v <= 1; }), FileError,
               "[safetensors] {}: tensor '{}' is BOOL but holds bytes other than 0 and 1; the file "
               "is damaged",
               shard.input.path(), name);
  }
  return x.to(device);
}

TensorMap SafeTensors::load_all(Device device) const {
  TensorMap tensors;
  for (const std::string& name : names()) tensors.emplace(name, load(name, device));
  return tensors;
}

TensorMap load_safetensors(const std::string& path, Device device) {
  const diag::Scope scope("load", diag::Cause::file_read);
  return SafeTensors(path).load_all(device);
}

void write_safetensors(AtomicFile& file, const TensorMap& tensors, const Metadata& metadata) {
  const std::string& path = file.path();
  // Wide types first, so that each tensor lies aligned to its element (as the reference does).
  std::vector<std::pair<std::string, Tensor>> order(tensors.begin(), tensors.end());
  for (const auto& [name, x] : order) {
    BRIM_CHECK(x.defined(), ValueError, "[safetensors] {}: tensor '{}' is undefined", path, name);
    BRIM_CHECK(name != "__metadata__", ValueError,
               "[safetensors] {}: '__metadata__' cannot name a tensor; rename it", path);
    BRIM_CHECK(
        !safetensors_name(x.dtype()).empty(), ValueError,
        "[safetensors] {}: tensor '{}' is {}, which the format has not got; save a .pth file", path,
        name, brim::name(x.dtype()));
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });

  // Put together as text: an ordered_json looks through all its keys for each new one.
  std::string json = "{";
  const auto add = [&](const std::string& key, const auto& value) {
    json += fmt::format("{}{}:{}", json.size() > 1 ? "," : "", nlohmann::json(key).dump(),
                        value.dump());
  };
  try {
    if (!metadata.empty()) add("__metadata__", nlohmann::json(metadata));
    uint64_t at = 0;
    for (const auto& [name, x] : order) {
      const uint64_t end = at + static_cast<uint64_t>(x.numel()) * size_of(x.dtype());
      add(name, nlohmann::ordered_json{
                    {"dtype", safetensors_name(x.dtype())},
                    {"shape", std::vector<int64_t>(x.shape().begin(), x.shape().end())},
                    {"data_offsets", {at, end}}});
      at = end;
    }
  } catch (const nlohmann::json::exception&) {
    raise<ValueError>("[safetensors] {}: a name or a metadata string is not UTF-8", path);
  }
  json += '}';
  while ((8 + json.size()) % 64 != 0) json += ' ';
  const uint64_t length = json.size();
  BRIM_CHECK(length <= kMaxHeader, ValueError,
             "[safetensors] {}: a header of {} bytes is above the format's limit of {}", path,
             length, kMaxHeader);

  file.write(&length, 8);
  file.write(json);
  for (const auto& [name, x] : order) {
    const Tensor host = x.detach().to(Device::cpu()).contiguous();
    file.write(host.raw(), static_cast<size_t>(host.numel()) * size_of(host.dtype()));
  }
}

void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata) {
  const diag::Scope scope("save", diag::Cause::file_write);
  AtomicFile file(path);
  write_safetensors(file, tensors, metadata);
  file.commit();
}

}  // namespace brim::io
