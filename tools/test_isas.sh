#!/usr/bin/env bash
# Runs the suites that depend on the CPU's kernels once for each instruction set that is named, or for all that this CPU
# and the build in build/ have: tools/test_isas.sh [avx512|avx2|sse4|baseline ...]; baseline is the least of them. One that is
# missing here is skipped, aloud.
# SUITES="ops|plan" runs these alone.
set -euo pipefail
CDPATH= cd "$(dirname "$0")/.."
[ -x build/bin/brim ] || { echo "test_isas: error: build/bin/brim is not there; run \`make test\` first" >&2; exit 2; }
suites="^(${SUITES:-ops|contract|plan|backend|train|golden|differential|autograd|compress})\$"
available=$(build/bin/brim env --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["cpu"]["isas"])')
chosen=("$@")
[ ${#chosen[@]} -gt 0 ] || read -ra chosen <<<"$available"
for isa in "${chosen[@]}"; do
  [ "$isa" = baseline ] && isa=${available##* }
  case $isa in avx512 | avx2 | sse4 | scalar) ;; *)
    [[ " $available " == *" $isa "* ]] || { echo "test_isas: error: no instruction set is called '$isa'; here are $available" >&2; exit 2; } ;;
  esac
  if [[ " $available " != *" $isa "* ]]; then
    echo "$isa: skipped, this CPU or this build has $available"
    continue
  fi
  echo "== BRIM_CPU_ISA=$isa"
  BRIM_CPU_ISA=$isa ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" -R "$suites"
done
