#!/bin/bash
# smoke_test.sh PLUGINDIR: tests whether the plugin in this folder works, alone, in the HDF5 tools.
#
# Needs the HDF5 tools and readelf, but not the source tree. Writes datasets of several types
# through the filter, reads them back and compares. Checks that the data was really read through the
# plugin, and that the plugin needs only the C library's libraries.
set -euo pipefail

[[ $# -eq 1 && -f $1/libh5gridz.so ]] || { echo "usage: $0 PLUGINDIR    (the folder of libh5gridz.so)" >&2; exit 2; }
plugin=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HDF5_PLUGIN_PATH=$plugin

fail() {
    echo "smoke test: $1" >&2
    exit 1
}

# ---- the file itself ---------------------------------------------------------------------------

dynamic=$(readelf --dynamic --wide "$plugin/libh5gridz.so")
everywhere='^(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux.*)\.so' # on every Linux machine
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -v -E "$everywhere" || true)
[[ -z $needed ]] || fail "the plugin needs $needed; on machines without it, HDF5 would skip the plugin silently"
grep -q NODELETE <<<"$dynamic" || fail "the plugin is not linked with -z nodelete"

# ---- input -------------------------------------------------------------------------------------

# import PATH CLASS BITS ORDER EXTENTS: a dataset in plain.h5 from the numbers on standard input.
import() {
    local text=TEXTFP
    [[ $2 == FP ]] || text=TEXTIN
    cat >numbers
    {
        echo "PATH $1"
        echo "INPUT-CLASS $text"
        echo "RANK $(wc -w <<<"$5")"
        echo "DIMENSION-SIZES $5"
        echo "OUTPUT-CLASS $2"
        echo "OUTPUT-SIZE $3"
        echo "OUTPUT-ARCHITECTURE $([[ $2 == FP ]] && echo IEEE || echo STD)"
        echo "OUTPUT-BYTE-ORDER $4"
    } >configuration
    h5import numbers -c configuration -o plain.h5 >/dev/null
}

awk 'BEGIN { for (z = 0; z < 48; z++) for (y = 0; y < 40; y++) for (x = 0; x < 56; x++)
    printf "%.7f\n", sin(x / 9) * cos(y / 7) + z / 20 }' | import smooth_f32 FP 32 LE "48 40 56"
awk 'BEGIN { for (y = 0; y < 300; y++) for (x = 0; x < 200; x++)
    printf "%.12f\n", sin(x / 30 + y / 50) * 1000 }' | import smooth_f64_big_endian FP 64 BE "300 200"
awk 'BEGIN { for (i = 0; i < 5000; i++) print i * i % 997 }' | import integers IN 32 LE "5000"

# ---- through the filter and back ---------------------------------------------------------------

h5repack -f UD=34013,0,0 plain.h5 filtered.h5
h5diff plain.h5 filtered.h5
h5repack filtered.h5 again.h5 # the stored cd_values are used for creation again
h5diff plain.h5 again.h5
h5repack -l integers:CHUNK=117 -f integers:UD=34013,0,1,0 plain.h5 stored.h5 # codec 0, ragged last chunk
h5diff plain.h5 stored.h5
h5repack -f NONE filtered.h5 back.h5
h5diff plain.h5 back.h5

for dataset in smooth_f32 smooth_f64_big_endian integers; do
    # h5diff treats all NaNs as equal; these dumps are compared byte by byte.
    h5dump -d "$dataset" -b FILE -o plain.bin plain.h5 >/dev/null
    h5dump -d "$dataset" -b FILE -o filtered.bin filtered.h5 >/dev/null
    cmp plain.bin filtered.bin
    properties=$(h5dump -p -H -d "$dataset" filtered.h5)
    grep -q 'FILTER_ID 34013' <<<"$properties" || fail "$dataset did not get the filter"
    if [[ $dataset == smooth* ]]; then
        stored=$(sed -n 's/.*SIZE \([0-9]*\) (.*/\1/p' <<<"$properties")
        ((stored < $(stat --format=%s plain.bin))) || fail "$dataset takes $stored bytes, which is not less than the size of its data"
    fi
done

# The same read without the plugin must fail; otherwise this test proves nothing.
if HDF5_PLUGIN_PATH=$work/nowhere h5dump -d smooth_f32 filtered.h5 >/dev/null 2>&1; then
    fail "the data can be read without the plugin, so it did not go through it"
fi
echo "smoke test: $plugin/libh5gridz.so works in h5repack, h5dump and h5diff"
