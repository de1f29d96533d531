// See cuda_libraries.h.
#include "core/cuda_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace brim {
namespace {

namespace fs = std::filesystem;

/// The file a handle was opened from.
std::string path_of(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name || !*map->l_name)
    return otherwise;
  return map->l_name;
}

OpenedLibrary open_file(const fs::path& path, int flags) {
  if (void* handle = dlopen(path.c_str(), flags)) return {handle, path.string(), ""};
  const char* why = dlerror();
  return {nullptr, path.string(), why ? why : "unknown error"};
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

std::vector<fs::path> cuda_library_folders() {
  std::vector<fs::path> folders;
  const char* given = std::getenv("BRIM_CUDA_LIBRARIES");
  const std::string_view text = given ? given : "";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    const fs::path folder(text.substr(begin, end - begin));
    begin = end + 1;
    if (folder.empty()) continue;
    folders.push_back(folder);
    std::vector<fs::path> inside;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), last; !error && at != last; at.increment(error))
      if (std::error_code ignored; fs::is_directory(at->path() / "lib", ignored))
        inside.push_back(at->path() / "lib");
    std::sort(inside.begin(), inside.end());  // the file system's order is nobody's
    folders.insert(folders.end(), inside.begin(), inside.end());
  }
  return folders;
}

OpenedLibrary open_cuda_library(const std::string& soname) {
  constexpr int kFlags = RTLD_LAZY | RTLD_LOCAL;
  for (const fs::path& folder : cuda_library_folders())
    if (is_file(folder / soname)) return open_file(folder / soname, kFlags);
  OpenedLibrary found = open_file(soname, kFlags);
  if (found.handle) return {found.handle, path_of(found.handle, soname), ""};
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64"})
    if (is_file(fs::path(folder) / soname)) return open_file(fs::path(folder) / soname, kFlags);
  // The loader says the same words for every name it finds nowhere.
  if (found.error.find("No such file") != std::string::npos && found.error.starts_with(soname))
    return {};
  return found;
}

void preload_cuda_libraries() {
  // In the order in which they need one another.
  for (const char* soname : {"libcudart.so.13", "libnvrtc.so.13", "libcublasLt.so.13",
                             "libcublas.so.13", "libcudnn.so.9", "libnccl.so.2", "libcupti.so.13"})
    for (const fs::path& folder : cuda_library_folders())
      if (is_file(folder / soname) && open_file(folder / soname, RTLD_LAZY | RTLD_GLOBAL).handle)
        break;
}

}  // namespace brim
