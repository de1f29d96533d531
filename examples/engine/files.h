// The pictures of a folder.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>

#if HAVE_JPEG
#include "jpeg.h"
#endif
#include "picture.h"

/// By its extension; throws std::runtime_error.
inline Picture load_picture(const std::filesystem::path& path) {
  std::string kind = path.extension().string();
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (kind == ".ppm") return load_ppm(path.string());
#if HAVE_PNG
  if (kind == ".png") return load_png(path.string());
#endif
#if HAVE_JPEG
  if (kind == ".jpg" || kind == ".jpeg") return load_jpeg(path.string());
#endif
  throw std::runtime_error("no picture that this program reads");
}

/// The files of a folder in the order of their names.
inline std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// All pictures of a folder. Throws std::runtime_error where there is none, or another file.
inline std::vector<Picture> load_pictures(const std::string& folder) {
  std::vector<Picture> pictures;
  for (const auto& file : files_in(folder)) try {
      pictures.push_back(load_picture(file));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(file.string() + ": " + error.what());
    }
  if (pictures.empty()) throw std::runtime_error(folder + " holds no pictures");
  return pictures;
}
