"""Several libhdf5 in one process, loaded in the order of the arguments after the folder for files.

Each library writes and reads with the one plugin, which must determine the calling library for each
call.
"""

import pathlib
import sys

from capi import Hdf5
from support import GRIDZ, same, specials

folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
libraries = {name: Hdf5(name) for name in names}
versions = {library.version() for library in libraries.values()}
assert len(versions) == len(names), f"not as many libraries as names: {versions}"

arrays = {dtype: specials(dtype, (200, 300)) for dtype in ("<f4", ">f4", "<f8", ">f8")}
for round in range(2):
    # Interleaved: no library writes two files in a row.
    for dtype, data in arrays.items():
        for name, library in libraries.items():
            values = [(), (2, 0, 2)][round]
            library.write(folder / f"{name}.{dtype[1:]}.{dtype[0] == '<'}.h5", data, (64, 128), values, round)
    for dtype, data in arrays.items():
        for writer in names:
            for library in libraries.values():
                same(library.read(folder / f"{writer}.{dtype[1:]}.{dtype[0] == '<'}.h5", dtype, data.shape), data)

# An error is on the stack of the library that made the request, and on no other.
refused = {(1, 0, 5): "ndzip has no levels; use 0, not 5", (2, 0, 4): "lorenzo does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"}
for name, library, values in [(*item, values) for item in libraries.items() for values in refused]:
    try:
        library.write(folder / "refused.h5", arrays["<f4"], (64, 64), values)
    except RuntimeError as error:
        assert refused[values] in str(error), f"{name}: {error}"
    else:
        raise AssertionError(f"{name}: a wrong level was accepted")
    for other in libraries.values():
        assert other is library or other.library.H5Eget_num(0) == 0

if "netCDF4" in names:
    import netCDF4

    with netCDF4.Dataset(folder / f"{names[0]}.f4.True.h5") as file:
        file.set_auto_maskandscale(False)
        same(file["x"][...], arrays["<f4"])
if "h5py" in names:
    import h5py

    with h5py.File(folder / "objects.h5", "w") as file:
        file.create_dataset("x", data=arrays["<f8"], chunks=(64, 64), compression=GRIDZ)
    for library in libraries.values():
        same(library.read(folder / "objects.h5", "<f8", (200, 300)), arrays["<f8"])
if "tables" in names:
    import tables

    with tables.open_file(folder / f"{names[0]}.f8.True.h5") as file:
        same(file.root.x.read(), arrays["<f8"])
print("same")
