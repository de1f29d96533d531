#!/usr/bin/env bash
# gpu_check.sh [correct] [fast] [rest] [--emulated | --prebuilt ARCHIVE] [--data FOLDER] [--build FOLDER] [--out FOLDER]: checks brim on a host with GPUs.
#
# In three parts, one after the other unless some are named; each may be run alone, and again. correct (4 minutes): the
# contract suite and the GPU tests on every GPU, each failure again by itself, what libraries can compute and how they are
# timed, 200 losses beside the CPU's. fast (8 minutes): the benchmarks, in turns with PyTorch where Python has it, what ncu
# says of the dearest kernels. rest (9 minutes): tutorial-cnn trained there and on the CPU (--data CIFAR-10, else shapes10),
# streams, memory, a lost GPU and the watching libraries by themselves, compute-sanitizer. What matters most comes first,
# and what finds no time is skipped. The first part builds brim before its time begins (C++20 compiler, CMake, Ninja, CUDA 13
# toolkit; libraries of brim's own from BRIM_DEPS, which tools/gpu_deps.sh prepares). Tables of steps and targets come
# last. --out (gpu-check) gets gpu-check.json after every step, the logs line by line, what was measured of algorithms in
# cache/, and all of it in logs.tar.gz; parts run later into the same folder are added. The exit code is 0 if no step
# failed, 3 without a GPU, 4 if what a part is about found no time, 128 and more if a signal stopped it; a target that is
# missed is no failure. --emulated: no GPU, the emulation of CUDA in its place and tiny benchmarks, to test this script.
# --prebuilt: what tools/gpu_pack.sh has packed, or the folder that was in it, is checked; no compiler and no toolkit are
# needed. cuDNN and NCCL inside Python's site-packages are found by themselves; BRIM_CUDA_LIBRARIES names other folders.
# BRIM_PYTHON: the Python that has PyTorch.
set -uo pipefail
from=$PWD
CDPATH= cd "$(dirname "$0")/.." || exit 2
parts='correct fast rest' chosen=() given=()
emulated=0 prebuilt='' data='' build=$PWD/build/gpu-check out=$from/gpu-check
# absolute PATH: as it is seen from where the caller is.
absolute() { case $1 in /*) echo "$1" ;; *) echo "$from/$1" ;; esac; }
[ -z "${BRIM_DEPS:-}" ] || BRIM_DEPS=$(absolute "$BRIM_DEPS")
# wrong WHAT: of how it was called.
wrong() {
  { echo "gpu_check: $1" && sed -n '2s/^# \(.*\): .*/usage: tools\/\1; --help says more/p' "tools/${0##*/}"; } >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    correct | fast | rest) chosen+=("$1") ;;
    --emulated)
      emulated=1
      given+=(--emulated)
      ;;
    --prebuilt | --data | --build | --out)
      [ -n "${2:-}" ] || wrong "$1 needs a path"
      declare "${1#--}=$(absolute "$2")"
      given+=("$1" "$(absolute "$2")")
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /{/^# /s/^# //p;/^#$/s/.*//p}' "tools/${0##*/}"
      exit 0
      ;;
    *) wrong "what is '$1'? Parts are $parts" ;;
  esac
  shift
