#!/bin/bash
# gpu_suites.sh pack FOLDER [BUILD...]: builds the tests that need a GPU once for each BUILD of the
# kernels, and copies them and this script to FOLDER, for a machine with an NVIDIA GPU and without
# Rust. Needs nvcc (`make cuda`) and the reference data.
#
# gpu_suites.sh run [BUILD...]: in that folder, on that machine: runs every suite with every build.
# Prints a table in Markdown, for docs/results/. Fails if a test fails, if a suite runs no test, or
# if a test is in no suite.
#
# A BUILD names one architecture of build.rs. sm_90 is machine code. The other builds are PTX, which
# the driver compiles for the installed GPU, so a newer GPU runs the code paths of older ones.
#
#   GRIDZ_GPU_CASES=n   random cases of a test (60)
#   SECONDS_EACH=n      time limit for a suite, including the driver's compilation (900)
set -euo pipefail

builds=(sm_90 compute_75 compute_80 compute_86 compute_89)
# A suite's name and its modules of tests/gpu; "alone" are the tests that need exclusive use of the
# GPU.
suites=(
    "frames shapes:: boundaries:: codes:: cut:: folds:: lanes:: large:: regions:: parts::"
    "hostile hostile:: resealed::"
    "changing changing::"
    "batches chunks:: chunk_stream:: waiting:: streams::"
    "sparse sparse::"
    "indices indices::"
    "layers layers::"
    "missing bounded::"
    "alone faults:: streams::"
)

usage() {
    sed -n '2,/^set/s/^# \?//p' "$0" >&2
    exit 2
}

pack() { # FOLDER BUILD...
    local folder=$1 build check program
    shift
    cd "$(dirname "$0")/.."
    mkdir -p "$folder/shared/vectors"
    for build in "$@"; do
        # Only machine code has registers to check.
        [[ $build == sm_* ]] && check=1 || check=0
        program=$(GRIDZ_CUDA=require GRIDZ_CUDA_ARCHS=$build GRIDZ_CUDA_CHECK=$check cargo test --locked --release --no-run --test gpu --message-format=json |
            sed -n 's/.*"name":"gpu".*"executable":"\([^"]*\)".*/\1/p')
        [[ -n $program ]] || { echo "gpu_suites.sh: cargo names no test program for $build" >&2 && exit 1; }
        cp "$program" "$folder/gpu_test.$build"
        strip "$folder/gpu_test.$build"
    done
    {
        echo "- commit: $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and uncommitted changes')"
        echo "- kernels: $(scripts/kernels_hash.sh)"
    } >"$folder/version"
    cp scripts/gpu_suites.sh "$folder/"
    cp -r "${GRIDZ_SHARED:-../shared}/vectors/ndzip" "$folder/shared/vectors/"
    chmod -R u+w "$folder"
    du -sh "$folder"
}

# The numbers of tests that passed and failed, from the last line with a result.
counts() { # FILE
    sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' "$1" | tail -n 1
}

# Options of the test program for a suite.
options() { # SUITE
    if [[ $1 == alone ]]; then echo --ignored; fi
}

run_suite() { # BUILD SUITE MODULE...
    local build=$1 suite=$2 status=0 passed=0 failed=0 begin=$SECONDS
    local output=$tmp/$build.$suite
    shift 2
    # shellcheck disable=SC2046  # no option, or one
    timeout -s KILL "$seconds_each" "./gpu_test.$build" --test-threads=1 $(options "$suite") "$@" >"$output" 2>&1 || status=$?
    read -r passed failed < <(counts "$output") || true
    local verdict=passed
    if ((status != 0 || ${failed:-0} > 0)); then
        verdict=FAILED
    elif ((${passed:-0} == 0)); then
        verdict="FAILED: no test ran"
    elif grep -q 'SKIPPED' "$output"; then
        verdict="FAILED: a test was skipped"
    fi
    echo "| $build | $suite | ${passed:-0} | ${failed:-0} | $((SECONDS - begin)) | $verdict |"
    if [[ $verdict != passed ]]; then
        touch "$tmp/failed"
        {
            echo "== $build, $suite, status $status"
            grep -A 4 'panicked at' "$output" | head -n 40 || true
            tail -n 15 "$output"
        } >>"$tmp/report"
    fi
}

# Every test is in a suite.
check_suites() { # BUILD
    local suite all=() listed
    for suite in "${suites[@]}"; do
        read -ra words <<<"$suite"
        # shellcheck disable=SC2046  # no option, or one
        mapfile -t listed < <("./gpu_test.$1" --list $(options "${words[0]}") "${words[@]:1}" 2>/dev/null | sed -n 's/: test$//p')
        all+=("${listed[@]}")
    done
    if ! diff <(printf '%s\n' "${all[@]}" | sort -u) <({ "./gpu_test.$1" --list && "./gpu_test.$1" --list --ignored; } 2>/dev/null |
        sed -n 's/: test$//p' | grep '::' | sort -u) >"$tmp/missing"; then
        echo "gpu_suites.sh: tests that are in no suite:" >&2
        cat "$tmp/missing" >&2
        touch "$tmp/failed"
    fi
}

run() { # BUILD...
    cd "$(dirname "$0")"
    export GRIDZ_SHARED=$PWD/shared GRIDZ_REQUIRE_GPU=1 GRIDZ_REQUIRE_SHARED=1 GRIDZ_GPU_CASES=${GRIDZ_GPU_CASES:-60} RUST_BACKTRACE=0
    # The driver's compiled kernels are cached from one suite to the next.
    export CUDA_CACHE_MAXSIZE=4294967296
    seconds_each=${SECONDS_EACH:-900}
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    local build suite words
    echo "# Suites of GPU tests by builds of the kernels, $(date -u +%Y-%m-%d)"
    echo
    echo "- GPU and driver: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)"
    cat version
    echo "- random cases of a test: $GRIDZ_GPU_CASES"
    echo
    echo "| build | suite | passed | failed | seconds | |"
    echo "|---|---|--:|--:|--:|---|"
    check_suites "$1"
    for build in "$@"; do
        for suite in "${suites[@]}"; do
            read -ra words <<<"$suite"
            run_suite "$build" "${words[@]}"
        done
    done
    [[ ! -e $tmp/report ]] || { echo && echo '```text' && cat "$tmp/report" && echo '```'; }
    [[ ! -e $tmp/failed ]]
}

case ${1:-} in
pack)
    (($# >= 2)) || usage
    folder=$2
    shift 2
    (($#)) || set -- "${builds[@]}"
    pack "$folder" "$@"
    ;;
run)
    shift
    (($#)) || set -- "${builds[@]}"
    run "$@"
    ;;
*) usage ;;
esac
