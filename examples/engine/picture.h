// Pictures of files for the examples: binary PPM, and PNG and JPEG where their libraries are there.
#pragma once

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#if HAVE_PNG
#include <png.h>
#endif
struct Picture {
  int width = 0, height = 0;
  std::vector<unsigned char> rgb;  // row by row, three bytes a pixel

  void resize(int w, int h) {
    if (w < 1 || h < 1 || w > 20000 || h > 20000) throw std::runtime_error("an odd size");
    width = w, height = h, rgb.resize(static_cast<size_t>(w) * h * 3);
  }
};

/// A word of a PPM's header; "#" begins a comment that goes to the end of its line.
inline std::string ppm_word(std::istream& file) {
  std::string word, comment;
  while (file >> word && word[0] == '#') std::getline(file, comment);
  if (const size_t hash = word.find('#'); hash != std::string::npos) {
    std::getline(file, comment);
    file.putback('\n');  // white space still follows the word
    word.resize(hash);
  }
  return word;
}

/// One of the header's sizes; 0 for what is none.
inline int ppm_number(std::istream& file) { return std::atoi(ppm_word(file).c_str()); }

inline Picture load_ppm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string magic = ppm_word(file);
  const int width = ppm_number(file), height = ppm_number(file), maximum = ppm_number(file);
  file.get();
  Picture picture;
  if (!file || magic != "P6" || maximum != 255) throw std::runtime_error("no PPM of 8 bits");
  picture.resize(width, height);
  if (!file.read(reinterpret_cast<char*>(picture.rgb.data()), picture.rgb.size()))
    throw std::runtime_error("cut off");
  return picture;
}

#if HAVE_PNG
inline Picture load_png(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  Picture picture;
  if (!png_image_begin_read_from_file(&image, path.c_str()))
    throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGB;
  picture.resize(static_cast<int>(image.width), static_cast<int>(image.height));
  const png_color black{};
  if (!png_image_finish_read(&image, &black, picture.rgb.data(), 0, nullptr))
    throw std::runtime_error(image.message);
  return picture;
}
#endif
