// Source lines of addresses in programs, by binutils' addr2line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::command {

/// A function, and where in it; inlined ones are levels of their own.
struct SourceLine {
  std::string function, file;
  int64_t line = 0;  ///< 0: not known
};

/// For each address of the program or library `file` its levels, innermost first; none where
/// addr2line is missing or knows nothing.
std::vector<std::vector<SourceLine>> source_lines(const std::string& file,
                                                  const std::vector<uint64_t>& addresses);

/// The levels in what `addr2line -a -f -i -C` wrote of so many addresses.
std::vector<std::vector<SourceLine>> parse_source_lines(const std::string& text, size_t count);

}  // namespace brim::command
