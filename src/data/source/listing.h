// From a list of file names to classes and labels: the layout rules that folders and archives
// share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <brim/data/source.h>

namespace brim::data {

/// One picture of a folder or archive.
struct Entry {
  std::string path;     // relative, '/' between parts: "train/cat/0012.jpg"
  int64_t payload = 0;  // the caller's own number, e.g. its place in an archive
};

/// The samples of one split, sorted by path, and the classes of the whole data set, sorted by name.
struct Listing {
  std::vector<std::string> classes;
  std::vector<Entry> entries;
  std::vector<int32_t> labels;
};

/// Sorts pictures into classes: [train|test|val/]CLASS/.../FILE. One outer folder around everything
/// is looked through, and `val` is the test split where there is no test. Classes come from all
/// splits, so a label means the same in each. Throws FileError, naming `where`, if there are no
/// pictures, a picture lies in no class folder, or the split does not exist.
Listing make_listing(std::vector<Entry> entries, const std::string& where, Split split);

/// Whether a folder of this name is a split and no class: train, test or val.
bool names_split(std::string_view part);

/// Whether `make_listing` would find the split (Split::all: any picture at all).
bool has_split(const std::vector<Entry>& entries, Split split);

/// What Source::open accepts, for the end of error messages.
inline constexpr const char* kLayout =
    "expected CLASS/x.jpg, or train/CLASS/x.jpg and test/CLASS/x.jpg (jpeg or png)";

}  // namespace brim::data
