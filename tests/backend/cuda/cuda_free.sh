#!/usr/bin/env bash
# cuda_free.sh READELF FILE...: nothing of CUDA in the public headers, nor among the libraries that the programs and
# libraries FILE are linked to. Only libbrim_cuda.so, opened at run time, may need any.
set -euo pipefail
cd "$(dirname "$0")/../.."
readelf=$1
shift
failed=0
if grep -rnE '#[[:space:]]*include[[:space:]]*[<"](cuda|cu[a-z]+(Lt)?(_v[0-9]+)?\.h|nccl|nvml|nvtx|cupti|cooperative_groups|backend/)' include/brim; then
  echo "cuda_free: these public headers include what only the CUDA backend may"
  failed=1
fi
for file in "$@"; do
  needed=$("$readelf" -d "$file" | grep -E '\((NEEDED|RPATH|RUNPATH)\)') || { echo "cuda_free: $file has no dynamic section"; exit 1; }
  if grep -E '(libcu|libnv|libnccl|/cuda)' <<<"$needed"; then
    echo "cuda_free: $file is linked to CUDA"
    failed=1
  fi
done
exit $failed
