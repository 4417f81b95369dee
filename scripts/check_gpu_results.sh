#!/bin/sh
# check_gpu_results.sh: checks that the newest committed GPU results are of the current kernels. CI
# has no GPU, so stale results are only reported; `make release-check` makes them an error.
set -eu
cd "$(dirname "$0")/.."
hash=$(scripts/kernels_hash.sh)
newest=$(find docs/results -name '*-gpu.md' | sort | tail -n 1)
if [ -n "$newest" ] && grep -q "kernels: $hash" "$newest"; then
    echo "GPU results: $newest is of these kernels"
else
    echo "GPU RESULTS STALE: no results of the kernels $hash in docs/results; run tests/gpu/run.sh"
    exit 1
fi
