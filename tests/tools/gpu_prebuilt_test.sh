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
# Warnings around what nvidia-smi is asked for.
printf '#!/bin/sh\necho "a warning"\ncase "$*" in *WARNING*) exit 6 ;; *compute_cap,name*) echo "8.0, A Card" ;; *) echo 0 ;; esac\necho "WARNING: infoROM is corrupted"\nexit 14\n' >bin/nvidia-smi
refuses sm90.tar.gz 'has kernels for GPUs of compute capability 90;100 (without the point), and one here is 80'
# says WHAT CODE LINE OPTIONS...: the same for a part of its own, whatever line it is.
says() {
  local said code
  said=$(timeout 20 "$check" correct --prebuilt sm90.tar.gz --build "$folder/build" "${@:4}" 2>&1)
  code=$?
  [ $code -eq "$2" ] && [ "$said" = "$3" ] && return
  echo "$1: exit code $code: $said"
  failures=$((failures + 1))
}
# Results that do not say what they are of, a full disk, another check at work.
mkdir old full
echo '{}' >old/gpu-check.json
printf '#!/bin/sh\ncase "$*" in *compute_cap,name*) echo "9.0, A Card" ;; *) echo 0 ;; esac\n' >bin/nvidia-smi
says 'older results' 2 "gpu_check: $folder/old holds results of another commit or host; give another folder (--out), or remove it" --out old
ln -s /dev/full full/room
says 'a full disk' 2 "gpu_check: --out $folder/full cannot be written, or its disk is full" --out full
says 'a folder that is a file' 2 "gpu_check: --build $folder/text.tar.gz cannot be written" --build text.tar.gz
if command -v flock >/dev/null; then
  mkdir busy
  exec 7>busy/lock
  flock 7
  says 'another check' 2 "gpu_check: another check works in $folder/busy; wait for its end, or give another folder (--out)" --out busy 7>&-
  says 'another check, of the same build' 2 "gpu_check: another check works in $folder/busy; wait for its end, or give another folder (--build)" --build busy 7>&-
fi
# A GPU that the backend cannot use, checked in a folder with a quote: why is in the report.
odd="$folder/it's \"odd\""
mkdir -p "$odd"/{bin,tests}
printf '%s\n' emulated=0 architectures=90 "machine=$machine" glibc=2.0 commit=0123 >"$odd/about"
printf '#!/bin/sh\necho "no GPU: the driver is too old"\necho "[  PASSED  ] 0 tests."\n' | tee "$odd/bin/brim" >"$odd/tests/contract_test"
chmod +x "$odd"/*/*
timeout 60 "$check" correct --prebuilt "$odd" --out "$odd/out" >said 2>&1
code=$?
if [ $code -ne 1 ] || ! grep -q '"devices are found", "state": "failed", .*"exit code 1: no GPU: the driver is too old; see' "$odd/out/gpu-check.json" || ls "$odd/out" | grep -q A-Card; then
  echo "a GPU that cannot be used: exit code $code: $(cat said)"
  failures=$((failures + 1))
fi
printf '#!/bin/sh\necho "Field \\"compute_cap\\" is not a valid field to query."\nexit 2\n' >bin/nvidia-smi
says 'a driver that knows too little' 3 'no GPU: the driver is too old to say what the GPU is; install 580 or newer; an archive of tools/gpu_pack.sh --emulated checks without' --out new
printf '#!/bin/sh\nsleep 9\n' >bin/nvidia-smi
said=$(timeout --preserve-status 2 "$check" correct --prebuilt sm90.tar.gz --build "$folder/build" --out new 2>&1)
code=$?
if [ $code -ne 143 ] || [ "$said" != 'gpu_check: stopped by SIGTERM before anything was checked' ]; then
  echo "stopped early: exit code $code: $said"
  failures=$((failures + 1))
fi
# A driver that does not work says so itself.
printf '#!/bin/sh\necho "Failed to initialize NVML: Driver/library version mismatch"\nexit 18\n' >bin/nvidia-smi
said=$(timeout 20 "$check" correct --prebuilt sm90.tar.gz --build "$folder/build" --out "$folder/broken" 2>&1)
code=$?
if [ $code -ne 3 ] || [ "$said" != 'no GPU: nvidia-smi shows none: Failed to initialize NVML: Driver/library version mismatch; an archive of tools/gpu_pack.sh --emulated checks without' ]; then
  echo "a driver that does not work: exit code $code: $said"
  failures=$((failures + 1))
fi
exit $((failures > 0))
