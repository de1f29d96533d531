// Text of the kernel's small files, and numbers in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brim::diag {

/// The file's first `limit` bytes, nothing if it cannot be read. What is no regular file is left
/// alone: nothing is waited for.
std::optional<std::string> kernel_text(const std::string& path, size_t limit = 1 << 20);

/// Takes the next word off `text`; empty at its end. Words end at blanks and at the line's end.
std::string_view take_field(std::string_view& text);
/// Takes the next line off `text`.
std::string_view take_line(std::string_view& text);
/// The numbers that `text` consists of up to the first word that is none; at most `limit`. Those
/// below 0 count as 0, as in fields of /proc that are unsigned in newer kernels.
std::vector<uint64_t> leading_numbers(std::string_view text, size_t limit);
/// The whole number that a text is, blanks at its end apart.
std::optional<int64_t> whole_number(std::string_view text);

/// What a counter gained, a second. 0 where it went back, as when it starts anew.
double rate(uint64_t before, uint64_t after, double seconds);

}  // namespace brim::diag
