#include "backend/elf_symbols.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

namespace brim::backend {
namespace {

constexpr size_t kLongestName = 256;  // so that names on one another do not fill the memory

/// A file that is read where its own numbers point, as far as it goes.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : in_(path, std::ios::binary) {
    in_.seekg(0, std::ios::end);
    const std::streamoff end = in_.tellg();
    size_ = end > 0 ? static_cast<uint64_t>(end) : 0;
  }

  bool holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }
  /// `count` values at an offset; false where the file has not as many.
  template <class T>
  bool read(uint64_t offset, uint64_t count, std::vector<T>& values) {
    if (count > size_ / sizeof(T) || !holds(offset, count * sizeof(T))) return false;
    values.resize(count);
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(offset));
    in_.read(reinterpret_cast<char*>(values.data()),
             static_cast<std::streamsize>(count * sizeof(T)));
    return static_cast<bool>(in_);
  }

 private:
  std::ifstream in_;
  uint64_t size_ = 0;
};

bool fits(const ElfW(Ehdr) & header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  constexpr unsigned char kData =
      __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass &&
         header.e_ident[EI_DATA] == kData && header.e_type == ET_DYN &&
         header.e_shentsize == sizeof(ElfW(Shdr));
}

}  // namespace

std::optional<std::vector<ElfSymbol>> elf_symbols(const std::string& path,
                                                  const std::string& prefix) {
  ElfFile file(path);
  std::vector<ElfW(Ehdr)> header;
  std::vector<ElfW(Shdr)> sections;
  if (!file.read(0, 1, header) || !fits(header[0]) ||
      !file.read(header[0].e_shoff, header[0].e_shnum, sections))
    return std::nullopt;
  std::vector<ElfSymbol> found;
  for (const auto& table : sections) {
    if (table.sh_type != SHT_DYNSYM) continue;
    std::vector<ElfW(Sym)> symbols;
    std::vector<char> names;
    if (table.sh_link >= sections.size() ||
        !file.read(table.sh_offset, table.sh_size / sizeof(ElfW(Sym)), symbols) ||
        !file.read(sections[table.sh_link].sh_offset, sections[table.sh_link].sh_size, names))
      return std::nullopt;
    const std::string_view all(names.data(), names.size());
    for (const auto& symbol : symbols) {
      if (symbol.st_name >= all.size()) continue;
      const std::string_view rest = all.substr(symbol.st_name);
      if (!rest.starts_with(prefix)) continue;
      const size_t end = rest.substr(0, kLongestName).find('\0');
      if (end != std::string_view::npos)
        found.push_back({std::string(rest.substr(0, end)), symbol.st_shndx != SHN_UNDEF});
    }
    break;  // a library has one table
  }
  return found;
}

}  // namespace brim::backend
