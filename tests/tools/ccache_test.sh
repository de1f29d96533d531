#!/usr/bin/env bash
# cmake/BrimDefaults.cmake: what a compilation brings back from ccache was made of the headers as they are now.
# ccache_test.sh COMPILER
set -euo pipefail
command -v ccache >/dev/null || { echo "skipped: no ccache"; exit 0; }
defaults=$(cd "$(dirname "$0")/../../cmake" && pwd)/BrimDefaults.cmake
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset "${!CCACHE_@}" CMAKE_CXX_COMPILER_LAUNCHER CXXFLAGS
export CCACHE_DIR=$folder/cache
mkdir -p "$folder/one/src"
cat >"$folder/one/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(tried CXX)
include(GNUInstallDirs)
include("$defaults")
add_executable(tried src/main.cpp)
target_precompile_headers(tried PRIVATE \${PROJECT_SOURCE_DIR}/src/number.h)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(tried PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
endif()
CMAKE
echo '#include "number.h"
int main() { return number; }' >"$folder/one/src/main.cpp"
cp -r "$folder/one" "$folder/other"

# says FOLDER NUMBER: builds with that number in the header; what the program ends with.
says() {
  printf '#pragma once\ninline constexpr int number = %s;\n' "$2" >"$folder/$1/src/number.h"
  [ -d "$folder/$1/build" ] || cmake -S "$folder/$1" -B "$folder/$1/build" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" >/dev/null || return
  ninja -C "$folder/$1/build" --quiet >&2 || return
  "$folder/$1/build/bin/tried" && echo 0 || echo $?
}

compiler=$1
failures=0
# In the second folder everything comes from the cache at first, the precompiled header too.
for turn in one:1 other:1 one:2 other:3 one:1 one:4; do
  got=$(says "${turn%:*}" "${turn#*:}")
  [ "$got" = "${turn#*:}" ] || { echo "$turn: the program was made of the header that said $got"; failures=$((failures + 1)); }
done
hits=$(ccache --print-stats | awk '/^(direct|preprocessed)_cache_hit/ { n += $2 } END { print n }')
[ "$hits" -gt 0 ] || { echo "nothing came from the cache"; failures=$((failures + 1)); }
exit $((failures > 0))
