#!/bin/bash
# run.sh: all tests that need a GPU, then the benches; in the folder that tests/gpu/pack.sh made. Prints a
# report in Markdown, for docs/results/. Exit status 0 if every test passed.
#
# Needs the driver, python3 with numpy, cupy and h5py; 6 GB of disk for the fields.
set -uo pipefail
cd "$(dirname "$0")"
export GRIDZ_SHARED=$PWD/shared GRIDZ_REQUIRE_GPU=1 GRIDZ_REQUIRE_SHARED=1 PYTHONUNBUFFERED=1
fields=$(mktemp -d)
trap 'rm -rf "$fields"' EXIT
failed=0

check() { # TITLE COMMAND...: a test
    local title=$1 output status=0
    shift
    output=$(timeout -s KILL 300 "$@" 2>&1) || status=$?
    if ((status == 0)); then
        echo "- $title: passed. $(grep . <<<"$output" | tail -n 1)"
    else
        echo "- $title: FAILED ($status)"
        tail -n 30 <<<"$output" | sed 's/^/      /'
        failed=1
    fi
}

echo "# GPU results, $(date -u +%Y-%m-%d)"
echo
echo "- GPU and driver: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
echo "- CPU: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
cat version
echo
echo "## Tests"
echo
check "kernels, 82 reference vectors" ./kernels vectors shared/vectors/ndzip
check "kernels, random shapes and batches" ./kernels random 1 200
check "kernels, hostile payloads" ./kernels hostile 1 600
check "kernels as PTX of compute_75, 82 reference vectors" env CUDA_FORCE_PTX_JIT=1 ./kernels vectors shared/vectors/ndzip
check "kernels as PTX of compute_75, random shapes" env CUDA_FORCE_PTX_JIT=1 ./kernels random 2 20
check "src/cuda: order, a full GPU, a lost one, fork" ./cuda_test --ignored --test-threads=1
check "library, frames of GPU and CPU, memory of the GPU" ./gpu_test --test-threads=2
check "HDF5 filter in h5py" python3 h5py_filter.py "$PWD/plugin"
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
        check "compute-sanitizer $tool" compute-sanitizer --tool "$tool" --error-exitcode 9 ./kernels random 3 3
    done
else
    echo "- compute-sanitizer: SKIPPED, not on this machine"
fi

if python3 fields.py "$fields/512" 512 >/dev/null && python3 fields.py "$fields/64" 64 >/dev/null; then
    echo
    echo "## Kernels, payloads in device memory"
    echo
    echo '```text'
    while read -r file dtype extents chunks; do
        ./kernels bench "$fields/512/$file" "$dtype" "$extents" "$chunks" || failed=1
    done <<'END'
turb3d.f32 f32 512x512x512 1
turb3d.f32 f32 500x509x503 1
smooth3d.f32 f32 512x512x512 1
random.f32 f32 512x512x512 1
turb3d.f32 f32 134217728 1
turb3d.f32 f32 8192x16384 1
turb3d.f64 f64 256x512x512 1
noisy1d.f64 f64 67108864 1
noisy1d.f64 f64 8192x8192 1
turb3d.f32 f32 64x64x64 512
turb3d.f32 f32 64x64x64 1
turb3d.f32 f32 64x128x128 1
END
    echo '```'
    echo
    echo "## Library, data in host memory, copies included, GB/s"
    echo
    echo '```text'
    for how in "--backend cpu --threads 1" "--backend cpu --threads 4" "--backend cpu --threads $(nproc)" "--backend cuda"; do
        # The words of $how are options.
        # shellcheck disable=SC2086
        ./throughput $how "$fields/64/turb3d.f32:256x256x256" "$fields/64/turb3d.f64:128x256x256" || failed=1
    done
    echo '```'
else
    echo "fields.py failed: no benches"
    failed=1
fi
exit "$failed"
