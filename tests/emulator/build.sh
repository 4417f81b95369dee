#!/bin/bash
# Compiles the kernels for a CPU, to OUT/kernels, and a CUDA driver that runs them, to OUT: build.sh
# OUT [SOURCE...]
#
# Alignment is checked as on a GPU, although the CPU does not require it: a misaligned access ends
# the test.
#
# Sources are kernels/*/*.cu by default. CXXFLAGS are added: "-fsanitize=address" finds accesses out
# of bounds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
mkdir -p "$1/kernels"
out=$(cd "$1" && pwd)
shift
cd "$root"
"$here/translate.py" kernels "$out/translated"
sources=("$@")
((${#sources[@]})) || sources=(kernels/*/*.cu)
compile() {
    # shellcheck disable=SC2086  # CXXFLAGS are words
    g++ -std=c++17 -O1 -fPIC -shared -fno-gnu-unique -fno-strict-aliasing -ffp-contract=off -Wno-unknown-pragmas \
        -fsanitize=alignment -fno-sanitize-recover=alignment ${CXXFLAGS:-} \
        -Wl,-Bsymbolic -I"$here" -include cuda.h -o "$out/$1.new" -x c++ "$out/translated/$2" "$here/scheduler.cpp"
    mv "$out/$1.new" "$out/kernels/$1"
}
export -f compile
export here out CXXFLAGS
for source in "${sources[@]}"; do
    name=$(basename "$source" .cu)
    # Skip the compilation if nothing that it depends on has changed.
    state=$(cat "$here"/*.cpp "$here"/*.h "$here/build.sh" $(find "$out/translated" -name '*.cuh' | sort) "$out/translated/${source#kernels/}" <(echo "${CXXFLAGS:-}") | sha256sum)
    if [[ -f $out/kernels/$name.so && $(cat "$out/$name.state" 2> /dev/null) == "$state" ]]; then continue; fi
    echo "$name.so ${source#kernels/} $name.state $state"
done > "$out/todo"
xargs -r -P "$(nproc)" -L 1 bash -euc 'compile "$0" "$1" && echo "$3  -" > "$out/$2"' < "$out/todo"
cc -std=gnu11 -Wall -Wextra -Werror -O1 -shared -fPIC -pthread -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" tests/mock_cuda/cuda.c
ln -sf libcuda.so.1 "$out/libcuda.so"
