// Pictures with more than a label: with a mask, or with a row of a table; of any number of channels
// and of 8 or 16 bits.
//
//   const auto data = data::open_segmentation("pets", data::Split::train,
//                                             {.transform = {.steps = {data::RandomCrop{256}}}});
//   const data::Loader loader(data, {.batch = 8});
//   for (const data::Batch& b : loader) step(b.x, b.y);  // (8, 3, 256, 256) f32, (8, 256, 256) i64
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <brim/data/dataset.h>
#include <brim/data/image.h>
#include <brim/data/source.h>
#include <brim/data/transform.h>

namespace brim::data {

/// Options of open_pictures().
struct PictureOptions {
  /// Random choices come from Sample::random(). RandomResizedCrop::scaled_decode has no effect.
  Transform transform = {};
  /// Of "x": 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGB and alpha), to which pictures are
  /// converted; 0: as the first picture has, and one with others cannot be read.
  int channels = 0;
};

/// Pictures as "x" (C, H, W) f32, 8 and 16 bits alike from 0 to 1 before Normalize, and "y".
class PictureData : public Dataset {
 public:
  /// Of the classes that a mask's values stand for, or of the columns of "y"; the same for all
  /// splits.
  virtual const std::vector<std::string>& names() const = 0;

  /// Of the first "x" that can be read. The others' is the same where pictures have one size, or
  /// the transform makes them so.
  virtual ImageShape shape() const = 0;
};

using PictureDataPtr = std::shared_ptr<const PictureData>;  ///< Pictures that loaders share.

/// The value of a mask, and of "y", that is no class: losses and metrics leave such pixels out.
/// Crops that reach beyond a picture have it there.
inline constexpr int64_t kIgnoredClass = 255;

/// Pictures with masks (semantic segmentation): images/NAME.jpg (or .jpeg, .png, at any depth) and
/// masks/NAME.png, both in `path` or both in its train/ and test/ (val/ where there is no test/).
/// "y" is i64 (H, W). A mask is a grey or palette PNG of at most 8 bits whose values, or numbers of
/// colours, are classes, or 255. Whatever the transform does to a picture it does to its mask, by
/// nearest neighbour. `path`/classes.txt has the classes' names, one a line; without it all masks
/// of all splits are read now, which takes as long as decoding them, and names are "0" to the
/// largest value. Throws FileError where a picture has no mask, NoSuchSplit for a missing split;
/// FileError with both names, when the sample is read, for a mask of another size, one that is no
/// such PNG, and values beyond the classes.
PictureDataPtr open_segmentation(const std::string& path, Split split,
                                 const PictureOptions& options = {});

/// What the columns of a table of pictures are.
enum class Targets : uint8_t {
  multi_label,  ///< each 0 or 1: any number of labels; "y" is f32 (T)
  regression,   ///< finite numbers: "y" is f32 (T), or () for one column
};

/// Pictures with a table: `path`/labels.csv (RFC 4180, the first line names columns) has "file", a
/// path relative to the folder, perhaps "split" (train, test or val; val serves as test where there
/// is no test; without the column all is train), and targets, which are all others. Throws
/// FileError with the line for fields that are missing, empty or no such numbers, other splits,
/// files that are not there, and paths that are absolute or have "..", and FileError for a table
/// without "file", targets or samples; NoSuchSplit.
PictureDataPtr open_labelled(const std::string& path, Split split, Targets targets,
                             const PictureOptions& options = {});

/// Built-in, to try segmentation with: 64 x 64 RGB pictures of one to three drawn shapes over
/// noise, with exact masks: "background", "circle", "square", "triangle". 4,000 train and 500 test
/// samples, drawn when they are read; the same seed gives the same pixels on every machine.
PictureDataPtr open_shapes_masks(Split split, const PictureOptions& options = {},
                                 uint64_t seed = 0);

/// Built-in, to try several labels with: 32 x 32 RGB pictures of none to four of six kinds of
/// shapes, "y" f32 (6) of 0 and 1. Otherwise as open_shapes_masks.
PictureDataPtr open_shapes_labels(Split split, const PictureOptions& options = {},
                                  uint64_t seed = 0);

}  // namespace brim::data
