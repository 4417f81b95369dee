#!/bin/bash
# run.sh [quick|tests|benches]: runs all tests that need a GPU, then the benches, in the folder that
# tests/gpu/pack.sh created. Prints a report in Markdown, for docs/results/. Continues after a
# failure; the exit status is 0 if nothing failed. quick: only the tests, without sanitizers; tests:
# only the tests; benches: only the benches.
#
# Needs the driver, python3 with numpy, cupy and h5py, about 40 GB of GPU memory, and 6 GB of disk for the fields.
# Takes about 10 minutes.
set -uo pipefail
cd "$(dirname "$0")" || exit
export GRIDZ_SHARED=$PWD/shared GRIDZ_REQUIRE_GPU=1 GRIDZ_REQUIRE_SHARED=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export RUST_BACKTRACE=0
library=$PWD/plugin/libh5gridz.so
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fields=$tmp/fields

# Checks may run in parallel, so the failure flag is a file.
fail() {
    touch "$tmp/failed"
}

finish() {
    [[ -e $tmp/failed ]] && exit 1
    exit 0
}

check() { # TITLE COMMAND...: a test
    local title=$1 output status=0 begin=$SECONDS
    shift
    output=$(timeout -s KILL 300 "$@" 2>&1) || status=$?
    if ((status == 0)); then
        echo "- $title: passed, $((SECONDS - begin)) s. $(grep . <<<"$output" | tail -n 1 | cut -c 1-300)"
    else
        echo "- $title: FAILED ($status), $((SECONDS - begin)) s"
        # The first errors, as panics and sanitizers print them; then the end of the output.
        grep -E -A 4 'panicked at|========= (Error|Warning|Invalid|Uninitialized|Barrier|Program hit)' <<<"$output" |
            head -n 30 | cut -c 1-300 | sed 's/^/      /'
        echo '      …'
        tail -n 12 <<<"$output" | cut -c 1-300 | sed 's/^/      /'
        fail
    fi
}

beside() { # TITLE COMMAND...: a test in the background; its output is printed at the end
    check "$@" >"$(mktemp "$tmp/beside.XXXXXX")" &
}

print_beside() {
    wait
    cat "$tmp"/beside.*
}

section() { # TITLE COMMAND...: a bench's output: its own Markdown or, if TITLE begins with +, text
    local title=$1
    shift
    echo
    echo "## ${title#+}"
    echo
    [[ $title == +* ]] && echo '```text'
    timeout -s KILL 240 "$@" 2>&1 || { fail && echo "FAILED: $1"; }
    [[ $title == +* ]] && echo '```'
}

echo "# GPU results, $(date -u +%Y-%m-%d)"
echo
echo "- GPU and driver: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
echo "- CPU: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
cat version
echo
tests() {
    echo "## Tests"
    echo
    check "frames of GPU and CPU" ./gpu_test --test-threads=4
    check "a held stream, a full GPU, a lost one, fork" ./gpu_test --ignored --test-threads=1
    check "crates/gridz-cuda: order, a full GPU, a lost one, fork" ./cuda_test --ignored --test-threads=1
    beside "kernels as PTX of compute_75" env CUDA_FORCE_PTX_JIT=1 GRIDZ_GPU_CASES=60 ./gpu_test --test-threads=2 \
        shapes:: boundaries:: hostile:: regions:: cut:: codes::
    check "CuPy's memory, streams and graphs" python3 streams.py "$library"
    check "HDF5 filter in h5py" python3 h5py_filter.py "$PWD/plugin"
    check "whole datasets of HDF5 from GPU memory" python3 h5_bulk.py "$PWD/plugin/libh5gridz.so" "$PWD/gridz_hdf5.h"
    [[ ${1:-} == quick ]] && print_beside && finish
    if command -v compute-sanitizer >/dev/null; then
        # Ignore API errors: gridz asks the driver about pointers that may not be GPU pointers.
        sanitizer() { # TOOL TEST CASES
            beside "compute-sanitizer $1, $2" env GRIDZ_GPU_CASES="$3" \
                compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 ./gpu_test --exact "$2"
        }
        for job in "memcheck shapes::random_batches 8" "racecheck shapes::random_batches 8" \
            "initcheck shapes::random_batches 8" "synccheck shapes::random_batches 8" \
            "memcheck chunks::random_lists 2" "memcheck cut::blocks_that_are_cut 20" "memcheck cut::ranges_at_their_ends 1" "memcheck hostile::damaged_frames 3" "memcheck codes::numbers_of_all_kinds 12" "racecheck codes::numbers_of_all_kinds 12" "initcheck codes::numbers_of_all_kinds 12" "memcheck regions::random_regions 4" "racecheck regions::random_regions 4"; do
            # Word splitting of $job is intended. All jobs start at once: they take turns on the
            # GPU, and each is slow by itself.
            # shellcheck disable=SC2086
            sanitizer $job
        done
    else
        echo "- compute-sanitizer: SKIPPED, not on this machine"
    fi
    print_beside
}
[[ ${1:-} == benches ]] || tests "$@"
[[ ${1:-} == tests ]] && finish

