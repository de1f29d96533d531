// Pictures with masks or targets before their transform, and the data set that they become.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <brim/data/pictures.h>

namespace brim::data {

/// A picture as it is read, with its mask (else of width 0) or its targets; a thread keeps one for
/// its memory.
struct RawPicture {
  std::vector<uint8_t> file;
  PixelImage image;
  Image mask;
  std::vector<float> targets;
  bool scalar = false;                 // the one target is a "y" of rank 0
  uint64_t reading = 0, decoding = 0;  // ticks
};

/// Every const member may be called from many threads at once.
class PictureSource {
 public:
  PictureSource() = default;
  PictureSource(const PictureSource&) = delete;
  PictureSource& operator=(const PictureSource&) = delete;
  virtual ~PictureSource() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<std::string>& names() const = 0;
  virtual std::string describe(int64_t i) const = 0;
  /// Throws FileError.
  virtual void read(int64_t i, RawPicture& out) const = 0;
};

/// Reads and decodes one picture file, and one mask. Throws FileError.
void read_picture(const std::string& path, RawPicture& out);
void read_mask(const std::string& path, RawPicture& out);

/// Throws ValueError for impossible options, FileError where no picture can be read.
PictureDataPtr transformed(std::unique_ptr<const PictureSource> source,
                           const PictureOptions& options);

}  // namespace brim::data
