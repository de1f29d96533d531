#include "command/shrink_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command/command.h"
#include "command/run_log.h"
#include "io/hash.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

fs::path search_folder(const std::string& out) { return fs::path(out) / "shrink"; }

bool is_same_file(const std::string& path, const std::string& hash) {
  return fs::is_regular_file(path) && io::hash_file(path).hex == hash;
}

/// Whether all in it is what a search leaves that ended before it wrote its state: nothing, or the
/// dense network.
bool is_just_begun(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("dense.safetensors") && !name.starts_with('.')) return false;
  }
  return !error;
}

}  // namespace

void ShrinkFolder::prepare(const ShrinkArguments& o) {
  const fs::path folder = search_folder(o.out);
  std::error_code error;
  const auto exists = [&](const fs::path& path) {
    return fs::exists(fs::symlink_status(path, error));
  };
  const std::string state = ShrinkState::path(folder.string());
  if (exists(folder) && !exists(state) && !is_just_begun(folder))
    throw UsageError(
        fmt::format("--out: {} is of no search; give another folder", folder.string()));
  if (!o.resume && !o.overwrite)
    for (const fs::path& path : {fs::path(state), fs::path(o.out) / train::kWeightsFile})
      if (exists(path))
        throw UsageError(
            fmt::format("--out: {} exists; give --resume to go on, or --overwrite to begin anew",
                        path.string()));
  const std::string inside = fs::weakly_canonical(folder, error).string() + "/";
  for (const std::string& path : {o.weights, o.recipe, o.svg, o.json})
    if (!path.empty() && fs::weakly_canonical(path, error).string().starts_with(inside))
      throw UsageError(fmt::format("{} lies in {}, which the search replaces", path, inside));
  if (!o.overwrite) return;
  fs::remove_all(folder);
  remove_logs(o.out);
}

ShrinkFolder::ShrinkFolder(const std::string& out) : path_(search_folder(out).string()) {
  train::make_folder(path_);
  lock_.emplace(path_);
}

std::string ShrinkFolder::file(const std::string& name) const {
  return (fs::path(path_) / name).string();
}
std::string ShrinkFolder::width_file(size_t width) const {
  return width == 0 ? dense_file() : file(fmt::format("width-{}.safetensors", width));
}
std::string ShrinkFolder::point_file(size_t point) const {
  return point == 0 ? dense_file() : file(fmt::format("point-{}.safetensors", point));
}

std::optional<ShrinkState> ShrinkFolder::load(const Json& asked) const {
  if (!fs::exists(ShrinkState::path(path_))) return std::nullopt;
  ShrinkState state = ShrinkState::load(path_, asked);
  for (size_t i = 0; i < state.points.size(); ++i)
    if (!is_same_file(point_file(i), state.points[i].hash)) state.points.resize(i);
  for (size_t i = 0; i < state.widths.size(); ++i) {
    if (is_same_file(width_file(i), state.widths[i].hash)) continue;
    state.widths.resize(std::min<size_t>(i, 1));  // they are made together
    state.drop_points();
  }
  return state;
}

}  // namespace brim::command
