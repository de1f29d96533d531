// Text forms of sizes and times.
#include "command/format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "command/command.h"
#include "core/printable.h"

namespace brim::command {

std::string format_bytes(int64_t bytes) {
  constexpr const char* kUnit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnit[unit]);
}

std::string format_count(double count) {
  constexpr const char* kPrefix[] = {"", "k", "M", "G", "T", "P"};
  int power = 0;
  for (; count >= 999.5 && power < 5; ++power) count /= 1000;
  return fmt::format("{:.3g} {}", count, kPrefix[power]);
}

std::string format_duration(double seconds) {
  const int64_t s = std::isfinite(seconds) ? std::llround(std::max(seconds, 0.0)) : 0;
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  if (printable(text) != text) {  // which no message shows as it is: bash's and zsh's quotes
    std::string escaped = "$'";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_plain = byte >= 0x20 && byte < 0x7f && c != '\'' && c != '\\';
      escaped += is_plain ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
    }
    return escaped + "'";
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

int64_t parse_bytes(std::string_view text, std::string_view option) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  std::string unit(at, end);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t power = unit.empty() ? 0 : std::string_view("bkmgt").find(unit[0]);
  const bool known =
      unit.empty() || (power != std::string_view::npos &&
                       (unit.size() == 1 || unit.substr(1) == "b" || unit.substr(1) == "ib"));
  if (known) value *= std::pow(1024.0, static_cast<double>(power));
  if (error != std::errc() || !known || !(value >= 1 && value < 9e18))
    throw UsageError(fmt::format("{} '{}' is no size; write for example 512M or 2G", option, text));
  return static_cast<int64_t>(value);
}

Shape parse_shape(std::string_view text, std::string_view option, std::string_view form) {
  const auto fail = [&] { throw UsageError(fmt::format("{} {}: {}", option, text, form)); };
  Shape shape;
  const char *at = text.data(), *const end = at + text.size();
  while (true) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > 1'000'000 || shape.rank() == kMaxRank - 1)
      fail();
    shape.push_back(size);
    if (next == end) return shape;
    if (*next != 'x') fail();
    at = next + 1;
  }
}

std::vector<std::string> list_items(std::string_view text, std::string_view option) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin)
      throw UsageError(fmt::format("{} '{}': write for example 8,16", option, text));
    items.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::vector<int64_t> parse_counts(std::string_view text, std::string_view option, int64_t most) {
  std::vector<int64_t> all;
  for (const std::string& item : list_items(text, option)) {
    int64_t count = 0;
    const char* const end = item.data() + item.size();
    const auto [at, error] = std::from_chars(item.data(), end, count);
    if (error != std::errc() || at != end || count < 1 || count > most)
      throw UsageError(
          fmt::format("{} '{}': give numbers from 1 to {}, as 64,128", option, text, most));
    all.push_back(count);
  }
  return all;
}

}  // namespace brim::command
