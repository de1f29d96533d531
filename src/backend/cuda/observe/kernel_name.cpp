#include "backend/cuda/observe/kernel_name.h"

#include <cstddef>

namespace brim::cuda {

std::string short_kernel_name(std::string_view demangled) {
  constexpr size_t kMax = 96;
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string text;
  int depth = 0;  // of <>
  for (size_t i = 0; i < demangled.size(); ++i) {
    if (demangled.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    const char c = demangled[i];
    if (demangled.substr(i).starts_with("::")) {
      // What stands before is a namespace or class.
      const size_t begin = text.find_last_of("<,( &*");
      text.resize(begin == std::string::npos ? 0 : begin + 1);
      ++i;
      continue;
    }
    if (c == '(' && depth == 0) break;  // the parameters
    if (c == ' ' && depth == 0) {       // behind the result's type
      text.clear();
      continue;
    }
    depth += c == '<' ? 1 : c == '>' ? -1 : 0;
    text += c;
  }
  if (text.empty()) text = demangled;
  if (text.size() > kMax) text = text.substr(0, kMax - 3) + "...";
  return text;
}

}  // namespace brim::cuda
