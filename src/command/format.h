// Text forms of sizes and times, and sizes from text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/shape.h>

namespace brim::command {

/// "512 B", "1.5 GiB"
std::string format_bytes(int64_t bytes);
/// "950 ", "1.82 G": with a prefix of powers of 1000, for a unit to follow
std::string format_count(double count);
/// "0:42", "1:02:03"
std::string format_duration(double seconds);
/// The text as one word of a shell command: in single quotes where it needs them.
std::string shell_word(const std::string& text);
/// "512M", "2GiB", "1.5g", "100000" -> bytes (powers of 1024). Throws UsageError naming `option`.
int64_t parse_bytes(std::string_view text, std::string_view option);

/// "3x224x224": the sizes of one input, without the batch. Throws UsageError naming `option` and
/// `form`, how they are written.
Shape parse_shape(std::string_view text, std::string_view option,
                  std::string_view form = "sizes of one input are written as 3x224x224");

/// The items of "8G,12G". Throws UsageError naming `option` where one is empty.
std::vector<std::string> list_items(std::string_view text, std::string_view option);
/// "8,16": numbers from 1 to `most`. Throws UsageError naming `option`.
std::vector<int64_t> parse_counts(std::string_view text, std::string_view option, int64_t most);

}  // namespace brim::command