if ! python3 fields.py "$fields/512" 512 >/dev/null || ! python3 fields.py "$fields/64" 64 >/dev/null; then
    echo
    echo "fields.py failed: no benches"
    exit 1
fi
python3 kinds.py "$fields/512" || fail

to_words() { # one word of a field table a line, with the folder prepended to each file
    sed "s|^|$fields/512/|" | tr ' ' '\n'
}

mapfile -t words < <(to_words <<'END'
turb3d.f32 f32 512x512x512 1
turb3d.f32 f32 500x509x503 1
smooth3d.f32 f32 512x512x512 1
random.f32 f32 512x512x512 1
turb3d.f32 f32 134217728 1
turb3d.f32 f32 8192x16384 1
turb3d.f64 f64 256x512x512 1
noisy1d.f64 f64 67108864 1
noisy1d.f64 f64 8192x8192 1
turb3d.f32 u8 536870912 1
masked.f32 f32 512x512x512 1
decimals.f32 f32 512x512x512 1
signs.f32 f32 512x512x512 1
narrow.i16 i16 512x512x512 1
narrow.u8 u8 512x512x512 1
turb3d.f32 f32 64540x7 200
turb3d.f32 f32 100x101x103 128
turb3d.f32 f32 64x64x64 512
turb3d.f32 f32 64x64x64 1024
turb3d.f32 f32 32x32x32 4096
random.f32 f32 32x32x32 4096
turb3d.f32 f32 64x64x64 1
turb3d.f32 f32 64x128x128 1
turb3d.f64 f64 32x64x64 1
END
)
section "+Frames in GPU memory, ndzip" ./gpu_throughput ndzip "${words[@]}"
section "+Frames in GPU memory, lorenzo" ./gpu_throughput lorenzo "${words[@]}"
mapfile -t words < <(to_words <<'END'
turb3d.f32 f32 512x512x512 1
smooth3d.f32 f32 512x512x512 1
turb3d.f64 f64 256x512x512 1
turb3d.f32 f32 64x64x64 512
turb3d.f32 f32 64x64x64 1024
turb3d.f32 f32 500x509x503 1
turb3d.f32 f32 100x101x103 128
turb3d.f32 f32 134217728 1
turb3d.f32 f32 8192x16384 1
random.f32 f32 512x512x512 1
masked.f32 f32 512x512x512 1
narrow.i16 i16 512x512x512 1
END
)
section "+Frames in GPU memory, lorenzo,level=dense" ./gpu_throughput lorenzo,level=dense "${words[@]}"
section "+Frames in GPU memory, quant,rel=1e-3" ./gpu_throughput quant,rel=1e-3 "${words[@]}"
section "+Frames in GPU memory, quant,rel=1e-3,level=2" ./gpu_throughput quant,rel=1e-3,level=2 "${words[@]}"
section "+Frames in GPU memory, quant,abs=0.06" ./gpu_throughput quant,abs=0.06 "${words[@]:0:36}"
section "+Frames in GPU memory, quant,pwrel=1e-3" ./gpu_throughput quant,pwrel=1e-3 "${words[@]:0:12}"
mapfile -t words < <(to_words <<'END'
turb3d.f32 f32 512x512x512 1
turb3d.f32 f32 500x509x503 1
turb3d.f32 f32 64x64x64 512
turb3d.f32 f32 8192x16384 1
turb3d.f32 f32 134217728 1
turb3d.f32 f32 32x64x256x256 1
turb3d.f64 f64 256x512x512 1
masked.f32 f32 512x512x512 1
END
)
for mode in rate=8 rate=16 rel=1e-3 lossless; do
    section "+Frames in GPU memory, zfp,$mode" ./gpu_throughput "zfp,$mode" "${words[@]}"
