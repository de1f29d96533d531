// The layout rules of image folders and archives (see listing.h).
#include "data/source/listing.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/check.h"

namespace brim::data {
namespace {

// The first part of a path, without its '/'; empty if there is no '/'.
std::string_view first_part(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

std::string_view after_first(std::string_view path) { return path.substr(path.find('/') + 1); }

struct Layout {
  size_t skip = 0;  // length of the outer folders that everything shares
  bool split = false;
  bool test = false;
  bool train = false;
  bool val = false;

  // The folder that serves as test.
  std::string_view test_name() const { return test ? "test" : "val"; }
};

// Length of the common outer folder: one that holds every picture at least two folders deep.
size_t outer_length(const std::vector<Entry>& entries, size_t skip) {
  const std::string_view outer = first_part(std::string_view(entries.front().path).substr(skip));
  if (outer.empty() || names_split(outer)) return 0;
  for (const Entry& entry : entries) {
    const std::string_view path = std::string_view(entry.path).substr(skip);
    if (first_part(path) != outer || first_part(after_first(path)).empty()) return 0;
  }
  return outer.size() + 1;
}

Layout find_layout(const std::vector<Entry>& entries) {
  Layout layout;
  if (entries.empty()) return layout;
  while (const size_t length = outer_length(entries, layout.skip)) layout.skip += length;
  layout.split = true;
  for (const Entry& entry : entries) {
    const std::string_view path = std::string_view(entry.path).substr(layout.skip);
    const std::string_view first = first_part(path);
    if (!names_split(first)) {
      layout.split = false;
    } else {
      layout.train |= first == "train";
      layout.test |= first == "test";
      layout.val |= first == "val";
    }
  }
  return layout;
}

}  // namespace

bool names_split(std::string_view part) {
  return part == "train" || part == "test" || part == "val";
}

bool has_split(const std::vector<Entry>& entries, Split split) {
  const Layout layout = find_layout(entries);
  if (split == Split::test) return layout.split && (layout.test || layout.val);
  if (split == Split::train) return layout.split && layout.train;
  return !entries.empty();
}

Listing make_listing(std::vector<Entry> entries, const std::string& where, Split split) {
  if (entries.empty()) raise<FileError>("{}: no pictures; {}", where, kLayout);
  const Layout layout = find_layout(entries);
  if (!layout.split && layout.train && (layout.test || layout.val)) {
    raise<FileError>("{}: has train/ and {}/ but also pictures beside them; move those away", where,
                     layout.test_name());
  }
  if (!layout.split && split == Split::test) {
    raise<NoSuchSplit>(
        "{}: has no train/ and test/ folders, so there is no test split; take what there is with "
        "Split::all ({})",
        where, kLayout);
  }

  std::set<std::string_view> names;
  struct Sample {
    size_t entry;
    std::string_view class_name;
  };
  std::vector<Sample> samples;
  // Train before test for Split::all: sorted paths alone would put "test" first.
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  for (const bool want_train : {true, false}) {
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string_view path = std::string_view(entries[i].path).substr(layout.skip);
      bool train = true;
      if (layout.split) {
        const std::string_view part = first_part(path);
        if (part != "train" && part != layout.test_name()) continue;  // val beside test
        train = part == "train";
        path = after_first(path);
      }
      const std::string_view class_name = first_part(path);
      if (class_name.empty()) {
        raise<FileError>("{}: {} lies in no class folder; {}", where, entries[i].path, kLayout);
      }
      if (train != want_train) continue;
      names.insert(class_name);
      const bool wanted = split == Split::all || train == (split == Split::train);
      if (wanted) samples.push_back({i, class_name});
    }
  }
  if (samples.empty()) {
    raise<NoSuchSplit>("{}: has no pictures under {}/; {}", where, to_string(split), kLayout);
  }

  Listing listing;
  listing.classes.assign(names.begin(), names.end());
  listing.entries.reserve(samples.size());
  listing.labels.reserve(samples.size());
  for (const Sample& sample : samples) {
    const auto at =
        std::lower_bound(listing.classes.begin(), listing.classes.end(), sample.class_name);
    listing.labels.push_back(static_cast<int32_t>(at - listing.classes.begin()));
  }
  names.clear();  // its views point into the paths that move now
  for (const Sample& sample : samples) listing.entries.push_back(std::move(entries[sample.entry]));
  return listing;
}

}  // namespace brim::data
