// A checkpoint holds model.safetensors, optimizer.safetensors, schedule.safetensors, state.json and
// manifest.json, which lists size and XXH64 of the others.
#include "train/checkpoint.h"

#include <brim/io/safetensors.h>
#include <brim/version.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "io/atomic_file.h"
#include "io/hash.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors",
                                  "schedule.safetensors", "state.json"};
constexpr std::string_view kPrefix = "checkpoint-";

/// The number in "checkpoint-0003", or -1.
int64_t number_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  const std::string digits = name.substr(kPrefix.size());
  const bool good = !digits.empty() && digits.size() <= 9 &&
                    std::all_of(digits.begin(), digits.end(),
                                [](unsigned char c) { return c >= '0' && c <= '9'; });
  return good ? std::stoll(digits) : -1;
}

Json read_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  BRIM_CHECK(in, FileError, "[checkpoint] {} is missing; the checkpoint is damaged", path);
  std::string text(1 << 20, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  Json json = Json::parse(text, nullptr, false);
  BRIM_CHECK(json.is_object(), FileError,
             "[checkpoint] {} is no JSON object; the checkpoint is damaged", path);
  return json;
}

template <class T>
T field(const Json& json, const char* key, const std::string& path) {
  const auto it = json.find(key);
  bool good = it != json.end();
  if constexpr (std::is_same_v<T, std::string>)
    good = good && it->is_string();
  else
    good = good && it->is_number_unsigned();
  BRIM_CHECK(good, FileError, "[checkpoint] {} has no valid '{}'; the checkpoint is damaged", path,
             key);
  return it->get<T>();
}

bool is_list_of_names(const Json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const Json& entry) { return entry.is_string(); });
}

void check_manifest(const std::string& path) {
  const std::string manifest_path = path + "/manifest.json";
  const Json manifest = read_json(manifest_path);
  for (const char* name : kFiles) {
    const std::string file = path + "/" + name;
    const auto entry = manifest.find(name);
    BRIM_CHECK(entry != manifest.end() && entry->is_object(), FileError,
               "[checkpoint] {} does not list {}; the checkpoint is damaged", manifest_path, name);
    const io::FileHash hash = io::hash_file(file);
    const auto bytes = field<uint64_t>(*entry, "bytes", manifest_path);
    BRIM_CHECK(
        hash.bytes == bytes, FileError,
        "[checkpoint] {} holds {} bytes, but the manifest says {}; the checkpoint is damaged", file,
        hash.bytes, bytes);
    BRIM_CHECK(hash.hex == field<std::string>(*entry, "xxh64", manifest_path), FileError,
               "[checkpoint] {} differs from the manifest's hash; the checkpoint is damaged", file);
  }
}

/// Removes the half-written folder when something goes wrong.
struct Scratch {
  fs::path path;
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

void write_all(const fs::path& at, const Checkpoint& c) {
  io::save_safetensors(at / "model.safetensors", c.model);
  io::save_safetensors(at / "optimizer.safetensors", c.optimizer);
  io::save_safetensors(at / "schedule.safetensors", c.schedule);
  const Json state = {{"version", BRIM_VERSION},      {"name", c.recipe.name},
                      {"epochs", c.epochs},           {"steps", c.steps},
                      {"random_seed", c.random.seed}, {"random_offset", c.random.offset},
                      {"recipe", c.recipe.toml()},    {"classes", c.classes}};
  // A class that is named after a folder may be no UTF-8.
  io::write_file_atomically(at / "state.json",
                            state.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  Json manifest = Json::object();
  for (const char* name : kFiles) {
    const io::FileHash hash = io::hash_file(at / name);
    manifest[name] = {{"bytes", hash.bytes}, {"xxh64", hash.hex}};
  }
  io::write_file_atomically(at / "manifest.json", manifest.dump(2) + "\n");
}

}  // namespace

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  BRIM_CHECK(!error && fs::is_directory(folder, error), FileError,
             "[checkpoint] the folder {} cannot be made: {}; choose another --out", folder,
             error ? error.message() : "a file of that name is there");
  BRIM_CHECK(access(folder.c_str(), W_OK | X_OK) == 0, FileError,
             "[checkpoint] the folder {} is not writable; choose another --out", folder);
}

