#include "command/wrong_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "core/check.h"
#include "core/write_cure.h"
#include "data/image/decode.h"
#include "data/transform/resample.h"
#include "io/atomic_file.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

constexpr int kThumbnail = 64;
constexpr size_t kMostKept = 64;  // by any version

/// As wide and high as the picture in proportion.
data::Image thumbnail(data::Image picture) {
  const int longest = std::max(picture.width, picture.height);
  if (longest <= kThumbnail) return picture;
  const auto side = [&](int length) {
    return std::max(1, static_cast<int>(std::lround(double{kThumbnail} * length / longest)));
  };
  data::Image small;
  data::resample(picture, {0, 0, picture.width, picture.height}, side(picture.height),
                 side(picture.width), small);
  return small;
}

fs::path picture_at(const fs::path& folder, size_t place) {
  return folder / fmt::format("{}.png", place);
}

}  // namespace

std::vector<data::Image> wrong_thumbnails(const train::Evaluation& evaluation,
                                          const data::Loader& loader) {
  std::vector<data::Image> pictures;
  if (!loader.has_pictures()) return pictures;
  for (const train::Evaluation::Wrong& wrong : evaluation.most_wrong) {
    data::Image picture;
    loader.source().read(wrong.sample, picture);
    pictures.push_back(thumbnail(std::move(picture)));
  }
  return pictures;
}

void save_wrong_pictures(const train::Evaluation& evaluation, const data::Loader& loader,
                         const std::string& run_folder) {
  const fs::path folder = fs::path(run_folder) / kWrongFolder;
  std::error_code error;
  for (size_t i = 0; i < kMostKept; ++i) fs::remove(picture_at(folder, i), error);
  const std::vector<data::Image> pictures = wrong_thumbnails(evaluation, loader);
  if (pictures.empty()) return;
  fs::create_directory(folder, error);
  BRIM_CHECK(!error, FileError, "[train] the folder {} cannot be made: {}", folder.string(),
             write_failure(error.value()));
  for (size_t i = 0; i < pictures.size(); ++i) {
    const std::vector<uint8_t> png = data::encode_png(pictures[i]);
    io::write_file_atomically(picture_at(folder, i).string(),
                              {reinterpret_cast<const char*>(png.data()), png.size()});
  }
}

}  // namespace brim::command
