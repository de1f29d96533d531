// A checkpoint is a folder: files of tensors, state.json, and manifest.json, which lists size and
// XXH64 of the others. What is in them: run_state.h (of a Trainer), checkpoint.cpp (of a loop of
// one's own). How checkpoints come and go in a run's folder: run_folder.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <brim/core/state_dict.h>
#include <brim/io/safetensors.h>

namespace brim::train {

inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";

/// One file of tensors, `name`.safetensors.
struct TensorFile {
  std::string name;
  StateDict tensors;
  io::Metadata metadata;
  bool may_be_cut = false;                  ///< all ranks have the same tensors in it
  std::string index_name = {}, index = {};  ///< a text beside it, of which file has what; or ""
};

/// Writes all files into the empty folder `path`, each of them and the folder synced; `state` is
/// the text of state.json. Throws FileError.
void write_checkpoint_files(const std::string& path, const std::vector<TensorFile>& files,
                            const std::string& state);

/// The parts of that: the files of tensors and, unless it is "", state.json, each of them synced,
/// whose entries in the manifest are returned; and the manifest and the folder.
nlohmann::ordered_json write_tensor_files(const std::string& path,
                                          const std::vector<TensorFile>& files,
                                          const std::string& state);
void write_manifest(const std::string& path, const nlohmann::ordered_json& manifest);

/// Replaces all tensors by copies on the host, which nobody else writes. Returns whether there is
/// memory for them beside what was in use at most; if not, nothing changes.
bool copy_to_host(const std::vector<StateDict*>& states);

/// Checks the folder against its manifest, which must list state.json and `required`, or the index
/// of its shards: every byte is read. Throws FileError naming the file that is missing or damaged.
void verify_checkpoint(const std::string& path, std::span<const char* const> required = {});

}  // namespace brim::train
