#include "train/checkpoint_shards.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/json_text.h"
#include "io/shard_index.h"
#include "train/checkpoint_json.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;

/// Bytes of a file from which it is cut.
constexpr int64_t kLarge = 64 << 10;

int64_t bytes_of(const Tensor& t) {
  return t.defined() ? t.numel() * static_cast<int64_t>(size_of(t.dtype())) : 0;
}

/// Which rank writes each tensor: runs of them with about as many bytes each.
std::vector<int> ranks_of(const StateDict& tensors, int64_t all, int size) {
  std::vector<int> ranks;
  int64_t before = 0;
  for (const auto& [name, t] : tensors) {
    const int64_t middle = before + bytes_of(t) / 2;
    ranks.push_back(static_cast<int>(std::min<int64_t>(size - 1, middle * size / all)));
    before += bytes_of(t);
  }
  return ranks;
}

}  // namespace

CheckpointShards::CheckpointShards(dist::ProcessGroup& group, const std::string& folder)
    : group_(group.duplicate(/*timeout=*/0)) {  // a disk may be slow; who is dead is noticed
  std::error_code error;
  const std::string own = folder.empty() ? "" : fs::absolute(folder, error).string();
  folder_ = group_->all_gather_text(leads() ? own : "")[0];
  if (folder_.empty()) return;
  const std::vector<std::string> seen =
      group_->all_gather_text(fs::is_directory(folder_, error) ? "seen" : "");
  for (size_t r = 0; r < seen.size(); ++r)
    BRIM_CHECK(!seen[r].empty(), FileError,
               "[checkpoint] rank {} sees no folder {}; put the run on a file system that all "
               "hosts share, or leave sharded checkpoints out (CheckpointOptions::sharded)",
               r, folder_);
}

void CheckpointShards::cut(std::vector<TensorFile>& files, int64_t steps) {
  auto layout = static_cast<uint64_t>(steps);
  const int size = group_->size(), own = group_->rank();
  std::vector<TensorFile> kept;
  for (TensorFile& file : files) {
    int64_t all = 0;
    for (const auto& [name, t] : file.tensors) all += bytes_of(t);
    if (!file.may_be_cut || all < kLarge) {
      if (leads()) kept.push_back(std::move(file));
      continue;
    }
    const std::vector<int> ranks = ranks_of(file.tensors, all, size);
    io::ShardIndex index;
    StateDict part;
    size_t i = 0;
    for (auto& [name, t] : file.tensors) {
      const int rank = ranks[i++];
      const std::string tensor =
          fmt::format("{} {} {}", name, t.shape().str(), brim::name(t.dtype()));
      layout = splitmix64(layout ^ xxh64(tensor.data(), tensor.size(), 0));
      index.tensors_of[io::shard_name(file.name, rank + 1, size)].push_back(name);
      if (rank == own) part.emplace(name, std::move(t));
    }
    const std::string name = io::shard_name(file.name, own + 1, size);
    TensorFile shard{name.substr(0, name.rfind('.')), std::move(part), file.metadata};
    if (leads()) {
      shard.index_name = file.name + ".safetensors" + std::string(io::kIndexSuffix);
      shard.index = io::shard_index_text(index, static_cast<uint64_t>(all));
    }
    if (leads() || !shard.tensors.empty()) kept.push_back(std::move(shard));
  }
  files = std::move(kept);
  layout_ = fmt::format("{:x}", layout);
}

void CheckpointShards::write(const std::string& path, const std::vector<TensorFile>& files,
                             const std::string& state) {
  told_path_ = true;
  const std::vector<std::string> layouts = group_->all_gather_text(path);
  Json manifest;
  std::exception_ptr error;
  try {
    manifest = write_tensor_files(path, files, state);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const std::vector<std::string> others = group_->all_gather_text("");
  if (error) std::rethrow_exception(error);
  for (size_t r = 1; r < layouts.size(); ++r)
    BRIM_CHECK(layouts[r] == layout_, ValueError,
               "[checkpoint] ranks 0 and {} have other modules or optimizers, or save at other "
               "steps; let all do the same, or leave sharded checkpoints out "
               "(CheckpointOptions::sharded)",
               r);
  for (size_t r = 1; r < others.size(); ++r) {
    const Json entries = parse_json<Json>(others[r]);
    BRIM_CHECK(entries.is_object(), FileError, "rank {}: {}", r, others[r]);
    manifest.update(entries);
  }
  write_manifest(path, manifest);
}

void CheckpointShards::finish(const std::string& error) {
  if (!std::exchange(told_path_, false)) {  // there was no folder to write into
    (void)group_->all_gather_text("");
    (void)group_->all_gather_text("");
  }
  (void)group_->all_gather_text(error);
}

void CheckpointShards::follow(const std::vector<TensorFile>& files) {
  const std::string path = group_->all_gather_text(layout_)[0];
  std::string done = "{}";
  std::exception_ptr own;  // no file's
  if (!path.empty()) {
    try {
      done = write_tensor_files(path, files, "").dump();
    } catch (const FileError& e) {
      done = e.what();
    } catch (const std::exception& e) {
      done = e.what();
      own = std::current_exception();
    }
  }
  (void)group_->all_gather_text(done);
  const std::string error = group_->all_gather_text("")[0];
  if (own) std::rethrow_exception(own);
  BRIM_CHECK(error.empty(), FileError, "{}", error);
}

void write_checkpoint_files(CheckpointShards* together, const std::string& path,
                            const std::vector<TensorFile>& files, const std::string& state) {
  if (!together)
    write_checkpoint_files(path, files, state);
  else if (together->leads())
    together->write(path, files, state);
  else
    together->follow(files);
}

}  // namespace brim::train
