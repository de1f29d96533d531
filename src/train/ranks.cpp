// What the ranks of a run settle before they train.
#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "core/check.h"
#include "train/build.h"
#include "train/data_fingerprint.h"
#include "train/trainer_state.h"

namespace brim::train {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// How many parts the run in the folder cuts its batches into; 0 where there is none yet. Whether
/// its checkpoints are sound is asked later.
int64_t saved_virtual_ranks(const std::string& folder) {
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::is_directory(folder, ignored)) return 0;
  for (const std::string& path : list_checkpoints(folder)) try {
      return load_checkpoint_state(path).virtual_ranks;
    } catch (const FileError&) {
    }
  return 0;
}

}  // namespace

void Trainer::State::check_ranks_agree(const std::string& text) const {
  const std::vector<std::string> ranks = options.group->all_gather_text(text);
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r] == ranks[0]) continue;
    std::vector<std::string> first = lines_of(ranks[0]), other = lines_of(ranks[r]);
    first.resize(std::max(first.size(), other.size()));
    other.resize(first.size());
    size_t line = 0;
    while (line + 1 < first.size() && first[line] == other[line]) ++line;
    raise<DistError>(
        "[train] rank 0 has '{}', and rank {} has '{}'; start all ranks with the same recipe, "
        "options and data",
        first[line], r, other[line]);
  }
}

int64_t Trainer::State::choose_virtual_ranks() const {
  int64_t parts = recipe.virtual_ranks;
  const int64_t world = world_size();
  if (parts == 0 && takes_one_part(recipe)) {
    parts = world;
  } else if (parts == 0) {
    if (rank() == 0) parts = saved_virtual_ranks(options.resume);
    if (world > 1) parts = std::stoll(options.group->all_gather_text(std::to_string(parts))[0]);
    if (parts == 0) parts = world;
  }
  BRIM_CHECK(parts != 1 || world == 1 || recipe.virtual_ranks == 1, ValueError,
             "[train] {} was trained by one rank, without virtual ranks (or on several devices by "
             "an older brim), and other numbers of ranks have other bits; go on with one, or start "
             "anew",
             options.resume);
  BRIM_CHECK(
      !takes_one_part(recipe) || parts == world, ValueError,
      "[train] {} takes one part of a batch for each {}, and this one is cut into {} for {}; "
      "choose Recipe::virtual_ranks={}, or leave one of them out",
      recipe.sync_batch_norm ? "sync_batch_norm" : "compress_gradients", rank_word(), parts, world,
      world);
  BRIM_CHECK(
      parts % world == 0, ValueError,
      "[train] a batch in {} parts (Recipe::virtual_ranks) cannot be shared by {} ranks; start "
      "a number of ranks that divides {}",
      parts, world, parts);
  BRIM_CHECK(recipe.batch % parts == 0, ValueError,
             "[train] a batch of {} has no {} equal parts, one for each {}; choose a multiple "
             "(Recipe::batch)",
             recipe.batch, parts, recipe.virtual_ranks > 0 ? "virtual rank" : rank_word());
  return parts;
}

void Trainer::State::prepare_ranks() {
  if (world_size() == 1) return prepare_out();
  check_ranks_agree(
      fmt::format("samples = {}\nclasses = {}\ncolumns = {}\nhash of some samples = {}\n",
                  train->data.pictures ? train->data.pictures->size() : train->data.samples->size(),
                  fmt::join(train->data.names, ", "), fmt::join(train->data.columns, ", "),
                  fingerprint_of(train->data)));
  if (rank() == 0) {
    prepare_out();
  } else {  // files are rank 0's
    options.out.clear();
    options.resume.clear();
  }
  const std::string path = options.group->all_gather_text(resumed_from)[0];
  if (rank() != 0 && !path.empty()) load(path);
}

}  // namespace brim::train
