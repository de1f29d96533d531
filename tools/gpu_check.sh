#!/usr/bin/env bash
# gpu_check.sh [--quick] [--emulated] [--data FOLDER] [--build FOLDER] [--json FILE]: checks brim on a host with GPUs.
#
# Builds brim (C++20 compiler, CMake, Ninja, CUDA 13 toolkit; libraries of brim's own from BRIM_DEPS, which
# tools/gpu_deps.sh prepares), runs contract suite and GPU tests on every GPU, compute-sanitizer over some of
# them, trains tutorial-cnn there and on the CPU (--data CIFAR-10, else shapes10), runs the benchmarks, and PyTorch's
# where Python has it. A table comes last and the same in gpu-check.json. The exit code is 0 if nothing failed, 3
# without a GPU. --quick leaves out racecheck, CIFAR-10 and the CUDA architectures of other GPUs than the first.
# --emulated: no GPU, the emulation of CUDA in its place and no benchmarks, to test this script.
# cuDNN and NCCL inside Python's site-packages are found by themselves; BRIM_CUDA_LIBRARIES names other folders.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
quick=0 emulated=0 data='' build=build/gpu-check json=gpu-check.json
usage() { sed -n '2s/^# /usage: tools\//p' "$0"; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --emulated) emulated=1 ;;
    --data | --build | --json)
      [ $# -gt 1 ] || usage
      declare "${1#--}=$2"
      shift
      ;;
    *) usage ;;
  esac
  shift
done

began=$SECONDS
python=${BRIM_PYTHON:-python3}
logs=$build/check
names=() states=() notes=() seconds=()
# note NAME ok|failed|skipped SECONDS TEXT
note() {
  names+=("$1") states+=("$2") seconds+=("$3") notes+=("$4")
  printf '%-34s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4"
}
# step NAME LIMIT COMMAND...: runs it into a log of its own; a failure shows the log's end. The note is the last line.
step() {
  local name=$1 limit=$2 start=$SECONDS code log
  shift 2
  log=$logs/$(tr -c 'a-z0-9\n' '-' <<<"$name").log
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  code=$?
  if [ $code -eq 0 ]; then
    note "$name" ok $((SECONDS - start)) "$(grep -v '^$' "$log" | tail -1 | tr -d '"\\\t' | cut -c1-110)"
  else
    tail -40 "$log"
    [ $code -ne 124 ] || code="$code, its limit of $limit s"
    note "$name" failed $((SECONDS - start)) "exit code $code; see $log"
    return 1
  fi
}

# Table and gpu-check.json; the exit code.
finish() {
  local i failed=0
  {
    printf '{\n "date": "%s", "brim": "%s", "seconds": %d, "quick": %d, "emulated": %d,\n "gpus": [' \
      "$(date -u +%FT%TZ)" "$(git rev-parse HEAD 2>/dev/null)" $((SECONDS - began)) $quick $emulated
    printf '%s' "${gpu_names[@]+$(printf '"%s", ' "${gpu_names[@]}" | sed 's/, $//')}"
    printf '],\n "env": %s,\n "steps": [' "$(cat "$logs/env.json" 2>/dev/null || echo null)"
    for i in "${!names[@]}"; do
      [ "$i" -eq 0 ] || printf ','
      printf '\n  {"name": "%s", "state": "%s", "seconds": %s, "note": "%s"}' "${names[i]}" "${states[i]}" "${seconds[i]}" "${notes[i]}"
    done
    printf '\n ],\n "results": {'
    local file comma=''
    for file in "$logs"/result-*.json; do
      [ -s "$file" ] || continue
      printf '%s\n  "%s": %s' "$comma" "$(basename "$file" .json | sed 's/^result-//')" "$(cat "$file")"
      comma=','
    done
    printf '\n }\n}\n'
  } >"$json"
  echo
  printf '%-34s %-8s %6s  %s\n' step state time note
  for i in "${!names[@]}"; do
    printf '%-34s %-8s %4s s  %s\n' "${names[i]}" "${states[i]}" "${seconds[i]}" "${notes[i]}"
    [ "${states[i]}" != failed ] || failed=$((failed + 1))
  done
  echo "$failed failed; $((SECONDS - began)) s; $json"
  [ $failed -eq 0 ]
  exit
}

