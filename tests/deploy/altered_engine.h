// Engines whose bytes were altered.
#pragma once

#include <algorithm>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

#include "core/hash.h"
#include "deploy/counted_memory.h"
#include "deploy/opened_engine.h"
#include "rt/format.h"

namespace brim::tests {

/// Those of a file with one program.
struct EngineBytes {
  std::string bytes;
  explicit EngineBytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  template <class T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(bytes.data() + offset);
  }
  const rt::ProgramRecord& program() {
    return *at<rt::ProgramRecord>(at<rt::FileHeader>(0)->programs.at);
  }
  uint64_t steps() { return program().steps.count; }
  rt::StepRecord& step(uint64_t i) { return at<rt::StepRecord>(program().steps.at)[i]; }
  int64_t* words(uint64_t i) { return at<int64_t>(program().words.at) + step(i).first_word; }
  /// Inputs of a step, then its outputs.
  rt::ValueRecord& operand(uint64_t i, int number) {
    const uint32_t id =
        at<uint32_t>(program().ids.at)[step(i).first_id + static_cast<uint32_t>(number)];
    return at<rt::ValueRecord>(program().values.at)[id];
  }
};

/// What opening, making a session of and running these bytes says, as a file at `path`; "" for
/// nothing. Their hash is made to fit, so that what is behind it is looked at.
inline std::string refusal_of(std::string bytes, const std::string& path, bool fix_hash = true) {
  if (fix_hash && bytes.size() >= sizeof(rt::FileHeader)) {
    auto& header = *reinterpret_cast<rt::FileHeader*>(bytes.data());
    header.hash = xxh64(bytes.data() + sizeof header, bytes.size() - sizeof header);
  }
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    CountedMemory memory{.largest = size_t{1} << 30};
    const brim_rt_allocator allocator = memory.allocator();
    const OpenedEngine engine(path, {.own_threads = 1}, &allocator);
    brim_rt_error error;
    OpenedEngine::check(brim_rt_verify(engine.session(), nullptr, &error), error);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

/// How many of `files` are refused whose tables were altered at random. Whatever these hold, a file
/// is refused, or runs within its memory, which sanitizers see.
inline int refused_alterations(const std::string& whole, const std::string& path, int files) {
  const auto& header = *reinterpret_cast<const rt::FileHeader*>(whole.data());
  std::mt19937_64 random(11);  // NOLINT: the same files each time
  const auto at_most = [&](uint64_t n) { return random() % (n + 1); };
  int refused = 0;
  for (int i = 0; i < files; ++i) {
    std::string other = whole;
    for (uint64_t changes = 1 + at_most(3); changes > 0; --changes) {
      // Tables lie before the proof and the weights.
      const uint64_t at = at_most(std::min<uint64_t>(header.weights.at, 16384) - 8);
      switch (at_most(3)) {
        case 0:
          other[at] = static_cast<char>(at_most(255));
          break;
        case 1:
          other[at] ^= static_cast<char>(1U << at_most(7));
          break;
        case 2:
          *reinterpret_cast<uint32_t*>(other.data() + at / 4 * 4) =
              static_cast<uint32_t>(at_most(1) ? at_most(64) : ~uint32_t{0} - at_most(64));
          break;
        default:
          *reinterpret_cast<uint64_t*>(other.data() + at / 8 * 8) = uint64_t{1} << at_most(63);
          break;
      }
    }
    refused += !refusal_of(other, path).empty();
  }
  return refused;
}

}  // namespace brim::tests
