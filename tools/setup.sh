#!/usr/bin/env bash
# Installs what brim needs on Debian 12 or Ubuntu 24.04 (apt). Says nothing and takes no time when
# nothing is missing. `tools/setup.sh dev` adds what CI and contributors use: clang, its formatter and
# tidy, libFuzzer, python3; `tools/setup.sh docs` what `make docs` uses; `tools/setup.sh package` what `make package` uses; `tools/setup.sh ranks` Open MPI's mpirun; `tools/setup.sh aarch64` the cross compiler
# for 64-bit ARM with these libraries of its architecture, which apt is told of, and qemu-user.
set -euo pipefail

# "command" is satisfied by any program of that name, not only by the package.
commands=(g++:g++ cmake:cmake ninja:ninja-build ccache:ccache pkg-config:pkg-config)
packages=(
  libdnnl-dev libhwy-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libxxhash-dev libmd-dev libcli11-dev
  libjpeg-dev libpng-dev libarchive-dev libcurl4-openssl-dev libcpp-httplib-dev libncurses-dev libboost-context-dev libgtest-dev libbenchmark-dev libjs-chart.js
)
case "${1:-}" in
  "") ;;
  dev)
    commands+=(clang++:clang clang-format:clang-format clang-tidy:clang-tidy python3:python3)
    packages+=(libomp-dev libclang-rt-dev)
    ;;
  docs)
    commands=(doxygen:doxygen python3:python3)
    packages=()
    ;;
  ranks) commands+=(mpirun:openmpi-bin) ;;
  package) commands+=(dpkg-shlibdeps:dpkg-dev file:file) ;;
  aarch64)
    commands=(aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64:qemu-user cmake:cmake ninja:ninja-build pkg-config:pkg-config)
    foreign=arm64
    ;;
  *)
    echo "usage: tools/setup.sh [dev|docs|package|ranks|aarch64]" >&2
    exit 2
    ;;
esac

# Those without code are the same for all architectures.
[ -z "${foreign:-}" ] || for i in "${!packages[@]}"; do
  case ${packages[i]} in nlohmann-json3-dev | libcli11-dev | libjs-chart.js) ;; *) packages[i]+=:$foreign ;; esac
done

missing=()
for entry in "${commands[@]}"; do
  command -v "${entry%%:*}" >/dev/null || missing+=("${entry##*:}")
done

# fail WHY PACKAGE...: one line that says what and how to go on.
fail() {
  echo "setup: error: $1 install these packages (names of Debian and Ubuntu): ${*:2}" >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  # Not Debian: CMake finds the libraries or names the missing ones.
  [ ${#missing[@]} -eq 0 ] && exit 0
  fail "there is no apt here to install what may be missing:" "${missing[@]}" "${packages[@]}"
fi

architecture=${foreign:-$(dpkg --print-architecture)}
installed=$(dpkg-query -W -f '${Package}:${Architecture} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qxE "${package%:*}:($architecture|all) installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env)
elif command -v sudo >/dev/null; then
  # Without a terminal nobody can type a password: fail instead of waiting for one.
  if [ -t 0 ]; then as_root=(sudo env); else as_root=(sudo -n env); fi
else
  fail "installing needs root or sudo, and this user has neither: have somebody" "${missing[@]}"
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp 2>/dev/null) || fail "no temporary file can be made in ${TMPDIR:-/tmp}: set TMPDIR to a folder that can be written, or have somebody" "${missing[@]}"
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q)
[ -z "${foreign:-}" ] || "${as_root[@]}" dpkg --add-architecture "$foreign"
"${apt[@]}" update >"$log" 2>&1 || true # the lists at hand may do
if "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >"$log.install" 2>&1; then
  rm -f "$log" "$log.install"
else
  cat "$log.install" >>"$log"
  why=$(grep -m1 -E '^E: ' "$log.install" || tail -1 "$log.install")
  case $why in *Unable\ to\ locate* | *no\ installation\ candidate*) # for want of package lists?
    why=$(grep -m1 -oE '(Temporary failure|Could not (resolve|connect)).*' "$log" || echo "$why") ;;
  esac
  rm -f "$log.install"
  fail "apt-get failed (${why:0:200}; all it said is in $log); see to the network or the package sources and try again, or" "${missing[@]}"
fi
