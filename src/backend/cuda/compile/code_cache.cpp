// See code_cache.h. A file: Head, the key, the code.
#include "backend/cuda/compile/code_cache.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/cache_file.h"
#include "core/hash.h"
#include "core/printable.h"

namespace brim::cuda {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxKey = 4096, kMaxCode = uint64_t{64} << 20;  // bytes

struct Head {
  std::array<char, 8> magic{'b', 'r', 'i', 'm', 'c', 'o', 'd', '1'};
  uint64_t key_bytes = 0, code_bytes = 0;
  uint64_t hash = 0;  // of key and code
};

std::string text_of(const std::string& key, const std::string& code) {
  const std::string body = key + code;
  const Head head{
      .key_bytes = key.size(), .code_bytes = code.size(), .hash = xxh64(body.data(), body.size())};
  std::string text(sizeof head, '\0');
  std::memcpy(text.data(), &head, sizeof head);
  return text + body;
}

/// The code in the file; "" and why where it is not to be used. Sizes are compared with the file's
/// before anything is allocated.
std::string read_code(const std::string& path, const std::string& key, const char*& why) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return why = "not a file", "";
  const uintmax_t bytes = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return why = "it cannot be read", "";
  Head head;
  const Head expected;
  std::array<char, sizeof head> start{};
  if (!file.read(start.data(), start.size())) return why = "it is damaged", "";
  head = std::bit_cast<Head>(start);
  if (head.magic != expected.magic) return why = "it is of another version, or damaged", "";
  if (head.key_bytes > kMaxKey || head.code_bytes > kMaxCode ||
      bytes != sizeof head + head.key_bytes + head.code_bytes)
    return why = "it is damaged", "";
  std::string body(head.key_bytes + head.code_bytes, '\0');
  if (!file.read(body.data(), static_cast<std::streamsize>(body.size())) ||
      xxh64(body.data(), body.size()) != head.hash || head.code_bytes == 0)
    return why = "it is damaged", "";
  if (body.compare(0, head.key_bytes, key) != 0 || head.key_bytes != key.size())
    return why = "it is stale", "";
  return body.substr(head.key_bytes);
}

}  // namespace

std::optional<std::string> CodeCache::find(const std::string& name, const std::string& key) const {
  std::error_code error;
  if (folder_.empty() || !fs::exists(path_of(name), error)) return {};
  const char* why = nullptr;
  std::string code = read_code(path_of(name), key, why);
  if (!why) return code;
  warn_on_stderr(fmt::format("[cache] {}: {}; compiling again", path_of(name), why));
  return {};
}

void CodeCache::keep(const std::string& name, const std::string& key, const std::string& code) {
  if (folder_.empty() || key.size() > kMaxKey || code.size() > kMaxCode) return;
  if (write_cache_file(path_of(name), text_of(key, code)) || warned_.exchange(true)) return;
  warn_on_stderr(
      fmt::format("[cache] cannot write {}; the next run compiles again", path_of(name)));
}

}  // namespace brim::cuda
