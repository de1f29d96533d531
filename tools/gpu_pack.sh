#!/usr/bin/env bash
# gpu_pack.sh [--out FILE] [--build FOLDER] [--architectures 'N;N'] [--emulated]: packs brim for GPU hosts without compilers.
#
# What tools/gpu_check.sh --prebuilt needs on a host that has a GPU and its driver: library, CUDA backend, command and
# tests, compiled here for release and stripped, with the libraries they need, scripts, and a list of what it is, in FILE
# (build/brim-gpu.tar.gz).
#
# The host needs Linux on the same kind of CPU and a C library at least as new as this machine's: Debian 12's serves
# Ubuntu 24.04, too. NVIDIA's libraries are never packed; what the host has of them is found there. --architectures: the
# GPUs' compute capabilities without the point, 90 (H100, H200) unless told. --emulated: the emulation of CUDA in the
# backend's place, to try pack and check without a GPU.
set -euo pipefail
from=$PWD
CDPATH= cd "$(dirname "$0")/.."
out=$PWD/build/brim-gpu.tar.gz build=$PWD/build/gpu-pack architectures=90 emulated=0
most=$((40 << 20)) # bytes of the archive: what is carried to a GPU is to be there in seconds
# wrong WHAT: of how it was called.
wrong() {
  { echo "gpu_pack: $1" && sed -n '2s/^# \(.*\): .*/usage: tools\/\1; --help says more/p' "tools/${0##*/}"; } >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --emulated) emulated=1 ;;
    --out | --build | --architectures)
      [ -n "${2:-}" ] || wrong "$1 needs a value"
      case $1,$2 in --architectures,* | *,/*) value=$2 ;; *) value=$from/$2 ;; esac
      declare "${1#--}=$value"
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /{/^# /s/^# //p;/^#$/s/.*//p}' "tools/${0##*/}"
      exit 0
      ;;
    *) wrong "what is '$1'?" ;;
  esac
  shift
done
fail() {
  echo "gpu_pack: $1" >&2
  exit 1
}
[[ $architectures =~ ^[0-9]+(;[0-9]+)*$ ]] || fail "--architectures is '$architectures'; give numbers such as 90 or '80;90'"

options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBRIM_EXAMPLES=OFF -DBRIM_BENCH=OFF)
if [ $emulated -eq 1 ]; then
  options+=(-DBRIM_CUDA=OFF)
  backend=brim_cuda_emulated plugin=$build/emulated/libbrim_cuda_emulated.so own_ops=libown_op_emulated.so
else
  options+=(-DBRIM_CUDA=ON "-DBRIM_CUDA_ARCHITECTURES=$architectures" -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON)
  backend=brim_cuda plugin=$build/lib/libbrim_cuda.so own_ops=libown_op_cuda.so
fi
# What is packed finds its libraries beside itself, those of libraries, too (DT_RPATH is inherited); nothing else that
# runs on the host, as its Python, is given them.
for kind in EXE SHARED MODULE; do options+=("-DCMAKE_${kind}_LINKER_FLAGS=-Wl,--disable-new-dtags"); done
# Readers of archives and downloads would bring libraries larger than brim.
options+=(-DCMAKE_DISABLE_FIND_PACKAGE_LibArchive=ON -DCMAKE_DISABLE_FIND_PACKAGE_CURL=ON)
mkdir -p "$build" "$(dirname "$out")"
cmake -S . -B "$build" "${options[@]}" >"$build/configure.log" 2>&1 || { tail -20 "$build/configure.log"; fail "CMake failed"; }
echo "gpu_pack: building in $build, which takes minutes at first"
ninja -C "$build" --quiet brim brim-cli contract_test backend_test extend_test "$backend"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
to=$stage/brim-gpu
mkdir -p "$to"/{bin,lib,tests,plugins,source}
take() { install -s -m 755 "$1" "$to/$2"; }
take "$build/bin/brim" bin/
take "$build/tests/contract_test" tests/
take "$build/tests/backend_test" tests/
take "$build/tests/extend_test" tests/
take "$build/plugins/$own_ops" plugins/
take "$plugin" lib/
for library in libbrim.so libbrim_datasets.so libbrim_command.so; do
  take "$(readlink -f "$build/lib/$library")" "lib/$(readelf -d "$build/lib/$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
done
# Not the C library, which belongs to the host, with its loader; nothing of NVIDIA's.
needs=$(ldd "$build/bin/brim" "$build/tests/contract_test" "$build/tests/backend_test" "$build/tests/extend_test" "$build/plugins/$own_ops" "$plugin")
! lost=$(grep 'not found' <<<"$needs" | grep -v 'lib\(cu\|nv\|nccl\)') || fail "a library that brim is linked to is missing here:$lost"
sed -n 's/.* => \(\/.*\) (.*/\1/p' <<<"$needs" | sort -u |
  while read -r needed; do
    case $(basename "$needed") in
      libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | ld-linux* | libbrim*) ;;
      libcu* | libnv* | libnccl*) fail "$needed is NVIDIA's and may not be packed" ;;
      *) install -s -m 644 "$(readlink -f "$needed")" "$to/lib/$(basename "$needed")" ;;
    esac
  done
# What the scripts and tests read, in a tree like the project's.
tar -cf - tools/gpu_check.sh tools/gpu_steps.sh tests/backend/cuda/cuda_tests.py tests/backend/cuda/cuda_missing.txt tools/ncu_table.py bench/gpu_torch.py \
  bench/compare include/brim/ops | tar -xf - -C "$to/source"
commit=$(git rev-parse --verify -q HEAD 2>/dev/null || true)
[ -z "$commit" ] || git diff --quiet HEAD 2>/dev/null || commit=$commit-changed
cat >"$to/about" <<ABOUT
commit=$commit
emulated=$emulated
architectures=$architectures
machine=$(uname -m)
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
ABOUT
# Alike whoever packs and when.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$stage" -cf - brim-gpu | gzip -9n >"$out.new" || { rm -f "$out.new"; fail "$out cannot be written; is the disk full?"; }
size=$(stat -c %s "$out.new")
[ "$size" -le "$most" ] || { rm "$out.new"; fail "the archive would be $((size >> 20)) MiB, more than $((most >> 20)); pack fewer --architectures"; }
mv "$out.new" "$out"
echo "gpu_pack: $out, $((size >> 20)) MiB, for $([ $emulated -eq 1 ] && echo 'the emulation' || echo "sm_${architectures//;/, sm_}"): carry it over and run tools/gpu_check.sh --prebuilt ${out##*/}"
