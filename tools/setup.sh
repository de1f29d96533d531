#!/usr/bin/env bash
# Installs what brim needs on Debian 12 or Ubuntu 24.04 (apt). Says nothing and takes no time when
# nothing is missing. `tools/setup.sh dev` adds what CI and contributors use: clang, its formatter and
# tidy, libFuzzer, python3; `tools/setup.sh package` what `make package` uses.
set -euo pipefail

# "command" is satisfied by any program of that name, not only by the package.
commands=(g++:g++ cmake:cmake ninja:ninja-build ccache:ccache pkg-config:pkg-config)
packages=(
  libdnnl-dev libhwy-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libxxhash-dev libmd-dev libcli11-dev
  libjpeg-dev libpng-dev libarchive-dev libcurl4-openssl-dev libboost-context-dev libgtest-dev libbenchmark-dev
)
case "${1:-}" in
  "") ;;
  dev)
    commands+=(clang++:clang clang-format:clang-format clang-tidy:clang-tidy python3:python3)
    packages+=(libomp-dev libclang-rt-dev)
    ;;
  package) commands+=(dpkg-shlibdeps:dpkg-dev file:file) ;;
  *)
    echo "usage: tools/setup.sh [dev|package]" >&2
    exit 2
    ;;
esac

missing=()
for entry in "${commands[@]}"; do
  command -v "${entry%%:*}" >/dev/null || missing+=("${entry##*:}")
done

fail() {
  echo "setup: $1" >&2
  echo "setup: missing packages (Debian and Ubuntu names): ${*:2}" >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  # Not Debian: CMake finds the libraries or names the missing ones.
  [ ${#missing[@]} -eq 0 ] && exit 0
  fail "apt is not available here; install these with your system's package manager." \
    "${missing[@]}" "${packages[@]}"
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env)
elif command -v sudo >/dev/null; then
  # Without a terminal nobody can type a password: fail instead of waiting for one.
  if [ -t 0 ]; then as_root=(sudo env); else as_root=(sudo -n env); fi
else
  fail "installing needs root or sudo, and this user has neither; ask for these packages." "${missing[@]}"
fi

echo "setup: installing ${missing[*]}"
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q)
"${apt[@]}" update >/dev/null || echo "setup: apt-get update failed; trying with the package lists at hand" >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null ||
  fail "apt-get install failed (see above)." "${missing[@]}"
