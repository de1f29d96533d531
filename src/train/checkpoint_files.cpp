// See checkpoint_files.h.
#include "train/checkpoint_files.h"

#include <brim/autograd/autograd.h>
#include <brim/core/allocator.h>

#include <deque>
#include <filesystem>
#include <map>
#include <utility>

#include "core/json_text.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "io/regular_file.h"
#include "io/safetensors_writer.h"
#include "io/shard_index.h"
#include "ops/memory/copy.h"
#include "train/checkpoint_json.h"

namespace brim::train {

Json read_checkpoint_json(const std::string& path) {
  const io::RegularFile file(path, "checkpoint", "a file of the checkpoint, which is damaged");
  BRIM_CHECK(file.bytes() <= kMaxStateBytes, FileError,
             "[checkpoint] {} holds {} bytes, more than the {} it may; the checkpoint is damaged",
             path, file.bytes(), kMaxStateBytes);
  std::string text(file.bytes(), '\0');
  file.read(text.data(), text.size(), 0);
  Json json = parse_json<Json>(text);
  BRIM_CHECK(json.is_object(), FileError,
             "[checkpoint] {} is no JSON object; the checkpoint is damaged", path);
  return json;
}

void check_format(uint64_t format, const std::string& path) {
  BRIM_CHECK(format == kCheckpointFormat, FileError,
             "[checkpoint] {} is of format {}, and this brim reads format {}; go on with the brim "
             "that wrote it, or start anew",
             path, format, kCheckpointFormat);
}

BestCheckpoint read_best(const Json& json, const std::string& path) {
  return {.steps = json_count(json, "best_steps", path),
          .score = json_field<double>(json, "best_loss", path)};
}

RandomKey read_random(const Json& json, const std::string& path) {
  return {.seed = json_field<uint64_t>(json, "random_seed", path),
          .offset = json_field<uint64_t>(json, "random_offset", path)};
}

int64_t json_count(const Json& json, const char* key, const std::string& path) {
  constexpr int64_t kMany = int64_t{1} << 60;
  const auto value = json_field<uint64_t>(json, key, path);
  BRIM_CHECK(value <= kMany, FileError,
             "[checkpoint] {}: '{}' is out of range; the checkpoint is damaged", path, key);
  return static_cast<int64_t>(value);
}

Json write_tensor_files(const std::string& path, const std::vector<TensorFile>& files,
                        const std::string& state) {
  BRIM_CHECK(state.size() < kMaxStateBytes, FileError,
             "[checkpoint] {}/{} would hold {} bytes, more than the {} that are read back; use "
             "shorter class names",
             path, kStateFile, state.size(), kMaxStateBytes);
  struct Part {
    std::string name;
    io::StreamHash hash;
    io::AtomicFile file;
    Part(const std::string& folder, const std::string& file_name)
        : name(file_name), file(folder + "/" + name, io::Links::follow, io::Cache::bypass) {
      file.hash_into(hash);
    }
  };
  std::deque<Part> parts;
  const auto begin = [&](const std::string& name) -> io::AtomicFile& {
    return parts.emplace_back(path, name).file;
  };
  for (const TensorFile& file : files) {
    io::write_safetensors(begin(file.name + ".safetensors"), file.tensors, file.metadata);
    if (!file.index.empty()) begin(file.index_name).write(file.index);
  }
  if (!state.empty()) begin(kStateFile).write(state);
  for (Part& part : parts) part.file.start_writeback();
  Json manifest = Json::object();
  for (Part& part : parts) {
    part.file.commit(io::FolderSync::later);
    const io::FileHash hash = part.hash.digest();
    manifest[part.name] = {{"bytes", hash.bytes}, {"xxh64", hash.hex}};
  }
  return manifest;
}

void write_manifest(const std::string& path, const Json& manifest) {
  io::write_file_atomically(path + "/" + kManifestFile, manifest.dump(2) + "\n");
}

void write_checkpoint_files(const std::string& path, const std::vector<TensorFile>& files,
                            const std::string& state) {
  write_manifest(path, write_tensor_files(path, files, state));
}

namespace {

StateDict copies_of(const StateDict& state) {
  const NoGrad guard;
  StateDict copies;
  std::map<std::string, std::pair<std::vector<Tensor>, std::vector<Tensor>>> by_device;
  for (const auto& [name, t] : state) {
    if (!t.defined()) {  // what writes them says so
      copies[name] = t;
    } else if (t.device().is_cpu()) {
      copies[name] = t.detach().clone();
    } else {
      copies[name] = Tensor::empty(t.shape(), t.dtype(), Device::cpu());
      auto& [from, to] = by_device[t.device().str()];
      from.push_back(t.detach().contiguous());
      to.push_back(copies[name]);
    }
  }
  for (const auto& [device, tensors] : by_device)
    ops::copy_between_devices(tensors.first, tensors.second);
  return copies;
}

}  // namespace

bool copy_to_host(const std::vector<StateDict*>& states) {
  int64_t bytes = 0;
  for (const StateDict* state : states)
    for (const auto& [name, t] : *state)
      if (t.defined()) bytes += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
  const MemoryStats host = Allocator::of(Device::cpu()).stats();
  if (host.limit > 0 && host.peak_live + bytes > host.limit) return false;
  std::vector<StateDict> copies;
  try {
    for (const StateDict* state : states) copies.push_back(copies_of(*state));
  } catch (const OutOfMemory&) {
    return false;
  }
  for (size_t i = 0; i < states.size(); ++i) *states[i] = std::move(copies[i]);
  return true;
}

void verify_checkpoint(const std::string& path, std::span<const char* const> required) {
  const std::string manifest_path = path + "/" + kManifestFile;
  const Json manifest = read_checkpoint_json(manifest_path);
  const auto check_listed = [&](const std::string& name) {
    BRIM_CHECK(manifest.contains(name) || manifest.contains(name + std::string(io::kIndexSuffix)),
               FileError, "[checkpoint] {} does not list {}; the checkpoint is damaged",
               manifest_path, name);
  };
  check_listed(kStateFile);
  for (const char* name : required) check_listed(name);
  for (const auto& [name, entry] : manifest.items())
    if (name.ends_with(io::kIndexSuffix) && name.find('/') == std::string::npos) {
      const std::string whole = path + "/" + name.substr(0, name.size() - io::kIndexSuffix.size());
      std::error_code ignored;
      BRIM_CHECK(!std::filesystem::exists(std::filesystem::symlink_status(whole, ignored)),
                 FileError,
                 "[checkpoint] {} is in the way of its shards; the checkpoint is damaged", whole);
      for (const auto& [shard, _] : io::read_shard_index(path + "/" + name).tensors_of)
        check_listed(shard);
    }
  for (const auto& [name, entry] : manifest.items()) {
    BRIM_CHECK(entry.is_object() && name.find('/') == std::string::npos, FileError,
               "[checkpoint] {} lists no valid '{}'; the checkpoint is damaged", manifest_path,
               name);
    const std::string file = path + "/" + name;
    const io::FileHash hash = io::hash_file(file);
    const auto bytes = json_field<uint64_t>(entry, "bytes", manifest_path);
    BRIM_CHECK(
        hash.bytes == bytes, FileError,
        "[checkpoint] {} holds {} bytes, but the manifest says {}; the checkpoint is damaged", file,
        hash.bytes, bytes);
    BRIM_CHECK(hash.hex == json_field<std::string>(entry, "xxh64", manifest_path), FileError,
               "[checkpoint] {} differs from the manifest's hash; the checkpoint is damaged", file);
  }
}

}  // namespace brim::train