void save_checkpoint(const std::string& folder, const Checkpoint& c) {
  make_folder(folder);
  const fs::path root(folder);
  const fs::path target = root / fmt::format("{}{:04}", kPrefix, c.epochs);
  Scratch scratch{root / fmt::format(".checkpoint-{:04}.{}.tmp", c.epochs, getpid())};
  std::error_code error;
  fs::remove_all(scratch.path, error);
  BRIM_CHECK(fs::create_directory(scratch.path, error), FileError,
             "[checkpoint] {} cannot be made: {}; check the disk", scratch.path.string(),
             error.message());
  write_all(scratch.path, c);
  io::sync_folder(scratch.path);

  // A folder cannot be renamed over another that holds files.
  Scratch replaced;
  if (fs::exists(target)) {
    replaced.path = root / fmt::format(".checkpoint-{:04}.{}.old", c.epochs, getpid());
    fs::rename(target, replaced.path, error);
  }
  if (!error) fs::rename(scratch.path, target, error);
  if (error && !replaced.path.empty()) {
    std::error_code ignored;
    fs::rename(replaced.path, target, ignored);
    // Whatever became of that: what is left of the old checkpoint is not to be removed.
    replaced.path.clear();
  }
  BRIM_CHECK(!error, FileError, "[checkpoint] {} cannot be put in place: {}; check the disk",
             target.string(), error.message());
  scratch.path.clear();
  io::sync_folder(folder);

  for (const auto& entry : fs::directory_iterator(root, error)) {
    const int64_t number = number_of(entry.path().filename().string());
    std::error_code ignored;
    if (number >= 0 && number < c.epochs) fs::remove_all(entry.path(), ignored);
  }
}

std::string last_checkpoint(const std::string& folder) {
  std::string last;
  int64_t highest = -1;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const int64_t number = number_of(entry.path().filename().string());
    if (number > highest && entry.is_directory(error)) {
      highest = number;
      last = entry.path().string();
    }
  }
  return last;
}

Checkpoint load_checkpoint_state(const std::string& path) {
  const std::string file = path + "/state.json";
  const Json json = read_json(file);
  Checkpoint c;
  c.epochs = static_cast<int64_t>(field<uint64_t>(json, "epochs", file));
  c.steps = static_cast<int64_t>(field<uint64_t>(json, "steps", file));
  BRIM_CHECK(c.epochs >= 0 && c.epochs <= 1'000'000'000 && c.steps >= 0, FileError,
             "[checkpoint] {}: epochs or steps are out of range; the checkpoint is damaged", file);
  c.random = {.seed = field<uint64_t>(json, "random_seed", file),
              .offset = field<uint64_t>(json, "random_offset", file)};
  c.recipe = parse_recipe(field<std::string>(json, "recipe", file), file);
  c.recipe.name = field<std::string>(json, "name", file);
  const auto classes = json.find("classes");
  BRIM_CHECK(classes != json.end() && is_list_of_names(*classes), FileError,
             "[checkpoint] {} has no valid 'classes'; the checkpoint is damaged", file);
  c.classes = classes->get<std::vector<std::string>>();
  return c;
}

Checkpoint load_checkpoint(const std::string& path) {
  check_manifest(path);
  Checkpoint c = load_checkpoint_state(path);
  c.model = io::load_safetensors(path + "/model.safetensors");
  c.optimizer = io::load_safetensors(path + "/optimizer.safetensors");
  c.schedule = io::load_safetensors(path + "/schedule.safetensors");
  return c;
}

}  // namespace brim::train
