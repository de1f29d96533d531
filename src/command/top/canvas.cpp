#include "command/top/canvas.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/printable.h"

namespace brim::top {
namespace {

struct Range {
  char32_t first, last;
};
// UAX #11: wide and fullwidth characters, coarsely.
constexpr Range kWide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                           {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
                           {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                           {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
// Characters without a width of their own: accents that combine, joiners, changes of direction.
constexpr Range kWithout[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x6ff},
                              {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f},
                              {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
                              {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0x10ffff}};

template <size_t N>
bool is_in(const Range (&ranges)[N], char32_t c) {
  return std::ranges::any_of(ranges, [c](const Range& r) { return c >= r.first && c <= r.last; });
}

/// The first character; `length`: its bytes, above 0.
char32_t decode(std::string_view text, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  constexpr std::array<uint8_t, 5> kMask = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t c = byte(0) & kMask[length];
  for (size_t i = 1; i < length; ++i) c = c << 6 | (byte(i) & 0x3fu);
  return c;
}

void encode(char32_t c, std::string& to) {
  const auto tail = [&](int shift) { to += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    to += static_cast<char>(c);
  } else if (c < 0x800) {
    to += static_cast<char>(0xc0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    to += static_cast<char>(0xe0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    to += static_cast<char>(0xf0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Columns that well-formed text takes on a canvas.
int width_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_length(text), 1);
    columns += length > 2 && is_in(kWide, decode(text, length)) ? 2 : 1;
    text.remove_prefix(length);
  }
  return columns;
}

}  // namespace

Canvas::Canvas(Size size, bool unicode)
    : size_{std::clamp(size.rows, 0, 1000), std::clamp(size.columns, 0, 1000)},
      unicode_(unicode),
      cells_(static_cast<size_t>(size_.rows) * static_cast<size_t>(size_.columns)) {}

Cell& Canvas::cell(int row, int column) {
  return cells_[static_cast<size_t>(row) * static_cast<size_t>(size_.columns) +
                static_cast<size_t>(column)];
}

const Cell& Canvas::at(int row, int column) const {
  return cells_[static_cast<size_t>(row) * static_cast<size_t>(size_.columns) +
                static_cast<size_t>(column)];
}

int Canvas::put(int row, int column, std::string_view text, Style style, int width) {
  if (row < 0 || row >= size_.rows || column < 0) return column;
  const int end = std::min(size_.columns, column + std::clamp(width, 0, size_.columns));
  const std::string clean = printable(text);
  for (std::string_view left = clean; !left.empty();) {
    const size_t length = std::max<size_t>(utf8_length(left), 1);
    char32_t c = decode(left, length);
    left.remove_prefix(length);
    if (c >= 0x80 && (!unicode_ || is_in(kWithout, c))) c = U'?';
    const int columns = is_in(kWide, c) ? 2 : 1;
    if (column + columns > end) break;
    cell(row, column++) = {c, style};
    if (columns == 2) cell(row, column++) = {0, style};
  }
  return column;
}

void Canvas::paint_row(int row, Style style) {
  if (row < 0 || row >= size_.rows) return;
  for (int column = 0; column < size_.columns; ++column) cell(row, column).style = style;
}

std::string Canvas::line(int row) const {
  std::string line;
  for (int column = 0; column < size_.columns; ++column)
    if (const char32_t c = at(row, column).character; c != 0) encode(c, line);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string Canvas::text() const {
  std::string text;
  for (int row = 0; row < size_.rows; ++row) text += line(row) + "\n";
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

Pen& Pen::put(std::string_view text, Style style, int width) {
  column_ = canvas_.put(row_, column_, text, style, width);
  return *this;
}
Pen& Pen::gap(int columns) {
  column_ += columns;
  return *this;
}
Pen& Pen::to(int column) {
  column_ = std::max(column_, column);
  return *this;
}
Pen& Pen::left(std::string_view text, int width, Style style) {
  const int end = column_ + width + 1;
  put(text, style, width);
  return to(end);
}
Pen& Pen::right(std::string_view text, int width, Style style) {
  const int end = column_ + width + 1, columns = width_of(text);
  if (columns <= width)
    gap(width - columns).put(text, style);
  else  // without some of its digits a number would be another one
    put(text, style, width - 1).put(canvas_.unicode() ? "\u2026" : "~", style);
  return to(end);
}

void draw_bar(Pen& pen, bool unicode, int width, const std::vector<BarPart>& parts) {
  const int inside = std::max(width - 2, 0);
  pen.put("[", Style::dim);
  double sum = 0;
  int filled = 0;
  for (const BarPart& part : parts) {
    sum += std::isfinite(part.share) ? std::clamp(part.share, 0.0, 1.0) : 0;
    const int until = static_cast<int>(std::lround(std::min(sum, 1.0) * inside));
    for (; filled < until; ++filled) pen.put(unicode ? part.unicode : part.ascii, part.style);
  }
  pen.gap(inside - filled).put("]", Style::dim);
}

std::string level(double share, bool unicode) {
  constexpr std::array kUnicode = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                   "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr std::string_view kAscii = " .:-=+*%#";
  const double clamped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
  const auto step = static_cast<size_t>(std::lround(clamped * 8));
  return unicode ? kUnicode[step] : std::string(1, kAscii[step]);
}

std::string percent(double share) {
  return fmt::format("{:.0f}%", std::clamp(share * 100, 0.0, 9999.0));
}

std::string short_bytes(double bytes) {
  constexpr std::string_view kUnit = "BKMGTPE";
  double value = std::max(bytes, 0.0);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnit.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f}{}", value, unit > 0 && value < 99.95 ? 1 : 0, kUnit[unit]);
}

std::string short_count(double count) {
  constexpr std::string_view kUnit = " KMGTPE";
  double value = std::max(count, 0.0);
  size_t unit = 0;
  for (; value >= 99999.5 && unit + 1 < kUnit.size(); ++unit) value /= 1000;
  if (unit > 0) return fmt::format("{:.0f}{}", value, kUnit[unit]);
  return fmt::format("{:.{}f}", value, value != std::floor(value) && value < 1000 ? 1 : 0);
}

}  // namespace brim::top
