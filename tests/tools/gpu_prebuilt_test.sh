#!/usr/bin/env bash
# tools/gpu_check.sh --prebuilt: archives that cannot be checked here, and folders of other results, are refused before anything
# runs, in one line that says why.
set -uo pipefail
unset CUDA_VISIBLE_DEVICES BRIM_DEPS # of the machine that this runs on
check=$(cd "$(dirname "$0")/../../tools" && pwd)/gpu_check.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
# refuses ARCHIVE WHY
refuses() {
  local said code
  said=$(timeout 20 "$check" --prebuilt "$1" --build "$folder/build" 2>&1)
  code=$?
  [ $code -eq 2 ] && [ "$(wc -l <<<"$said")" = 1 ] && [[ $said == "gpu_check: $folder/$1 $2"* ]] && return
  echo "$1: exit code $code, not 2, or not '$2': $said"
  failures=$((failures + 1))
}
# packed NAME LINE...: an archive that says this of itself.
packed() {
  mkdir -p brim-gpu
  printf '%s\n' "${@:2}" >brim-gpu/about
  tar -czf "$1" brim-gpu
  rm -r brim-gpu
}
machine=$(uname -m)

refuses nothing.tar.gz 'is not there; tools/gpu_pack.sh makes it'
echo text >text.tar.gz
refuses text.tar.gz 'is damaged'
packed whole.tar.gz emulated=1 "machine=$machine" glibc=2.0 commit=0123
head -c 60 whole.tar.gz >half.tar.gz
refuses half.tar.gz 'is damaged'
packed empty.tar.gz
refuses empty.tar.gz 'is not what tools/gpu_pack.sh makes'
packed odd.tar.gz emulated=maybe "machine=$machine" glibc=2.0
refuses odd.tar.gz 'is not what tools/gpu_pack.sh makes'
packed other.tar.gz emulated=1 machine=vax glibc=2.0
refuses other.tar.gz "is for vax, and this host is $machine"
packed new.tar.gz emulated=1 "machine=$machine" glibc=99.1
refuses new.tar.gz 'needs a C library of version 99.1'
# A folder of results that are of something else.
mkdir results
echo 'another commit' >results/about
said=$(timeout 20 "$check" correct --prebuilt whole.tar.gz --build "$folder/build" --out results 2>&1)
code=$?
if [ $code -ne 2 ] || [ "$said" != "gpu_check: $folder/results holds results of another commit or host; give another folder (--out), or remove it" ]; then
  echo "results of another commit: exit code $code: $said"
  failures=$((failures + 1))
fi
# A GPU that the archive has no kernels for.
mkdir bin
printf '#!/bin/sh\ncase "$*" in *compute_cap,name*) echo "8.0, A Card" ;; *) echo 0 ;; esac\n' >bin/nvidia-smi
chmod +x bin/nvidia-smi
PATH=$folder/bin:$PATH
packed sm90.tar.gz emulated=0 "architectures=90;100" "machine=$machine" glibc=2.0
refuses sm90.tar.gz 'has kernels for GPUs of compute capability 90;100 (without the point), and one here is 80'
# A driver that does not work says so itself.
printf '#!/bin/sh\necho "Failed to initialize NVML: Driver/library version mismatch"\nexit 18\n' >bin/nvidia-smi
said=$(timeout 20 "$check" correct --prebuilt sm90.tar.gz --build "$folder/build" --out "$folder/broken" 2>&1)
code=$?
if [ $code -ne 3 ] || [ "$said" != 'no GPU: nvidia-smi shows none: Failed to initialize NVML: Driver/library version mismatch; --emulated checks without' ]; then
  echo "a driver that does not work: exit code $code: $said"
  failures=$((failures + 1))
fi
exit $((failures > 0))
