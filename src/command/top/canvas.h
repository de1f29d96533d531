// A grid of styled characters: what a view draws on and a terminal shows. Text from outside is made
// harmless here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brim::top {

enum class Style : uint8_t {
  plain,
  dim,
  bold,
  title,     ///< of a part of the screen
  good,      ///< work
  notice,    ///< worth a look
  bad,       ///< worth a worry
  selected,  ///< the row that keys are about
};
inline constexpr int kStyleCount = 8;

struct Cell {
  char32_t character = U' ';  ///< 0: the right half of the wide character before it
  Style style = Style::plain;
  bool operator==(const Cell&) const = default;
};

struct Size {
  int rows = 24, columns = 80;
};

class Canvas {
 public:
  /// `unicode`: whether characters beyond ASCII can be shown; else each is a '?'.
  Canvas(Size size, bool unicode);

  Size size() const { return size_; }
  bool unicode() const { return unicode_; }
  const Cell& at(int row, int column) const;
  /// Writes within the grid and at most `width` columns; returns the column behind it.
  int put(int row, int column, std::string_view text, Style style = Style::plain,
          int width = 1 << 20);
  /// Gives a row's characters this style.
  void paint_row(int row, Style style);

  /// A row as UTF-8, without blanks at its end.
  std::string line(int row) const;
  /// All rows, each with its end, without empty ones at the end.
  std::string text() const;

 private:
  Cell& cell(int row, int column);

  Size size_;
  bool unicode_;
  std::vector<Cell> cells_;
};

/// Writes along a row: `Pen(canvas, row).put("memory", Style::title).gap(2)...`.
class Pen {
 public:
  Pen(Canvas& canvas, int row, int column = 0) : canvas_(canvas), row_(row), column_(column) {}

  Pen& put(std::string_view text, Style style = Style::plain, int width = 1 << 20);
  Pen& gap(int columns);
  Pen& to(int column);  ///< not back
  /// In a field of `width` columns, at its left or right side, and a blank behind it. What is cut
  /// at the right side ends with a mark of that.
  Pen& left(std::string_view text, int width, Style style = Style::plain);
  Pen& right(std::string_view text, int width, Style style = Style::plain);
  int column() const { return column_; }
  /// Columns up to the end of the row.
  int room() const { return canvas_.size().columns - column_; }

 private:
  Canvas& canvas_;
  int row_, column_;
};

/// A part of a bar, as a share of its length.
struct BarPart {
  double share = 0;
  Style style = Style::plain;
  const char* unicode = "\u2588";  ///< one character for each of the parts' columns
  const char* ascii = "#";
};

/// "[####++    ]" of `width` columns, brackets included. Shares are of the whole bar; what is above
/// 1 in all is left out.
void draw_bar(Pen& pen, bool unicode, int width, const std::vector<BarPart>& parts);

/// One character whose height says the share.
std::string level(double share, bool unicode);

/// "  12%", "0.5G", "120K": at most 5 columns.
std::string percent(double share);
std::string short_bytes(double bytes);
/// A count in at most 6 columns: "25000", "1234K".
std::string short_count(double count);

}  // namespace brim::top
