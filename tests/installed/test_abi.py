"""Programs that were compiled with an older header run with the current library.

`tests/abi/VERSION/` has copies of the generated headers of a release. Before the first release, the
copies are those of the upcoming one. `abi.c` is compiled against each set. The layout of structs and
the values of constants, which are compiled into C programs, must never change: the tests compare
these too.
"""

import re
import subprocess

import pytest

from support import HEADERS, ROOT, VERSION, WARNINGS, functions_of

RELEASES = sorted((ROOT / "tests/abi").iterdir())
STRUCTS = {
    "gridz_array": ["struct_size", "dtype", "byte_order", "element_size", "rank", "extents"],
    "gridz_options": [
        "struct_size", "context", "request", "flags", "fill_value", "n_fill_values", "valid_min", "valid_max",
    ],
    "gridz_batch": [
        "struct_size", "array", "n", "arrays", "array_stride", "frames", "frame_stride", "frame_bytes", "packed",
        "packed_bytes", "offsets", "statuses", "start", "count", "workspace", "workspace_bytes", "stream", "options",
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


def texts(folder):
    """The texts of the generated headers in a folder."""
    return "".join(path.read_text() for path in sorted(folder.glob("*.h")) if path.stem in HEADERS)


def constants(folder):
    """The numeric constants of the headers in a folder, except those of the version."""
    found = dict(re.findall(r"^#define (GRIDZ_\w+) (-?\d+)$", texts(folder), flags=re.M))
    return {name: value for name, value in found.items() if not name.startswith("GRIDZ_VERSION_")}


def layout(headers, folder):
    """Offset of every field in the headers of the folder `headers`, as computed by a C compiler."""
    lines = [
        f'printf("{struct}.{field} %zu %zu\\n", offsetof({struct}, {field}), sizeof ((({struct} *)0)->{field}));'
        for struct, fields in STRUCTS.items()
        for field in fields
    ]
    source = folder / "layout.c"
    includes = "".join(f'#include "{path}"\n' for path in sorted(headers.glob("*.h")) if path.stem in HEADERS)
    source.write_text(f'{includes}#include <stdio.h>\nint main(void) {{ {" ".join(lines)} return 0; }}\n')
    subprocess.run(["cc", str(source), "-o", str(folder / "layout")], check=True)
    return subprocess.run([str(folder / "layout")], check=True, capture_output=True, text=True).stdout.splitlines()


def test_there_is_a_release():
    assert RELEASES and len(HEADERS) > 5


def test_every_struct_is_looked_at():
    assert set(re.findall(r"typedef struct (\w+) \{", texts(ROOT / "include"))) == set(STRUCTS)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_what_is_compiled_in_stays(release, tmp_path):
    now = constants(ROOT / "include")
    changed = {name for name, value in constants(release).items() if now.get(name) != value}
    assert not changed
    assert layout(release, tmp_path) == layout(ROOT / "include", tmp_path)


def test_the_newest_copies_are_of_this_release():
    """Until the version number is increased, the copies must equal the headers."""
    copies = ROOT / "tests/abi" / VERSION
    assert sorted(path.stem for path in copies.iterdir()) == sorted(HEADERS)
    for name in HEADERS:
        assert (copies / f"{name}.h").read_text() == (ROOT / f"include/{name}.h").read_text(), name


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_every_function_is_there(installed, release):
    symbols = installed.run("nm --dynamic --defined-only --format=posix $GRIDZ_PREFIX/lib/libgridz.so | cut -d' ' -f1")
    functions = set().union(*map(functions_of, release.glob("*.h")))
    assert functions and functions <= set(symbols.split())


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_an_old_program_runs(installed, release):
    source = f"{ROOT}/tests/installed/abi.c"
    installed.run(f"cc -std=c99 {WARNINGS} -I{release} {source} -o abi $(pkg-config --libs gridz) && ./abi")