done
section "+Frames in GPU memory, multigrid,rel=1e-3" ./gpu_throughput multigrid,rel=1e-3 "${words[@]}"
section "+Frames in GPU memory, multigrid,rms=0.06" ./gpu_throughput multigrid,rms=0.06 "${words[@]}"
section "+Frames in GPU memory, multigrid,rel=1e-3,layers=4" ./gpu_throughput multigrid,rel=1e-3,layers=4 "${words[@]:0:12}"
mapfile -t words < <(to_words <<'END'
residuals.u16 u16 134217728 1
residuals.u16 u16 1048576 128
narrow.i16 i16 134217728 1
narrow.u8 u8 134217728 1
turb3d.f32 u8 536870912 1
END
)
section "+Frames in GPU memory, huffman" ./gpu_throughput huffman "${words[@]}"
mapfile -t words < <(to_words <<'END'
stencil.i32 i32 56623104 1
stencil.i32 i32 1048576 54
anywhere.i32 i32 62914560 1
anywhere.i32 i32 1048576 60
END
)
section "+Frames in GPU memory, cci" ./gpu_throughput cci "${words[@]}"
section "+Frames in GPU memory, cci,level=fast" ./gpu_throughput cci,level=fast "${words[@]}"
section "+First call of a process, 4 MiB in host memory" ./gpu_throughput first-call
section "gridz and nvCOMP" python3 peers.py "$library" "$fields/512" "$PWD/nvcomp"

section "Many chunks at once" python3 chunks.py "$library" "$fields/64/turb3d.f32"
section "Messages between GPUs" python3 links.py "$library" "$fields/64"

host_memory() {
    local codec how
    for codec in ndzip lorenzo quant,rel=1e-3 zfp,rate=8 zfp,rel=1e-3; do
        for how in "--threads 1" "--threads 2" "--threads 4" "--threads 8" "--threads $(nproc)" "--backend cuda" \
            "--threads $(nproc) --backend cuda"; do
            # Word splitting of $how is intended: the words are options.
            # shellcheck disable=SC2086
            ./throughput --codec "$codec" $how "$fields/64/turb3d.f32:256x256x256" "$fields/64/turb3d.f64:128x256x256" ||
                return
        done
    done
}
echo
echo "## Data in host memory, copies included, GB/s"
echo
echo '```text'
host_memory || fail
echo '```'

if command -v ncu >/dev/null; then
    mapfile -t words < <(to_words <<'END'
turb3d.f32 f32 134217728 1
turb3d.f32 f32 8192x16384 1
turb3d.f32 f32 512x512x512 1
turb3d.f64 f64 67108864 1
turb3d.f64 f64 8192x8192 1
turb3d.f64 f64 256x512x512 1
turb3d.f32 u8 536870912 1
END
    )
    section "What limits the kernels" python3 ncu_table.py ./gpu_throughput once ndzip "${words[@]}"
    section "What limits those of lorenzo" python3 ncu_table.py ./gpu_throughput once lorenzo "${words[@]:0:24}"
else
    echo
    echo "ncu: SKIPPED, not on this machine"
fi
finish
