#!/bin/bash
# Runs the GPU tests (tests/gpu) with kernels that are compiled for the CPU: run.sh [TEST...]
#
# The head of cuda.h states what these tests can and cannot show. Everything is built in
# target/emulator.
#
#   GRIDZ_GPU_CASES=n                 random cases of a test (20)
#   GRIDZ_EMULATOR_ORDER=backward     reverse order of CTAs, warps and lanes
#   MOCK_CUDA_FILL=n, GRIDZ_EMULATOR_FILL=n   initial byte of device memory and shared memory (205)
#   SANITIZE=1                        with the address sanitizer; several times slower
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${CARGO_TARGET_DIR:-target}/emulator
export GRIDZ_REQUIRE_GPU=1 GRIDZ_GPU_CASES=${GRIDZ_GPU_CASES:-20} MOCK_CUDA_FILL=${MOCK_CUDA_FILL:-205}
preload=
if [[ ${SANITIZE:-0} == 1 ]]; then
    out=$out-sanitized
    export CXXFLAGS=-fsanitize=address ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:use_sigaltstack=0
    preload=$(g++ -print-file-name=libasan.so)
fi
tests/emulator/build.sh "$out"
out=$(cd "$out" && pwd)
test=$(cargo test --locked --release --no-run --test gpu --message-format=json | python3 -c '
import json, sys
built = [json.loads(line) for line in sys.stdin]
print(next(one["executable"] for one in built if one.get("executable") and one["target"]["name"] == "gpu"))')
# Skip tests that need a real driver: graphs, gates, device errors and exhausted memory.
exec env LD_PRELOAD="$preload" LD_LIBRARY_PATH="$out" MOCK_CUDA_KERNELS="$out/kernels" "$test" --test-threads=1 "$@" \
    --skip large:: --skip faults:: --skip graphs --skip calls_do_not_wait --skip streams_side --skip legacy_default
