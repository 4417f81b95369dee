#!/bin/bash
# fuzz/run.sh SECONDS [TARGET...]: runs every fuzz target, or the named ones, for the given number
# of seconds each, starting from the golden frames. Prints the number of runs, of inputs that
# reached the code under test and of accepted inputs. Fails on the first crash, whose input it
# leaves in fuzz/artifacts, and if no input was reached or accepted. Works with stable Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_FUZZ=0.13.2
usage="usage: fuzz/run.sh SECONDS [frame] [ndzip_decode] [lorenzo_decode] [quant_decode] [zfp_decode] [multigrid_decode] [huffman_decode] [cci_decode] [roundtrip] [cd_values] [sparse]"
seconds=${1:?$usage}
shift
targets=("$@")
[ $# -gt 0 ] || targets=(frame ndzip_decode lorenzo_decode quant_decode zfp_decode multigrid_decode huffman_decode cci_decode roundtrip cd_values sparse)
export CARGO_TARGET_DIR=$PWD/fuzz/target
# Only the CPU code is fuzzed; the kernels need not be recompiled.
export GRIDZ_CUDA=off

if ! cargo fuzz --version > /dev/null 2>&1; then
    export PATH=$CARGO_TARGET_DIR/tools/bin:$PATH
    cargo fuzz --version > /dev/null 2>&1 ||
        cargo install --quiet --locked cargo-fuzz --version "$CARGO_FUZZ" --root "$CARGO_TARGET_DIR/tools"
fi

# Copies golden frames as inputs of a target; inputs found by the fuzzer stay in fuzz/corpus between
# runs.
seed() {
    local target=$1 corpus=fuzz/corpus/$1 folder=v8 frame name
    mkdir -p "$corpus"
    # Sparse matrices have separate frames.
    if [ "$target" = sparse ]; then
        folder=v5_matrices
    fi
    for frame in $(find "tests/golden/$folder" "tests/golden/${folder}_reject" -name '*.gridz' -size -40k); do
        name=$(tr / _ <<< "${frame#tests/golden/}")
        case $target in
        # The last byte selects the frame unchanged, with its header completed, or with the checks
        # of its blocks completed too.
        frame)
            { cat "$frame"; printf '\0'; } > "$corpus/$name.0"
            { cat "$frame"; printf '\1'; } > "$corpus/$name.1"
            { cat "$frame"; printf '\3'; } > "$corpus/$name.3"
            ;;
        # One byte of flags, three of extents, then the payload: 1-D, as the frames after their header.
        ndzip_decode)
            { printf '\0\0\x10\0'; tail -c +65 "$frame"; } > "$corpus/$name.f32"
            { printf '\1\0\x10\0'; tail -c +65 "$frame"; } > "$corpus/$name.f64"
            { printf '\x0c\x21\x12\x11'; tail -c +65 "$frame"; } > "$corpus/$name.complete"
            ;;
        # Flags, b, three extents and a corner, then the blocks: what follows header and table of a frame with one block.
        lorenzo_decode)
            { printf '\6\0\x20\x20\4\7'; tail -c +97 "$frame"; } > "$corpus/$name.f32"
            { printf '\x16\1\x20\x20\4\7'; tail -c +97 "$frame"; } > "$corpus/$name.f64"
            { printf '\x24\0\x60\x30\0\7'; tail -c +97 "$frame"; } > "$corpus/$name.u8"
            ;;
        # Kind, mode, three extents, a corner, the value, then the blocks: those that follow head
        # and table of a frame with one block.
        quant_decode)
            { printf '\6\0\x20\x20\4\7\x7f\3'; tail -c +113 "$frame"; } > "$corpus/$name.f32"
            { printf '\x16\1\x20\x20\4\7\5\1'; tail -c +113 "$frame"; } > "$corpus/$name.f64"
            { printf '\x76\2\x20\x20\1\7\x7f\3'; tail -c +113 "$frame"; } > "$corpus/$name.c64"
            ;;
        # Kind, parameters, three extents, a corner, two numbers, the damages, and elements.
        zfp_decode)
            { printf '\6\0\x20\x20\4\7\x20\3'; tail -c +65 "$frame"; } > "$corpus/$name.lossless"
            { printf '\6\x51\x20\x20\4\7\x7f\3\7\x80\1'; tail -c +65 "$frame"; } > "$corpus/$name.abs"
            { printf '\x16\x23\x20\x20\4\7\x20\3\7\1\1\7\x80\x10'; tail -c +65 "$frame"; } > "$corpus/$name.rate"
            ;;
        # Kind, mode, three extents, a corner, the value, the damages, and elements.
        multigrid_decode)
            { printf '\6\0\x20\x20\4\7\x7f'; tail -c +65 "$frame"; } > "$corpus/$name.abs"
            { printf '\x16\x12\x20\x20\4\7\x7e\x20\0\1'; tail -c +65 "$frame"; } > "$corpus/$name.rms"
            { printf '\x15\xd1\x60\x30\4\7\x7b\7\1\1'; tail -c +65 "$frame"; } > "$corpus/$name.rel"
            ;;
        # Flags, b, two sides and a corner, then the blocks: what follows header and table of a frame with one block.
        huffman_decode)
            { printf '\4\3\x60\x30\7'; tail -c +81 "$frame"; } > "$corpus/$name.u8"
            { printf '\x14\3\x60\x30\7'; tail -c +81 "$frame"; } > "$corpus/$name.u16"
            { printf '\x54\3\x60\x30\7'; tail -c +81 "$frame"; } > "$corpus/$name.i32"
            ;;
        # Flags, codes, two sides and a corner, then the blocks: what follows header and table of a frame with one block.
        cci_decode)
            { printf '\4\11\x60\x30\7'; tail -c +81 "$frame"; } > "$corpus/$name.u32"
            { printf '\x34\11\x60\x30\7'; tail -c +81 "$frame"; } > "$corpus/$name.i64"
            ;;
        # The frame unchanged.
        sparse) cp "$frame" "$corpus/$name" ;;
        # Codec ndzip or lorenzo, float32, little-endian, rank 3, extents 16 × 17 × 33.
        roundtrip)
            { printf '\2\x0b\4\3\x10\0\x11\0\x21\0'; head -c 4000 "$frame"; } > "$corpus/$name.dense"
            { printf '\2\x0b\2\3\x10\0\x11\0\x21\0'; head -c 4000 "$frame"; } > "$corpus/$name.fast"
            { printf '\1\x0b\0\3\x10\0\x11\0\x21\0'; head -c 4000 "$frame"; } > "$corpus/$name"
            ;;
        esac
    done
    # The record of 3-D float32 chunks, one with a fill value, and a user's cd_values.
    if [ "$target" = cd_values ]; then
        printf '\1\0ZG\1\0\0\0\x0b\0\3\0\4\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0' \
            > "$corpus/record"
        printf '\1\0ZG\1\0\0\0\x0b\0\1\2\4\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\0\xc0\x79\xc4' > "$corpus/fill"
        printf '\1\0\0\0\0\0\0\0\0\0\0\0' > "$corpus/user"
    fi
}