done
[ $emulated -eq 0 ] || [ -z "$prebuilt" ] || wrong 'an archive says by itself whether it is of the emulation (tools/gpu_pack.sh --emulated)'
[ -n "$prebuilt" ] || [ -e CMakeLists.txt ] || wrong 'there is nothing to build here; give --prebuilt ARCHIVE'
[ -z "$data" ] || [ -d "$data" ] || wrong "--data $data is no folder"
# Each part is a process of its own: one that hangs or is stopped takes nothing of another one with it.
if [ ${#chosen[@]} -ne 1 ]; then
  worst=0
  [ ${#chosen[@]} -gt 0 ] || read -ra chosen <<<"$parts"
  trap 'kill $child; wait $child; exit' INT TERM HUP # a part in the background does not hear SIGINT
  for part in "${chosen[@]}"; do
    bash "tools/${0##*/}" "$part" "${given[@]}" --out "$out" &
    child=$!
    wait $child
    code=$?
    [ $code -eq 0 ] || [ $worst -eq 1 ] || worst=$code
    [ $code -lt 2 ] || [ $code -eq 4 ] || break # no archive, no GPU
  done
  exit $worst
fi
part=${chosen[0]}
began=$SECONDS
python=${BRIM_PYTHON:-python3}
[[ $python != */* ]] || python=$(absolute "$python")
# shellcheck source=tools/gpu_steps.sh
. tools/gpu_steps.sh
heed
# only_one FD FOLDER OPTION: refuses a folder that another check works in. The lock is open as FD.
only_one() {
  ! command -v flock >/dev/null || flock -n "$1" && return
  echo "gpu_check: another check works in $2; wait for its end, or give another folder ($3)" >&2
  exit 2
}

# open_build: --build, for this check alone.
open_build() {
  if ! { mkdir -p "$build" && exec 8>"$build/lock"; } 2>/dev/null; then
    echo "gpu_check: --build $build cannot be written" >&2
    exit 2
  fi
  only_one 8 "$build" --build
}
# Unpacked first: the archive says what it is of.
if [ -n "$prebuilt" ]; then
  no_archive() {
    echo "gpu_check: $prebuilt $1" >&2
    exit 2
  }
  [ -e "$prebuilt" ] || no_archive 'is not there; tools/gpu_pack.sh makes it'
  if [ -d "$prebuilt" ]; then
    packed=$prebuilt
  else
    packed=$build/brim-gpu
    open_build
    rm -rf "$packed"
    tar -xzf "$prebuilt" -C "$build" 2>/dev/null || no_archive 'is damaged, or the disk is full; carry it over again'
  fi
  # about WHAT: what the archive says of itself.
  about() { sed -n "s/^$1=//p" "$packed/about" 2>/dev/null; }
  emulated=$(about emulated)
  [[ $emulated =~ ^[01]$ ]] || no_archive 'is not what tools/gpu_pack.sh makes'
  [ "$(about machine)" = "$(uname -m)" ] || no_archive "is for $(about machine), and this host is $(uname -m)"
  printf '%s\n%s\n' "$(about glibc)" "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)" | sort -CV ||
    no_archive "needs a C library of version $(about glibc), and this host's is older; pack it on an older system"
fi

# 64 kB have to fit, or the answers of nvidia-smi would be lost.
if ! { mkdir -p "$out/logs" && exec 9>"$out/lock" && head -c 65536 /dev/zero >"$out/room"; } 2>/dev/null; then
  rm -f "$out/room"
  echo "gpu_check: --out $out cannot be written, or its disk is full" >&2
  exit 2
fi
rm -f "$out/room"
only_one 9 "$out" --out
gpus=() gpu_names=() devices=1 architectures=''
# no_gpu: says why, in one line.
no_gpu() {
  local why help=' (a driver belongs to the machine: install it, or start the container with --gpus all)'
  if ! command -v nvidia-smi >/dev/null; then
    why="there is no nvidia-smi$help"
  elif [ -n "$hung" ]; then
    why='nvidia-smi hangs and cannot be killed: restart the machine, or reset the GPU'
  elif [ -n "${CUDA_VISIBLE_DEVICES+set}" ] && [ -z "$CUDA_VISIBLE_DEVICES" ]; then
    why='CUDA_VISIBLE_DEVICES is empty'
  elif grep -q 'compute_cap.*not a valid field' "$smi"; then
    why='the driver is too old to say what the GPU is; install 580 or newer'
  else
    why="nvidia-smi shows none${CUDA_VISIBLE_DEVICES+ of CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES}: $(grep -m1 . "$smi" || echo "it says nothing$help")"
  fi
  echo "no GPU: $why; ${prebuilt:+an archive of tools/gpu_pack.sh }--emulated checks without" >&2
  exit 3
}
if [ $emulated -eq 0 ]; then
  smi=$out/logs/nvidia-smi.log
  # smi_says OPTIONS...: to $smi, where warnings may stand around it; 14 is only that of a damaged InfoROM.
  smi_says() {
    local code
    ask 20 "$smi" nvidia-smi "$@" --format=csv,noheader
    code=$?
    [ $code -eq 0 ] || [ $code -eq 14 ]
  }
  # The GPUs that this process may use, cuda:0 first; by index in nvidia-smi's order, or by UUID.
  export CUDA_DEVICE_ORDER=PCI_BUS_ID
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  else
    smi_says --query-gpu=index || no_gpu
    mapfile -t gpus < <(grep -xE '[0-9]+' "$smi")
  fi
  capabilities=()
  for gpu in "${gpus[@]}"; do
    of=(-i "$gpu")
    [ "${gpu#MIG-}" = "$gpu" ] || of=() # a part of a GPU is not to be had by its name: the first one's properties
    smi_says "${of[@]}" --query-gpu=compute_cap,name || no_gpu
    [[ $(grep -aEm1 '^[0-9]+\.[0-9]+, ' "$smi" | LC_ALL=C tr -dc ' -~' | tr -d '"\\') =~ ^([0-9]+)\.([0-9]+),\ (.*)$ ]] || no_gpu
    capabilities+=("${BASH_REMATCH[1]}${BASH_REMATCH[2]}") gpu_names+=("${BASH_REMATCH[3]}")
  done
  [ ${#gpus[@]} -gt 0 ] || no_gpu
  devices=${#gpus[@]}
  architectures=$(printf '%s\n' "${capabilities[@]}" | sort -u | paste -sd';')
fi
for capability in "${capabilities[@]:-}"; do
  [ -z "$prebuilt" ] || [ -z "$capability" ] || [[ ";$(about architectures);" == *";$capability;"* ]] ||
    no_archive "has kernels for GPUs of compute capability $(about architectures) (without the point), and one here is $capability; pack with --architectures $capability"
done
required=('devices are found')
[ -n "$prebuilt" ] || required+=('build')
case $part in
  correct)
    for ((i = 0; i < devices; ++i)); do required+=("contract suite, GPU $i"); done
    [ $emulated -eq 1 ] || required+=('products by libraries, GPU 0' 'layers by libraries, GPU 0')
    ;;
  fast) if [ $emulated -eq 1 ]; then required+=('bench small-add'); else required+=('bench tutorial-b4-compiled'); fi ;;
  rest) required+=('train cuda') ;;
esac
if [ -n "$prebuilt" ]; then commit=$(about commit); else commit=$(git rev-parse --verify -q HEAD 2>/dev/null); fi
# Results of one folder are of one tree and one host.
results_of=$(printf ' "commit": "%s",\n "emulated": %d,\n "cores": %d,\n "gpus": [%s]' "$commit" $emulated "$(nproc)" \
  "${gpu_names[*]+$(printf '"%s", ' "${gpu_names[@]}" | sed 's/, $//')}")
if { [ -e "$out/about" ] || [ -e "$out/gpu-check.json" ]; } && [ "$(cat "$out/about" 2>/dev/null)" != "$results_of" ]; then
  echo "gpu_check: $out holds results of another commit or host; give another folder (--out), or remove it" >&2
  exit 2
fi
if ! { printf '%s\n' "$results_of" >"$out/about.new" && mv "$out/about.new" "$out/about"; } 2>/dev/null; then
  echo "gpu_check: $out/about cannot be written; is the disk full?" >&2
  exit 2
fi
results='' # of a GPU, once it is found
head=$(printf ' "date": "%s",\n%s' "$(date -u +%FT%TZ)" "$results_of")

if command -v "$python" >/dev/null &&
  ! ask 20 "$out/logs/python.log" "$python" -c 'import sys; sys.exit("it is older than 3.9" if sys.version_info < (3, 9) else 0)'; then
  echo "gpu_check: $python does not work ($(tail -1 "$out/logs/python.log" | grep . || echo 'it does not answer')); what needs Python is left out" >&2
  python=''
fi
# cuDNN and NCCL may be there only as Python packages; those for other CUDA versions would hide the right ones.
if [ -z "${BRIM_CUDA_LIBRARIES:-}" ]; then
  packages=$(timeout -k 5 20 "$python" -c '
import importlib.metadata as m, importlib.util as u
names = {(d.metadata["Name"] or "").lower() for d in m.distributions()}
spec = u.find_spec("nvidia") if names & {"nvidia-cudnn-cu13", "nvidia-nccl-cu13"} else None
print(":".join(spec.submodule_search_locations) if spec else "")' 2>/dev/null)
  [ -z "$packages" ] || export BRIM_CUDA_LIBRARIES=$packages
  # Their headers, too, behind the toolkit's own: without cudnn.h the backend is built without cuDNN.
  IFS=: read -ra folders <<<"$packages"
  for folder in "${folders[@]}"; do
    for include in "$folder"/cudnn/include "$folder"/cu13/include; do
      [ ! -d "$include" ] || export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$include
    done
  done
fi
if [ -n "${BRIM_DEPS:-}" ]; then
  libraries=$(realpath "$BRIM_DEPS")/lib/$(uname -m)-linux-gnu
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# library_says NAME KEY: what `brim env` says of it.
library_says() { sed -n "/\"name\": \"$1\"/,/}/s/^ *\"$2\": \"\(.*\)\",\{0,1\}\$/\1/p" "$logs/env.json" 2>/dev/null | head -1; }
has_library() { [ "$(library_says "$1" state)" = found ]; }
# The figures of docs/CUDA.md, in its order. What needs libraries that are missing is not measured.
targets() {
  local case steps=()
  # paired NAME OURS OVER NEEDED: PyTorch's time over brim's, the median of the rounds.
  paired() { target "$1" "$(number pytorch "$2-over-$3")" "$4"; }
  # of_library LIBRARY NAME OURS OVER NEEDED: the same, of what the library computes.
  of_library() { if has_library "$1"; then paired "${@:2}"; else target "$2" '' "$5"; fi; }
  for ((i = 0; i < devices; ++i)); do steps+=("contract suite, GPU $i"); done
  [ $emulated -eq 1 ] || steps+=('products by libraries, GPU 0' 'layers by libraries, GPU 0')
  passed 'contract suite on every GPU' "${steps[@]}"
  [ $emulated -eq 0 ] || return 0
  passed 'losses on cuda and CPU within 1e-3 over 200 steps, f32' 'loss curves'
  target 'accuracy of tutorial-cnn, as a part of the CPU'"'"'s' "$(ratio "$(number train-cuda accuracy)" "$(number train-cpu accuracy)")" 0.97
  paired 'tutorial-cnn b4, eager over PyTorch eager' tutorial-b4-eager eager 3
  paired 'tutorial-cnn b4, compiled over PyTorch eager' tutorial-b4-compiled eager 8
  paired 'tutorial-cnn b4, compiled over PyTorch with CUDA graphs' tutorial-b4-compiled graph 2.5
  target 'tutorial-cnn b4, training, data on the device: busy part' "$(number train-resident compute)" 0.99
  target 'tutorial-cnn b4: part of its graphs in which kernels run' "$(number tutorial-b4-compiled compute)" 0.85
  target 'tutorial-cnn b4, compiled: time over that with dependent launches' "$(ratio "$(number tutorial-b4-compiled us_per_step)" "$(number tutorial-b4-dependent us_per_step)")" 1.05
  of_library cuBLASLt 'matmul 8192 bf16, rate over PyTorch'"'"'s' matmul-8192-bf16-eager eager 0.98
  target 'add of 256 MiB, bandwidth over a copy'"'"'s' "$(number add share_of_copy)" 0.95
  for case in 18-32-b512 18-224-b128 50-224-b128; do
    of_library cuDNN "resnet${case//-/ } bf16, over PyTorch's torch.compile" "resnet$case-bf16-compiled" compile 1.1
  done
  for case in softmax layer-norm batch-norm chain; do
    target "$case of 64 MiB, bandwidth over a copy's" "$(number $case share_of_copy)" 0.85
  done
}
begin
case $part in # what an earlier run of it measured
  fast) find "$logs" -name 'result-*.json' ! -name result-train-cuda.json ! -name result-train-cpu.json -delete ;;
  rest) rm -f "$logs"/result-train-{cuda,cpu}.json ;;
esac
# Building has a time of its own.
deadline=900
[ $emulated -eq 0 ] || deadline=36000
if [ -n "$prebuilt" ]; then
  brim=$packed/bin/brim contract=$packed/tests/contract_test tests=$packed/tests/backend_test own_ops=$packed/tests/extend_test
  export BRIM_SOURCE_DIR=$packed/source BRIM_BUILD_DIR=$packed
  [ $emulated -eq 0 ] || export BRIM_BACKEND_PATH=$packed/lib/libbrim_cuda_emulated.so
else
  open_build
  options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBRIM_EXAMPLES=OFF -DBRIM_BENCH=OFF)
  targets=(brim brim-cli contract_test backend_test extend_test)
  if [ $emulated -eq 1 ]; then
    options+=(-DBRIM_CUDA=OFF)
    targets+=(brim_cuda_emulated)
  else
    # Without Boost the emulation is left out.
    options+=(-DBRIM_CUDA=ON "-DBRIM_CUDA_ARCHITECTURES=$architectures" -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON)
    targets+=(brim_cuda)
  fi
  step configure 60 cmake -S . -B "$build" "${options[@]}" || finish
  step build $((emulated ? 3600 : 400)) ninja -C "$build" "${targets[@]}" || finish
  [ $emulated -eq 0 ] || export BRIM_BACKEND_PATH=$build/emulated/libbrim_cuda_emulated.so
  brim=$build/bin/brim contract=$build/tests/contract_test tests=$build/tests/backend_test own_ops=$build/tests/extend_test
  export BRIM_SOURCE_DIR=$PWD BRIM_BUILD_DIR=$build
fi
# What is measured of algorithms stays with the results, and serves the parts that come later.
export XDG_CACHE_HOME=$out/cache
began=$SECONDS
if [ $emulated -eq 0 ]; then
  case $part in correct) deadline=235 ;; fast) deadline=475 ;; rest) deadline=530 ;; esac
fi
rm -f "$logs/env.json"
# shellcheck disable=SC2016
if step environment 30 bash -c '"$0" env && "$0" env | sed -n "s/.*\(cuda:0  *.*\)/\1/p"' "$brim"; then
  # shellcheck disable=SC2016
  ask 30 "$logs/env.json.new" bash -c 'exec "$0" env --json 2>/dev/null' "$brim" && mv "$logs/env.json.new" "$logs/env.json"
fi
[ $emulated -eq 1 ] || optional=1 step 'who uses the GPUs' 20 nvidia-smi --query-gpu=index,memory.used,memory.total,temperature.gpu,power.draw,clocks.sm --format=csv,noheader
# Tests that are all skipped would look like success.
# shellcheck disable=SC2016
if ! step 'devices are found' 30 bash -c '"$0" --gtest_filter=ContractDevices.Cuda 2>&1 |
  awk "{ print } /PASSED  . 1 test/ { ++found } /no GPU: / { why = \$0 } END { if (why) print why; exit !found }"' "$contract"; then
  if [ -z "$hung" ]; then
    ask 30 "$logs/env.log" "$brim" env
    grep -A 6 '^gpu' "$logs/env.log"
  fi
  finish
fi

# What was measured on a GPU goes into the tree, or beside the rest where no tree is.
if [ $emulated -eq 0 ]; then
  results=$(date -u +%F)-$(tr -cs 'A-Za-z0-9\n' '-' <<<"${gpu_names[0]}").json
  if [ -n "$prebuilt" ]; then results=$out/$results; else results=bench/results/gpu/$results; fi
fi

# on_gpu I NAME LIMIT COMMAND...
on_gpu() {
  local i=$1 name=$2 limit=$3
  shift 3
  [ $emulated -eq 1 ] || set -- env "CUDA_VISIBLE_DEVICES=${gpus[i]}" "$@"
  step "$name, GPU $i" "$limit" "$@"
}
# suite I NAME PROGRAM ASK LIMIT OPTIONS...: its tests in shards on a GPU; what failed goes to failed-NAME.txt.
suite() {
  local i=$1 name=$2 program=$3 ask=$4 limit=$5
  shift 5
  rm -f "$logs/failed-$name.txt"
  if command -v "$python" >/dev/null; then
    on_gpu "$i" "$name" "$limit" "$python" tests/backend/cuda/cuda_tests.py --shards 4 --timeout 60 --ask "$ask" --failed "$logs/failed-$name.txt" "$program" "$@"
  else
    on_gpu "$i" "$name" "$limit" "$program" --gtest_brief=1 "$@"
  fi
}
contract_suite() { suite "$1" 'contract suite' "$contract" ContractDevices.Cuda $((emulated ? 1200 : 120)); }
finds_device=CudaRuntime.TheBackendIsThePluginsAndDescribesItsDevices
gpu_tests() { suite "$1" 'GPU tests' "$tests" $finds_device $((emulated ? 1200 : 120)) '--gtest_filter=*Cuda*'; }
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
# find_sanitizer: whether there is a compute-sanitizer that works; says so if not. It is asked for once.
find_sanitizer() {
  local found=$sanitizer
  sanitizer=''
  if [ $emulated -eq 1 ]; then
    note compute-sanitizer skipped 0 'emulated; the sanitizers of the compiler see the kernels'
  elif [ -z "$found" ]; then
    note compute-sanitizer skipped 0 'not found; it is part of the CUDA toolkit (cuda-sanitizer)'
  else
    optional=1 step compute-sanitizer 40 "$found" --tool memcheck --error-exitcode 9 "$contract" --gtest_filter=ContractDevices.Cuda && sanitizer=$found
  fi
  [ -n "$sanitizer" ]
}
# again NAME PROGRAM: the first tests of a suite that failed, each by itself with launches that wait for their kernel, so that
# the call that fails is the one that is to blame; and under compute-sanitizer.
again() {
  local test
  [ -s "$logs/failed-$1.txt" ] || return 0
  [ -n "$(state_of compute-sanitizer "$part")" ] || find_sanitizer
  head -3 "$logs/failed-$1.txt" >"$logs/again.txt"
  while read -r test; do
    step "again $test" 30 env CUDA_LAUNCH_BLOCKING=1 "$2" "--gtest_filter=$test"
    [ -z "$sanitizer" ] || slow=1 step "memcheck $test" 40 "$sanitizer" --tool memcheck --error-exitcode 9 "$2" "--gtest_filter=$test"
  done <"$logs/again.txt"
}
# bench_says NAME: its figures.
bench_says() {
  local share
  share=$(number "$1" share_of_copy)
  [ -n "$(number "$1" us_per_step)" ] || { last_line 110; return; }
  printf '%s us%s' "$(number "$1" us_per_step)" "${share:+, $share of the bandwidth of a copy}"
}
# bench NAME CASE OPTIONS...: the result goes to result-NAME.json.
bench() {
  local name=$1
  shift
  rm -f "$logs/result-$name.json"
  says="bench_says $name" step "bench $name" 60 "$brim" bench "$@" --device cuda:0 --seconds 0.4 --json "$logs/result-$name.json"
}
short=()
[ $emulated -eq 0 ] || short=(--steps 2)
[ -z "$data" ] || short+=(--data "$data")
# train NAME DEVICE OPTIONS...
train() {
  local name=$1 device=$2
  shift 2
  rm -f "$logs/result-train-$name.json"
  step "train $name" 120 "$brim" train tutorial-cnn --device "$device" --json "$logs/result-train-$name.json" "${short[@]}" "$@"
}

# by_library NAME LIMIT COMMAND...: as on_gpu 0, skipped where a library is missing.
by_library() {
  local library state advice
  for library in cuBLASLt cuDNN; do
    if ! has_library $library; then
      state=$(library_says $library state) advice=$(library_says $library advice)
      note "$1, GPU 0" skipped 0 "$library is ${state:-unknown}${advice:+: $advice}; BRIM_CUDA_LIBRARIES names the folder that it is in"
      return 1
    fi
  done
  on_gpu 0 "$@"
}

part_correct() {
  if [ $emulated -eq 0 ]; then
    by_library 'cuBLASLt and cuDNN are used' 60 "$brim" train tutorial-cnn --device cuda:0 --precision tf32 --steps 1 # refused without
  fi
  contract_suite 0
  if [ $emulated -eq 0 ]; then
    # What is timed has to be in the graph that is timed; and the first measuring of ResNet-18's layers is done.
    # shellcheck disable=SC2016
    by_library 'libraries are timed as graphs' 90 env BRIM_CUDA_EXPLAIN=1 bash -c 'timeout 80 "$0" bench resnet18-32-b512 --precision bf16 --mode compiled --steps 3 --device cuda:0 2>&1 |
      awk "{ print } /choice: / { if (/ us \(eager /) ++timed; if (/nodes 0\)/) ++empty }
           END { print timed + 0 \" choices timed, \" empty + 0 \" with an empty graph\"; exit !(timed > 0 && !empty) }"' "$brim"
  fi
  # Without a folder for what was measured, libraries take products and layers of any size, whatever is faster.
  if [ $emulated -eq 0 ]; then
    local by_libraries=(env -u HOME -u XDG_CACHE_HOME BRIM_CUDA_SMALL=0 BRIM_CUDA_PREFER_CUDNN=1)
    by_library 'products by libraries' 90 "${by_libraries[@]}" "$contract" --gtest_brief=1 '--gtest_filter=Contract.conv*:Contract.*matmul*:Contract.*linear*:Contract.*avg_pool*:Contract.*batch_norm*'
    by_library 'layers by libraries' 60 "${by_libraries[@]}" "$tests" --gtest_brief=1 '--gtest_filter=CudaProducts*:CudaLayout*'
  fi
  # shellcheck disable=SC2016
  step 'loss curves' 60 bash -c 'out=$("$0" "--gtest_filter=CudaTraining.*"); code=$?; echo "$out"; grep "losses differ" <<<"$out"; exit $code' "$tests"
  gpu_tests 0
  on_gpu 0 'own ops' 60 "$own_ops" --gtest_brief=1 '--gtest_filter=OwnOnCuda*:CudaFormula*'
  [ $emulated -eq 1 ] || BRIM_CUDA_DEPENDENT_LAUNCH=1 suite 0 'GPU tests, dependent launches' "$tests" $finds_device 90 '--gtest_filter=*Cuda*'
  again 'contract suite' "$contract"
  again 'GPU tests' "$tests"
  for ((i = 1; i < devices; ++i)); do
    contract_suite "$i"
    gpu_tests "$i"
  done
  [ "$devices" -lt 2 ] || step 'GPU tests, all GPUs' 60 "$tests" --gtest_brief=1 '--gtest_filter=CudaRuntime.*'
}

part_fast() {
  if [ $emulated -eq 1 ]; then
    bench small-matmul matmul-32 --precision bf16 --rounds 1
    bench small-add add-1m --rounds 1
    note PyTorch skipped 0 'emulated'
    return
  fi
  bench tutorial-b4 tutorial-b4
  bench tutorial-b4-compiled tutorial-b4 --mode compiled --steps-per-graph 100
  BRIM_CUDA_DEPENDENT_LAUNCH=1 bench tutorial-b4-dependent tutorial-b4 --mode compiled --steps-per-graph 100
  bench matmul-bf16 matmul-8192 --precision bf16
  bench add add-64m
  # Their first runs measure algorithms, which the pairs with PyTorch find then.
  bench resnet50-224 resnet50-224-b128 --precision bf16 --mode compiled
  bench resnet18-224 resnet18-224-b128 --precision bf16 --mode compiled
  bench resnet18-32 resnet18-32-b512 --precision bf16 --mode compiled
  for case in softmax layer-norm batch-norm; do bench $case $case-16m; done
  bench chain chain-16m --mode compiled
  rm -f "$logs/result-pytorch.json"
  if [ "$(left)" -ge 90 ] && [ -z "$hung" ] && ask 50 "$logs/torch.log" "$python" -c 'import torch; assert torch.cuda.is_available()'; then
    step PyTorch 290 "$python" bench/gpu_torch.py --brim "$brim" --rounds 3 --compile --seconds 0.3 --budget $(($(left) < 290 ? $(left) - 80 : 200)) --json "$logs/result-pytorch.json"
  else
    note PyTorch skipped 0 "${hung:+$hung hangs, or }no time left, or ${python:-Python, which does not work,} has no torch with CUDA; BRIM_PYTHON names another Python"
  fi
  # Long, for its account begins before the first graph is captured. Launching a graph of thousands of steps takes milliseconds.
  train resident cuda:0 --data-on-device --steps-per-graph 100 --epochs 200 --steps 500000
  profile_kernels
  bench tutorial-b4-replayed tutorial-b4 --mode compiled
  bench tutorial-b32-compiled tutorial-b32 --mode compiled --steps-per-graph 100
  bench tutorial-b128-compiled tutorial-b128 --mode compiled --steps-per-graph 100
  for precision in fp16 fp32 tf32; do
    bench "matmul-$precision" matmul-8192 --precision "$precision"
  done
}
# profile_kernels: the dearest kernels of a few steps, and how near they come to what memory and units could do.
profile_kernels() {
  local ncu case
  ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null)
  if [ -z "$ncu" ]; then
    note ncu skipped 0 'not found; it is part of the CUDA toolkit (nsight-compute)'
    return
  fi
  for case in tutorial-b4 resnet50-224-b128; do
    # The first steps of the small network are not yet graphs: it takes sixteen batches, each at an address of its own.
    # shellcheck disable=SC2016
    slow=1 optional=1 step "ncu $case" 50 bash -c '"$1" --csv --print-units base --clock-control none --graph-profiling node --launch-skip 200 --launch-count 40 --metrics gpu__time_duration.sum,gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed \
      "$2" bench "$3" --precision "$4" --mode compiled --steps "$6" --device cuda:0 >"$5"; "$0" tools/ncu_table.py "$5"' \
      "$python" "$ncu" "$brim" "$case" "$([ $case = tutorial-b4 ] && echo fp32 || echo bf16)" "$logs/ncu-$case.csv" "$([ $case = tutorial-b4 ] && echo 80 || echo 8)"
  done
}

part_rest() {
  train cuda cuda:0
  train cpu cpu
  # Each by itself, so that what one of them spoils is its own.
  by_itself() { suite 0 "$1" "$tests" $finds_device $((emulated ? 600 : 60)) "--gtest_filter=$2"; }
  by_itself 'several streams' 'CudaStreams*:CudaRuntime.*Stream*'
  by_itself 'out of memory' 'CudaRuntime.*Memory*:CudaRuntime.*Room*:CudaMemory*:CudaGraph.*Memory*'
  by_itself 'a lost GPU' '*Lost*'
  by_itself 'CUPTI and NVML' 'CudaObserve*'
  [ $emulated -eq 1 ] || BRIM_CUDA_DEPENDENT_LAUNCH=1 suite 0 'contract suite, dependent launches' "$contract" ContractDevices.Cuda 120
  find_sanitizer || return
  if ! command -v "$python" >/dev/null; then
    note 'racecheck, memcheck and initcheck' skipped 0 'there is no Python, which shares the tests out; BRIM_PYTHON names one'
    return
  fi
  local tool some='Contract.softmax*:Contract.sum*:Contract.layer_norm*:Contract.batch_norm*:Contract.matmul*:Contract.conv2d*:Contract.gather*'
  # sanitize NAME PROGRAM ASK FILTER: in shards, as each tool slows a kernel down many times.
  sanitize() {
    slow=1 step "$tool, $1" 75 "$python" tests/backend/cuda/cuda_tests.py --shards 8 --timeout 70 --ask "$3" --under "$sanitizer --tool $tool --error-exitcode 9" "$2" "--gtest_filter=$4"
  }
  for tool in racecheck memcheck initcheck; do
    sanitize 'fused kernels' "$tests" $finds_device 'CudaFused*:*ConvPool*OnCuda*'
    sanitize 'contract suite' "$contract" ContractDevices.Cuda "$some"
  done
}

"part_$part"
finish
