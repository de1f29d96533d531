#!/usr/bin/env bash
# Runs the suites that depend on the CPU's kernels once for each instruction set that is named, or for all that this CPU
# and the build in build/ have: tools/test_isas.sh [avx512|avx2|sse4|scalar ...]. One that is missing here is skipped, aloud.
# SUITES="ops|plan" runs these alone.
set -euo pipefail
cd "$(dirname "$0")/.."
suites="^(${SUITES:-ops|contract|plan|backend|train|golden|autograd})\$"
available=$(build/bin/brim env --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["cpu"]["isas"])')
chosen=("$@")
[ ${#chosen[@]} -gt 0 ] || read -ra chosen <<<"$available"
for isa in "${chosen[@]}"; do
  if [[ " $available " != *" $isa "* ]]; then
    echo "$isa: skipped, this CPU or this build has $available"
    continue
  fi
  echo "== BRIM_CPU_ISA=$isa"
  BRIM_CPU_ISA=$isa ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" -R "$suites"
done
