#include "diag/machine/kernel_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace brim::diag {

std::optional<std::string> kernel_text(const std::string& path, size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  std::optional<std::string> text;
  struct stat found {};
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
    text.emplace();
    char block[4096];
    while (text->size() < limit) {
      const ssize_t got = ::read(fd, block, std::min(sizeof block, limit - text->size()));
      if (got < 0 && text->empty()) text.reset();  // as of a process that ended meanwhile
      if (got <= 0) break;
      text->append(block, static_cast<size_t>(got));
    }
  }
  close(fd);
  return text;
}

std::string_view take_field(std::string_view& text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
  const size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::vector<uint64_t> leading_numbers(std::string_view text, size_t limit) {
  std::vector<uint64_t> numbers;
  numbers.reserve(limit);
  while (numbers.size() < limit) {
    std::string_view word = take_field(text);
    const bool negative = word.starts_with('-');
    if (negative) word.remove_prefix(1);
    uint64_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (word.empty() || error != std::errc() || end != word.data() + word.size()) break;
    numbers.push_back(negative ? 0 : n);
  }
  return numbers;
}

std::optional<int64_t> whole_number(std::string_view text) {
  const std::string_view word = take_field(text);
  int64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc() || end != word.data() + word.size() || !take_field(text).empty())
    return {};
  return n;
}

double rate(uint64_t before, uint64_t after, double seconds) {
  if (after <= before || seconds <= 0) return 0;
  return static_cast<double>(after - before) / seconds;
}

}  // namespace brim::diag
