#!/usr/bin/env bash
# gpu_deps.sh [FOLDER]: copies what brim is built with from this machine (Debian or Ubuntu, after tools/setup.sh) to
# FOLDER (build/gpu-deps), laid out as under /usr. Carry it to a GPU host that has no packages, and build there with
# BRIM_DEPS=FOLDER. That host needs a C library at least as new as this machine's. Optional parts stay behind.
set -euo pipefail
from=$PWD
CDPATH= cd "$(dirname "$0")/.."
to=$PWD/build/gpu-deps
case ${1:-} in '') ;; /*) to=$1 ;; *) to=$from/$1 ;; esac
packages=(libdnnl-dev libhwy-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libxxhash-dev libmd-dev
          libcli11-dev libgtest-dev)

fail() {
  echo "gpu_deps: $1" >&2
  exit 1
}
command -v dpkg-query >/dev/null || fail "dpkg is not available here; run this on Debian or Ubuntu"
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || fail "$package is missing; run tools/setup.sh"
done
[ ! -e "$to" ] || [ -f "$to/glibc" ] || fail "$to is there and was not made by this script; name another folder"
rm -rf "$to"
mkdir -p "$to"
touch "$to/glibc" # it is this script's, whatever happens below

# take FILE: to the same place under the folder; a link becomes the file it names.
take() { install -D -m 644 "$1" "$to/${1#/usr/}"; }
# take_library FILE: the file itself, and links for its names at link time and at run time.
take_library() {
  local real folder
  real=$(readlink -f "$1")
  folder=$to/$(dirname "${1#/usr/}")
  install -D -m 644 "$real" "$folder/$(basename "$real")"
  for name in "$(basename "$1")" "$(readelf -d "$real" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"; do
    [ -e "$folder/$name" ] || ln -s "$(basename "$real")" "$folder/$name"
  done
}

# Headers, CMake's package files and libraries; no pkg-config files, which name /usr.
mapfile -t files < <(dpkg-query -L "${packages[@]}" | grep -E '^/usr/(include/|share/cmake/|lib/.*/cmake/|lib/.*\.a$)' | sort -u)
mapfile -t libraries < <(dpkg-query -L "${packages[@]}" | grep -E '^/usr/lib/.*\.so$' | sort -u)
for file in "${files[@]}"; do
  [ ! -f "$file" ] || take "$file"
done
for library in "${libraries[@]}"; do
  take_library "$library"
  # What it needs beyond a compiler's own libraries.
  while read -r needed; do
    case $(basename "$needed") in
      libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libstdc++.so* | libgcc_s.so* | libgomp.so*) ;;
      *) take_library "/usr${needed#/usr}" ;;
    esac
  done < <(ldd "$library" | sed -n 's/.* => \(\/.*\) (.*/\1/p')
done
ldd --version | head -1 | grep -oE '[0-9.]+$' >"$to/glibc"
echo "gpu_deps: $to, $(du -sh "$to" | cut -f1), C library $(cat "$to/glibc"): carry it over and set BRIM_DEPS to it"
