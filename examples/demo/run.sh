#!/bin/bash
# The demo: data is written through the gridz filter, read back, and compared bit for bit. Then one
# table compares codecs without loss and within a bound, and a picture shows the bounded ones.
#
#     FILE=my.h5 examples/demo/run.sh     your own file
#     N=128 examples/demo/run.sh          the files of a simulation with N^3 cells
#
# `make demo` builds the requirements and calls this script.  All output is written to target/demo.
set -euo pipefail

origin=$PWD
cd "$(dirname "$0")/../.."
out=target/demo
mkdir -p "$out"

# The caller's plugins stay reachable: the user's file may be compressed with another filter.
export HDF5_PLUGIN_PATH=$PWD/target/plugin${HDF5_PLUGIN_PATH:+:$HDF5_PLUGIN_PATH}

compile() { # with the API of HDF5 1.10, which all later versions also offer; h5cc leaves its .o in the current folder
    local source=$PWD/examples/demo/$1.c
    (cd "$out" && h5cc -shlib -std=c99 -D_POSIX_C_SOURCE=200809L -DH5_USE_110_API -O3 -Wall -Wextra "$source" -o "$1")
}

# Every dataset of 1 kB and more is compressed by gridz: id 34013, mandatory, no parameters, which is the
# default codec, lorenzo.  A smaller dataset is not worth a separate chunk.
repack() {
    rm -f "$2"
    h5repack --minimum=1024 --filter=UD=34013,0,0 "$1" "$2"
}

# The folder of hdf5plugin's filters, if one of these Pythons has it; Blosc2 is then in the table too.
others() {
    local python
    for python in .venv/bin/python python3; do
        "$python" -c 'import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)' 2>/dev/null && return
    done
    return 0
}

# The table and the picture.
compare() {
    local folder
    folder=$(others)
    HDF5_PLUGIN_PATH=$HDF5_PLUGIN_PATH${folder:+:$folder} "$out/compare" "$1" "$out/demo.svg"
    [[ -n $folder ]] || echo "With the Python package hdf5plugin, Blosc2 is in the table too."
}

size() { stat --dereference --format=%s "$1"; }

report() { # the whole file, including HDF5's metadata
    echo "  file: $(size "$1") -> $(size "$2") bytes ($2)"
}

verify() {
    "$out/verify" "$1" "$2"
    report "$1" "$2"
}

# Correct values are not sufficient: fields of a simulation that did not shrink were not compressed.
must_be_smaller() {
    if (($(size "$2") >= $(size "$1"))); then
        echo "$2 is not smaller than $1: the filter did not compress" >&2
        exit 1
    fi
}

refuse() {
    echo "$1" >&2
    exit 2
}

simulation() {
    local n=${N:-128} steps=600 snapshots=3
    [[ $n =~ ^[0-9]+$ ]] || refuse "N=$n: N is the number of cells per side, for example N=128"
    compile reaction_diffusion
    echo "Gray-Scott reaction-diffusion, $n^3 cells in float and double, $steps steps"
    "$out/reaction_diffusion" "$n" "$steps" "$snapshots" "$out/plain.h5" "$out/filtered.h5"
    echo
    echo "Written by the simulation through the filter, against the same fields without a filter:"
    verify "$out/plain.h5" "$out/filtered.h5"
    must_be_smaller "$out/plain.h5" "$out/filtered.h5"
    echo
    echo "The file without a filter, converted by h5repack -f UD=34013,0,0:"
    repack "$out/plain.h5" "$out/repacked.h5"
    verify "$out/plain.h5" "$out/repacked.h5"
    must_be_smaller "$out/plain.h5" "$out/repacked.h5"
    echo "  codec: from the headers of the chunks; MB/s: raw data through HDF5, compression included"
    echo
    compare "$out/plain.h5"
}

own_file() {
    local file=$1 packed
    case $file in
    \~/*) file=$HOME/${file#\~/} ;; # the shell does not expand a ~ after FILE=
    /*) ;;
    *) file=$origin/$file ;;
    esac
    [[ -e $file ]] || refuse "FILE=$1: there is no such file"
    [[ -f $file && -r $file ]] || refuse "FILE=$1: not a file that can be read"
    if [[ $(head -c 3 "$file" | tr -d '\0') == CDF ]]; then
        refuse "FILE=$1: a netCDF file of the classic format, which is not HDF5. Convert it first: nccopy -k nc4 IN OUT"
    fi
    h5dump --contents=0 "$file" >/dev/null 2>&1 || refuse "FILE=$1: not an HDF5 file (or a damaged one)"

    packed=$out/$(basename "$file")
    [[ ! $file -ef $packed ]] || refuse "FILE=$1: this is the demo's own output"
    echo "$file, converted by h5repack -f UD=34013,0,0:"
    repack "$file" "$packed" || refuse "h5repack could not convert $1. If the file is compressed with another plugin, \
put that plugin's folder into HDF5_PLUGIN_PATH."
    verify "$file" "$packed"
    # Names, links, attributes and references, which verify does not compare.
    local differences
    if differences=$(h5diff "$file" "$packed" 2>&1); then
        echo "  h5diff: no differences"
    else
        echo "$differences"
        echo "h5diff finds differences" >&2
        exit 1
    fi
    echo
    compare "$file"
}

compile verify
compile compare
if [[ -n ${FILE:-} ]]; then
    own_file "$FILE"
else
    simulation
fi