gpu_names=() devices=1 architectures=''
if [ $emulated -eq 0 ]; then
  mapfile -t gpu_names < <(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null)
  if [ ${#gpu_names[@]} -eq 0 ] || ! nvidia-smi >/dev/null 2>&1; then
    echo "no GPU: nvidia-smi shows none (a driver belongs to the machine: install it, or start the container with --gpus all); --emulated checks without" >&2
    exit 3
  fi
  devices=${#gpu_names[@]}
  architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | paste -sd';')
  [ $quick -eq 0 ] || architectures=${architectures%%;*}
fi
mkdir -p "$logs"
rm -f "$logs"/*.json "$logs"/*.log

# cuDNN and NCCL may be there only as Python packages.
if [ -z "${BRIM_CUDA_LIBRARIES:-}" ]; then
  packages=$("$python" -c 'import importlib.util as u; s = u.find_spec("nvidia"); print(":".join(s.submodule_search_locations) if s else "")' 2>/dev/null)
  [ -z "$packages" ] || export BRIM_CUDA_LIBRARIES=$packages
fi
if [ -n "${BRIM_DEPS:-}" ]; then
  libraries=$(realpath "$BRIM_DEPS")/lib/$(uname -m)-linux-gnu
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBRIM_EXAMPLES=OFF -DBRIM_BENCH=OFF)
targets=(brim brim-cli contract_test backend_test)
if [ $emulated -eq 1 ]; then
  options+=(-DBRIM_CUDA=OFF)
  targets+=(brim_cuda_emulated)
else
  options+=(-DBRIM_CUDA=ON "-DBRIM_CUDA_ARCHITECTURES=$architectures")
  targets+=(brim_cuda)
fi
step configure 60 cmake -S . -B "$build" "${options[@]}" || finish
step build $((emulated ? 3600 : 360)) ninja -C "$build" "${targets[@]}" || finish
[ $emulated -eq 0 ] || export BRIM_BACKEND_PATH=$PWD/$build/emulated/libbrim_cuda_emulated.so
brim=$build/bin/brim contract=$build/tests/contract_test tests=$build/tests/backend_test
export BRIM_SOURCE_DIR=$PWD BRIM_BUILD_DIR=$PWD/$build
# shellcheck disable=SC2016
if step environment 30 bash -c '"$0" env && "$0" env | sed -n "s/.*\(cuda:0  *.*\)/\1/p"' "$brim"; then
  "$brim" env --json >"$logs/env.json"
fi
# Tests that are all skipped would look like success.
if ! step 'devices are found' 30 bash -c "'$contract' --gtest_filter=ContractDevices.Cuda | grep -F '[  PASSED  ] 1 test'"; then
  "$brim" env | grep -A 6 '^gpu'
  finish
fi

for ((i = 0; i < devices; ++i)); do
  on=(env)
  [ $emulated -eq 1 ] || on=(env "CUDA_VISIBLE_DEVICES=$i")
  if command -v "$python" >/dev/null; then
    step "contract suite, GPU $i" 120 "${on[@]}" "$python" tests/backend/cuda_contract.py "$contract"
  else
    step "contract suite, GPU $i" 120 "${on[@]}" "$contract" --gtest_brief=1
  fi
  step "GPU tests, GPU $i" 120 "${on[@]}" "$tests" --gtest_brief=1 '--gtest_filter=Cuda*'
done
[ "$devices" -lt 2 ] || step 'GPU tests, all GPUs' 60 "$tests" --gtest_brief=1 '--gtest_filter=CudaRuntime.*'

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
some='Contract.softmax:Contract.sum_axis:Contract.layer_norm:Contract.matmul:Contract.gather'
if [ $emulated -eq 1 ]; then
  note 'compute-sanitizer' skipped 0 'emulated; the sanitizers of the compiler see the kernels'
elif [ -z "$sanitizer" ]; then
  note 'compute-sanitizer' failed 0 'not found; it is part of the CUDA toolkit (cuda-sanitizer)'
else
  step 'memcheck' 100 "$sanitizer" --tool memcheck --error-exitcode 9 "$contract" --gtest_brief=1 "--gtest_filter=$some"
  [ $quick -eq 1 ] || step 'racecheck' 100 "$sanitizer" --tool racecheck --error-exitcode 9 "$contract" --gtest_brief=1 "--gtest_filter=$some"
fi

# train NAME DEVICE OPTIONS...: the result goes to result-NAME.json.
train() {
  local name=$1 device=$2
  shift 2
  step "train $name" 150 "$brim" train tutorial-cnn --device "$device" --json "$logs/result-$name.json" "$@"
}
# number FILE KEY: of the object, not of one inside it.
number() { sed -n "s/^ *\"$2\": *\([-0-9.e+]*\),\{0,1\}\$/\1/p" "$logs/result-$1.json" 2>/dev/null | head -1; }
# near NAME KEY DISTANCE FIRST SECOND
near() {
  local a b
  a=$(number "$4" "$2") b=$(number "$5" "$2")
  if awk -v a="$a" -v b="$b" -v d="$3" 'BEGIN { exit !(a != "" && b != "" && a - b <= d && b - a <= d) }'; then
    note "$1" ok 0 "$a and $b"
  else
    note "$1" failed 0 "'$a' and '$b' are further apart than $3"
  fi
}
steps=200
[ $emulated -eq 0 ] || steps=2
train cuda-steps cuda:0 --steps $steps && train cpu-steps cpu --steps $steps && near "loss after $steps steps" final_loss 1e-3 cuda-steps cpu-steps
if [ $emulated -eq 0 ]; then
  set=()
  [ -z "$data" ] || [ $quick -eq 1 ] || set=(--data "$data")
  train cuda cuda:0 "${set[@]}" && train cpu cpu "${set[@]}" && near 'accuracy' accuracy 0.03 cuda cpu
  if "$brim" bench --help | grep -q -- --device; then
    step 'benchmarks' 60 "$brim" bench tutorial-b4 tutorial-b128 resnet18-32-b64 --device cuda:0 --seconds 0.3 --json "$logs/result-bench.json"
    step 'benchmarks, compiled' 60 "$brim" bench tutorial-b4 tutorial-b128 resnet18-32-b64 --device cuda:0 --mode compiled --seconds 0.3 --json "$logs/result-bench-compiled.json"
  else
    note 'benchmarks' skipped 0 'brim bench has no --device yet; the training above tells images_per_s'
  fi
  if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    step 'PyTorch' 90 "$python" bench/gpu_torch.py --json "$logs/result-pytorch.json"
  else
    note 'PyTorch' skipped 0 "$python has no torch with CUDA; BRIM_PYTHON names another Python"
  fi
fi
finish
