// Text from files and of users, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace brim {

/// The bytes of the UTF-8 character that `text` begins with (RFC 3629); 0 if there is none.
size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

/// `text` with '?' for each control character but those in `keep`, and for each byte that belongs
/// to no UTF-8 character: a terminal obeys the former (ECMA-48, C0, DEL and C1).
std::string printable(std::string_view text, std::string_view keep = "");

/// One line on standard error: "brim: warning: LINE".
void warn_on_stderr(const std::string& line);

}  // namespace brim
