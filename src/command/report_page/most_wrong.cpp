#include "command/report_page/most_wrong.h"

#include <fmt/format.h>

#include <brim/core/error.h>

#include "command/report_page/json_values.h"
#include "command/wrong_pictures.h"
#include "io/regular_file.h"

namespace brim::command::page {
namespace {

constexpr size_t kMostPictures = 16;
constexpr uint64_t kMostPictureBytes = 64 << 10;

/// Null where it is no PNG file, or too large for the page.
nlohmann::ordered_json picture_in(const std::string& path) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  try {
    const io::RegularFile file(path, "report", "a picture");
    if (file.bytes() > kMostPictureBytes) return nullptr;
    std::string png(static_cast<size_t>(file.bytes()), '\0');
    file.read(png.data(), png.size(), 0);
    if (png.starts_with(kSignature)) return base64(png);
  } catch (const FileError&) {  // it is not there
  }
  return nullptr;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return text;
}

nlohmann::ordered_json most_wrong_of(const nlohmann::json& result, const std::string& folder) {
  auto rows = nlohmann::ordered_json::array();
  const nlohmann::json* const wrong = find(result, "most_wrong");
  if (!wrong || !wrong->is_array()) return rows;
  for (size_t i = 0; i < wrong->size() && i < kMostPictures; ++i) {
    const nlohmann::json& row = (*wrong)[i];
    if (!row.is_object()) continue;
    const auto number = [&](const char* key) {
      const std::optional<double> value = number_at(row, key);
      return value ? nlohmann::ordered_json(rounded_for_chart(*value)) : nullptr;
    };
    rows.push_back({{"sample", number("sample")},
                    {"class", text_at(row, "class")},
                    {"predicted", text_at(row, "predicted")},
                    {"probability", number("probability")},
                    {"picture", picture_in(fmt::format("{}/{}/{}.png", folder, kWrongFolder, i))}});
  }
  return rows;
}

}  // namespace brim::command::page