fuzz() {
    local target=$1 log=$CARGO_TARGET_DIR/$1.log runs reached accepted
    seed "$target"
    if ! cargo fuzz run --sanitizer none "$target" -- -max_total_time="$seconds" -max_len=40000 \
        -print_final_stats=1 > "$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "fuzz $target: FAILED, the whole log is $log" >&2
        return 1
    fi
    runs=$(awk '/^stat::number_of_executed_units:/ { print $2 }' "$log")
    read -r reached accepted <<< "$(sed -n 's/^reach: \([0-9]*\) inputs .*, \([0-9]*\) accepted$/\1 \2/p' "$log" | tail -n 1)"
    if [ "${reached:-0}" = 0 ] || [ "${accepted:-0}" = 0 ]; then
        echo "fuzz $target: FAILED: of $runs inputs ${reached:-none} reached the code under test and" \
            "${accepted:-none} were accepted; the target or its seeds no longer fit the format" >&2
        return 1
    fi
    echo "fuzz $target: ${runs:?no count of executions in $log} executions in $seconds s, $reached reached the code" \
        "under test, $accepted accepted, no crash"
}

# Runs two targets at a time.
mkdir -p "$CARGO_TARGET_DIR"
running=()
for target in "${targets[@]}"; do
    fuzz "$target" &
    running+=($!)
    if [ ${#running[@]} = 2 ]; then
        wait "${running[0]}"
        running=("${running[1]}")
    fi
done
wait "${running[@]}"
