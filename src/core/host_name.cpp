#include "core/host_name.h"

#include <unistd.h>

namespace brim {

std::string host_name() {
  char name[256] = "";
  (void)gethostname(name, sizeof(name) - 1);
  std::string text;
  for (const char* c = name; *c; ++c) text += *c > ' ' && *c < 127 ? *c : '?';
  return text.empty() ? "?" : text;
}

}  // namespace brim
