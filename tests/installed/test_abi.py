"""Programs that were compiled with an older header run with the current library.

`tests/abi/` has a copy of the header of every release. Before the first release, the copy is that
of the upcoming one. `abi.c` is compiled against each copy. The layout of structs and the values of
constants, which are compiled into C programs, must never change: the tests compare these too.
"""

import re
import subprocess

import pytest

from support import ROOT, VERSION, WARNINGS, functions_of

HEADERS = sorted((ROOT / "tests/abi").glob("gridz-*.h"))
STRUCTS = {
    "gridz_array": ["struct_size", "dtype", "byte_order", "element_size", "rank", "extents"],
    "gridz_options": [
        "struct_size", "context", "codec", "mode", "level", "value", "flags", "fill_value", "n_fill_values",
        "valid_min", "valid_max",
    ],
    "gridz_codec": [
        "struct_size", "name", "description", "level_names", "level_numbers", "n_levels", "id", "modes", "dtypes",
        "backends", "reserved",
    ],
    "gridz_block_counts": [
        "struct_size", "all", "raw", "constant", "packed", "entropy", "fixed_point", "dictionary", "sparse", "decimal",
        "masked", "cut", "exact",
    ],
    "gridz_frame_info": [
        "struct_size", "dtype", "byte_order", "element_size", "rank", "extents", "array_bytes", "frame_bytes",
        "codec_name", "codec", "mode", "value", "bound",
    ],
    "gridz_part_info": [
        "struct_size", "rank", "level", "extents", "array_bytes", "frame_bytes", "n_levels", "layers", "n_layers", "mode",
        "value", "bound",
    ],
    "gridz_quality_options": [
        "struct_size", "context", "mode", "reserved", "value", "fill_value", "n_fill_values", "valid_min", "valid_max",
    ],
    "gridz_quality_report": [
        "struct_size", "elements", "numbers", "fill_mismatches", "nan_mismatches", "infinity_mismatches",
        "largest_error", "largest_error_rest", "largest_error_index", "largest_relative_error",
        "largest_relative_error_index", "bound", "error_over_bound", "minimum", "maximum", "range", "l2_error",
        "rmse", "nrmse", "psnr", "correlation", "ssim_2d", "ssim_3d",
    ],
    "gridz_context_options": ["struct_size", "threads", "device", "memory_limit"],
    "gridz_h5_function": ["name", "address"],
    "gridz_h5_options": [
        "struct_size", "context", "strides", "progress", "progress_data", "memory_limit", "dxpl", "stream",
    ],
    "gridz_h5_part_info": [
        "struct_size", "rank", "level", "extents", "array_bytes", "n_chunks", "stored_bytes", "read_bytes", "n_levels",
        "layers", "n_layers", "reserved", "bound", "rms",
    ],
    "gridz_csr": [
        "struct_size", "n_rows", "n_cols", "nnz", "dtype", "index_dtype", "layout", "reserved", "starts", "indices", "values",
    ],
    "gridz_cci_info": [
        "struct_size", "n_rows", "n_cols", "nnz", "dtype", "values", "block", "reserved", "frame_bytes", "value_bytes",
        "by_distance", "blocked", "short_codes", "plain", "long_rows",
    ],
}  # fmt: skip


def constants(header):
    """The numeric constants of a header, except those of its version."""
    found = dict(re.findall(r"^#define (GRIDZ_\w+) (-?\d+)$", header.read_text(), flags=re.M))
    return {name: value for name, value in found.items() if not name.startswith("GRIDZ_VERSION_")}


def layout(header, folder):
    """Offset of every field, as computed by a C compiler."""
    lines = [
        f'printf("{struct}.{field} %zu %zu\\n", offsetof({struct}, {field}), sizeof ((({struct} *)0)->{field}));'
        for struct, fields in STRUCTS.items()
        for field in fields
    ]
    source = folder / "layout.c"
    source.write_text(f'#include "{header}"\n#include <stdio.h>\nint main(void) {{ {" ".join(lines)} return 0; }}\n')
    subprocess.run(["cc", str(source), "-o", str(folder / "layout")], check=True)
    return subprocess.run([str(folder / "layout")], check=True, capture_output=True, text=True).stdout.splitlines()


def test_there_is_a_header():
    assert HEADERS


def test_every_struct_is_looked_at():
    text = (ROOT / "include/gridz.h").read_text()
    assert set(re.findall(r"typedef struct (\w+) \{", text)) == set(STRUCTS)


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.stem)
def test_what_is_compiled_in_stays(header, tmp_path):
    now = constants(ROOT / "include/gridz.h")
    changed = {name for name, value in constants(header).items() if now.get(name) != value}
    assert not changed
    assert layout(header, tmp_path) == layout(ROOT / "include/gridz.h", tmp_path)


def test_the_newest_copy_is_of_this_release():
    """Until the version number is increased, the copy must equal the header."""
    copy = ROOT / f"tests/abi/gridz-{VERSION}.h"
    assert copy.read_text() == (ROOT / "include/gridz.h").read_text()


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.stem)
def test_every_function_is_there(installed, header):
    symbols = installed.run("nm --dynamic --defined-only --format=posix $GRIDZ_PREFIX/lib/libgridz.so | cut -d' ' -f1")
    functions = functions_of(header)
    assert functions and functions <= set(symbols.split())


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.stem)
def test_an_old_program_runs(installed, header):
    (installed.folder / "gridz.h").write_text(header.read_text())
    installed.run(
        f"cc -std=c99 {WARNINGS} -I. {ROOT}/tests/installed/abi.c -o abi $(pkg-config --libs gridz) && ./abi"
    )
