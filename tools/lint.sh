#!/usr/bin/env bash
# Static checks: `tools/lint.sh [format|includes|tidy]...`, all three by default.
# clang-tidy runs over every file of src/ and bench/command (or those given in TIDY_FILES), one process per core.
set -euo pipefail
CDPATH= cd "$(dirname "$0")/.."

check_format() {
  local script
  for script in .ci/run .ci/full tools/*.sh tests/tools/*.sh; do bash -n "$script"; done
  local folders=()
  for folder in include src tests bench examples cmake lab; do [ ! -d $folder ] || folders+=("$folder"); done
  find "${folders[@]}" \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -P "$(nproc)" -n 40 clang-format --dry-run -Werror
}

check_includes() { python3 tools/check_includes.py; }

check_tidy() {
  # clang's own compile commands, gcc's name warnings that clang-tidy does not know; and one instruction
  # set, for the others are the same text.
  mkdir -p build/tidy
  cmake --preset clang -B build/tidy -DBRIM_BENCH=OFF -DBRIM_WERROR=OFF -DBRIM_PCH=OFF -DBRIM_UNITY=OFF -DCMAKE_CXX_FLAGS=-DHWY_COMPILE_ONLY_STATIC \
    >build/tidy/configure.log 2>&1 || { cat build/tidy/configure.log; return 1; }
  # Biggest files first, so that the cores finish together.
  if [ -n "${TIDY_FILES:-}" ]; then printf '%s\n' $TIDY_FILES; else find src bench/command -name '*.cpp' -printf '%s %p\n' | sort -rn | cut -d' ' -f2-; fi |
    xargs -P "$(nproc)" -n 4 clang-tidy -p build/tidy --quiet 2> >(grep -vE 'warnings generated|^Suppressed|^Use -header-filter' >&2)
}

[ $# -gt 0 ] || set -- format includes tidy
for check in "$@"; do
  case "$check" in
    format | includes | tidy) "check_$check" ;;
    *) echo "usage: tools/lint.sh [format|includes|tidy]..." >&2; exit 2 ;;
  esac
done
