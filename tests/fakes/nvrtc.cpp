// A fake of NVRTC, for tests of formulas that are compiled at run time: it compiles the same text
// by the host's compiler over the emulation of CUDA, to a shared library that the emulation loads
// (src/backend/cuda/emulation/loaded_code.cpp). brim's headers are those that it is given; what
// stands for the standard library's and CUDA's (standard.cuh) it leaves to the host's.
// BRIM_FAKE: "old-nvrtc" is of CUDA 11.8, "few-gpus" knows none after 8.0, "broken-nvrtc" fails,
// "instant-nvrtc" returns the text as its code.
#include <stdlib.h>  // mkdtemp is POSIX

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Program {
  std::string name, text, log, code;
  std::vector<std::pair<std::string, std::string>> headers;
};

constexpr int kArchs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
constexpr int kCompilation = 6, kBuiltins = 7;

// A thread of the kernel, with its arguments copied.
constexpr const char* kBind = R"(
#include <functional>
#include <tuple>
#include <utility>
namespace {
template <class... P, size_t... I>
std::function<void()> bound(void (*kernel)(P...), void** args, std::index_sequence<I...>) {
  return [kernel, values = std::tuple<P...>(*static_cast<P*>(args[I])...)] {
    std::apply(kernel, values);
  };
}
template <class... P>
std::function<void()> bound(void (*kernel)(P...), void** args) {
  return bound(kernel, args, std::index_sequence_for<P...>());
}
}  // namespace
#define BRIM_BIND(name)                                                        \
  extern "C" void brim_bind_##name(void** args, std::function<void()>* thread) { \
    *thread = bound(&brim_formula_text::name, args);                           \
  }
)";

std::mutex mutex;
std::string calls, given;

bool wanted(const char* what) {
  const char* names = std::getenv("BRIM_FAKE");
  return names && std::strstr(names, what);
}
size_t archs() { return wanted("few-gpus") ? 2 : std::size(kArchs); }

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// The name of the program's kernel.
std::string kernel_of(const std::string& text) {
  constexpr const char* kBefore = "__global__ void ";
  const size_t begin = std::min(text.rfind(kBefore), text.size() - std::strlen(kBefore));
  const size_t name = begin + std::strlen(kBefore);
  return text.substr(name, text.find('(', name) - name);
}

int compile(Program& p) {
  std::string folder = (fs::temp_directory_path() / "brim-nvrtc-XXXXXX").string();
  if (!mkdtemp(folder.data())) return kBuiltins;
  const fs::path in(folder);
  for (const auto& [name, text] : p.headers)
    if (name.starts_with("brim/") && name != "brim/standard.cuh")
      write(in / "include" / name, text);
  write(in / "program.cpp", p.text + kBind + "BRIM_BIND(" + kernel_of(p.text) + ")\n");
  const std::string emulation = variable("BRIM_SOURCE_DIR", ".") + "/src/backend/cuda/emulation";
  const std::string command = variable("BRIM_FAKE_COMPILER", "c++") +
                              " -std=c++20 -O1 -w -fPIC -shared -D__CUDACC_RTC__ "
                              "-DBRIM_STANDARD_MATH -I'" +
                              folder + "/include' -I'" + emulation + "' -o '" + folder +
                              "/code' '" + folder + "/program.cpp' 2>'" + folder + "/log'";
  const int result = std::system(command.c_str());
  p.log = contents(in / "log");
  if (result == 0) {
    const std::string library = contents(in / "code");
    const uint64_t bytes = library.size();
    p.code = "brimfake";
    p.code.append(reinterpret_cast<const char*>(&bytes), sizeof bytes).append(library);
  }
  std::error_code ignored;
  fs::remove_all(in, ignored);
  return result == 0 ? 0 : kCompilation;
}

int size_of(const std::string& text, size_t* bytes) {
  *bytes = text.size() + 1;
  return 0;
}
int copy(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return 0;
}

}  // namespace

extern "C" {
void brim_fake_attach(const void*);
void brim_fake_attach(const void*) {}

/// For tests: a line for each program compiled since the last time.
const char* brim_fake_calls();
const char* brim_fake_calls() {
  const std::lock_guard lock(mutex);
  given.swap(calls);
  calls.clear();
  return given.c_str();
}

int nvrtcVersion(int* major, int* minor);
int nvrtcVersion(int* major, int* minor) {
  *major = wanted("old-nvrtc") ? 11 : 13;
  *minor = wanted("old-nvrtc") ? 8 : 99;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count);
int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(archs());
  return 0;
}
int nvrtcGetSupportedArchs(int* list);
int nvrtcGetSupportedArchs(int* list) {
  std::copy_n(kArchs, archs(), list);
  return 0;
}
const char* nvrtcGetErrorString(int result);
const char* nvrtcGetErrorString(int result) {
  return result == kCompilation ? "NVRTC_ERROR_COMPILATION"
                                : "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
}
int nvrtcCreateProgram(Program** program, const char* text, const char* name, int count,
                       const char* const* texts, const char* const* names);
int nvrtcCreateProgram(Program** program, const char* text, const char* name, int count,
                       const char* const* texts, const char* const* names) {
  *program = new Program{name, text, "", "", {}};
  for (int i = 0; i < count; ++i) (*program)->headers.emplace_back(names[i], texts[i]);
  return 0;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* options);
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  std::string line = program->name;
  for (int i = 0; i < count; ++i) line.append(" ").append(options[i]);
  {
    const std::lock_guard lock(mutex);
    calls += line + "\n";
  }
  if (wanted("broken-nvrtc")) return kBuiltins;
  if (!wanted("instant-nvrtc")) return compile(*program);
  program->code = program->text;
  return 0;
}
int nvrtcDestroyProgram(Program** program);
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
int nvrtcGetProgramLogSize(Program* program, size_t* bytes);
int nvrtcGetProgramLogSize(Program* program, size_t* bytes) { return size_of(program->log, bytes); }
int nvrtcGetProgramLog(Program* program, char* log);
int nvrtcGetProgramLog(Program* program, char* log) { return copy(program->log, log); }
int nvrtcGetPTXSize(Program* program, size_t* bytes);
int nvrtcGetPTXSize(Program* program, size_t* bytes) { return size_of(program->code, bytes); }
int nvrtcGetPTX(Program* program, char* code);
int nvrtcGetPTX(Program* program, char* code) { return copy(program->code, code); }
int nvrtcGetCUBINSize(Program* program, size_t* bytes);
int nvrtcGetCUBINSize(Program* program, size_t* bytes) { return size_of(program->code, bytes); }
int nvrtcGetCUBIN(Program* program, char* code);
int nvrtcGetCUBIN(Program* program, char* code) { return copy(program->code, code); }
}
