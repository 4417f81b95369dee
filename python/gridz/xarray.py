"""xarray's `encoding` for data that gridz compresses, in netCDF files and Zarr stores.

    from gridz.xarray import to_netcdf, xarray_encoding
    encoding = xarray_encoding(ds, "quant,abs=1e-3")
    ds.to_netcdf("t.nc", engine="h5netcdf", encoding=encoding)
    to_netcdf(ds, "t.nc", encoding=encoding)                            # by netCDF4-python
    ds.to_zarr("t.zarr", encoding=xarray_encoding(ds, engine="zarr"))

xarray's engine `netcdf4` cannot select a filter by its number, so xarray refuses
`ds.to_netcdf(engine="netcdf4", encoding=encoding)`. `to_netcdf` of this module writes through the
same engine and sets the filter of each variable after its creation. Every engine reads the files:
netCDF files after `import gridz`, or with `HDF5_PLUGIN_PATH`, Zarr stores if gridz is installed.
"""

from __future__ import annotations

import math
import os

import numpy as np

import gridz
from gridz._cf import coordinates, why_not_lossy
from gridz._missing import Missing, of_attributes, of_codec
from gridz._ranges import Range, check_rel
from gridz.errors import InvalidArgument

ENGINES = ("h5netcdf", "netcdf4", "zarr")

CHUNK_BYTES = 4 << 20
"""Automatically chosen chunks are not larger, and not smaller than a quarter of it unless the
variable is."""

_KEPT = ("dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar")
"""The parts of a variable's own encoding that describe its values. xarray drops them if a new
encoding does not repeat them."""


def xarray_encoding(
    dataset, codec="lorenzo", engine="h5netcdf", chunks="auto", per_variable=None, zarr_format=3, *, force=False
) -> dict:
    """The encoding of all variables of numbers or dates, for `dataset.to_netcdf`, `to_netcdf` and `dataset.to_zarr`.

    `codec` is a `gridz.Codec` or its text form. A lossy one applies only to data variables of
    floats (or complex numbers). Coordinates (also by the CF conventions: bounds of cells, variables
    in degrees_north, …), flags, integers and values packed by `scale_factor` get the default
    lossless codec. `rel=` becomes `abs=` by the range of each variable's valid numbers, which is
    measured. Missing elements (`_FillValue`, `missing_value`, outside of `valid_min`, `valid_max`
    or `valid_range`) are restored bit for bit.

    `engine` is "h5netcdf", "netcdf4" or "zarr", the last with `zarr_format` 2 or 3. `chunks`:
    "auto" makes chunks of 1 to 4 MiB, long along all axes, inside those of dask (with "zarr",
    dask's own). A dict gives extents by dimension names, and "auto" applies to the other
    dimensions. None leaves the choice to the engine. `per_variable` gives codecs by variable names,
    None for a variable that is not to be compressed.

    Existing encodings of the variables' values (`dtype`, `units`, …) are kept. Raises
    `gridz.InvalidArgument` for unknown names, for a lossy codec in `per_variable` that does not
    suit its variable, and, unless `force` is set, for `rel=` above 0.1 and for ranges that outliers
    determine.
    """
    if engine not in ENGINES:
        raise InvalidArgument(f"engine={engine!r}; give one of {', '.join(ENGINES)}")
    if engine == "zarr" and zarr_format not in (2, 3):
        raise InvalidArgument(f"zarr_format={zarr_format!r}; give 2 or 3")
    chosen = dict(per_variable or {})
    unknown = [name for name in chosen if name not in dataset.variables]
    if unknown:
        raise InvalidArgument(
            f"per_variable contains {unknown[0]!r}, which is not a variable; the dataset has {', '.join(map(str, dataset.variables))}"
        )
    exact = _exact(dataset)
    encoding = {}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind not in "biufcmM" or not variable.ndim or not variable.size:
            continue
        kept = {key: variable.encoding[key] for key in _KEPT if variable.encoding.get(key) is not None}
        wanted = gridz.codec(chosen.get(name, codec)) if chosen.get(name, codec) is not None else None
        if wanted is not None and not wanted.is_lossless:
            why_not = exact.get(name) or _why_not(variable)
            if why_not and name in chosen:
                raise InvalidArgument(f"{name}: {wanted} is not for {why_not}; give a lossless codec")
            wanted = gridz.codec(None) if why_not else _bounded(variable, name, wanted, force)
            if not why_not and "_FillValue" not in _described(variable) and "missing_value" in kept:
                # xarray would add a _FillValue of NaN, and later refuse the combination.
                kept["_FillValue"] = np.ravel(kept["missing_value"])[0]
        extents = _chunks_of(variable, chunks, engine)
        encoding[name] = kept | _storage(wanted, extents, engine, zarr_format)
    return encoding


def to_netcdf(dataset, path, mode="w", *, group=None, encoding=None, unlimited_dims=None) -> None:
    """Writes a dataset as `dataset.to_netcdf(engine="netcdf4")` does, compressed by gridz as
    `encoding` requests.

    `path` must be a file path: netCDF writes only files, so a buffer or None is refused with
    `InvalidArgument`. `encoding` is the result of `xarray_encoding`, for either of the netCDF
    engines. `mode` "a" adds variables; existing variables keep their filters. The format is
    NETCDF4. Arrays of dask are computed by dask's threads, even if there is a cluster: its
    processes could not write to the file that is open here.
    """
    from xarray.backends.common import ArrayWriter

    if not isinstance(path, (str, bytes, os.PathLike)):
        raise InvalidArgument(
            f"path is of type {type(path).__name__}; give the path of a file, and read that file if you need its bytes"
        )
    path = os.path.expanduser(os.fsdecode(path))
    if unlimited_dims is None:
        unlimited_dims = dataset.encoding.get("unlimited_dims")
    store, writer = _store_class().open(path, mode=mode, group=group), ArrayWriter()
    try:
        dataset.dump_to_store(store, writer=writer, encoding=encoding, unlimited_dims=unlimited_dims)
        if dataset.chunks:
            import dask

            with dask.config.set(scheduler="threads"):
                writer.sync()
    finally:
        store.close()


def _store_class() -> type:
    """xarray's store for netCDF4-python, with one difference: variables get their filters after
    creation."""
    from gridz.netcdf4 import set_filter
    from xarray.backends import NetCDF4DataStore

    class Store(NetCDF4DataStore):
        def prepare_variable(self, name, variable, *args, **settings):
            is_ours = variable.encoding.get("compression") == gridz.FILTER_ID and name not in self.ds.variables
            values = variable.encoding.get("compression_opts", ())
            if variable.encoding.get("compression") == gridz.FILTER_ID:
                variable = variable.copy(deep=False)
                own = ("compression", "compression_opts")
                variable.encoding = {key: value for key, value in variable.encoding.items() if key not in own}
            prepared = super().prepare_variable(name, variable, *args, **settings)
            if is_ours:
                set_filter(self.ds.variables[name], gridz.Codec.from_filter_options(values))
            return prepared

    return Store


def _exact(dataset) -> dict:
    """The coordinates, by xarray and by the CF conventions, each with the reason."""
    paths = {f"/{name}": name for name in dataset.variables}
    described = {path: _described(dataset.variables[name]) for path, name in paths.items()}
    by_xarray = {name: "a coordinate (of the dataset)" for name in dataset.coords}
    return {paths[path]: why for path, why in coordinates(described).items()} | by_xarray


def _described(variable) -> dict:
    """The attributes and the encoding of a variable."""
    return {**variable.attrs, **variable.encoding}


def _why_not(variable) -> str | None:
    """The reason why a lossy codec does not suit this variable, or None."""
    stored = np.dtype(variable.encoding.get("dtype", variable.dtype))
    if stored.kind not in "fc" or variable.dtype.kind not in "fc":
        return f"values that are stored as {stored}"
    return why_not_lossy(_described(variable), stored)


def _bounded(variable, name, codec, force: bool) -> gridz.Codec:
    """The codec with the variable's missing elements, and with a bound by its range."""
    described, stored = _described(variable), np.dtype(variable.encoding.get("dtype", variable.dtype))
    codec = of_attributes(described, stored).kept_by(codec, name)
    if codec.mode != "rel":
        return codec
    check_rel(codec, force)
    measured = _measured(variable.data, of_codec(codec, variable.dtype) | of_attributes(described, variable.dtype))
    if not force:
        measured.check(name)
    return codec.bounded_by(measured.minimum, measured.maximum)


def _measured(data, missing: Missing) -> Range:
    """The range of a variable's values; the blocks of a dask array are measured in parallel."""

    def part(block) -> Range:
        found = Range(missing, data.size)
        found.add(np.asarray(block))
        return found

    if not hasattr(data, "dask"):
        return part(data)
    import dask

    found = Range(missing)
    for block in dask.compute(*map(dask.delayed(part), data.to_delayed().ravel())):
        found.join(block)
    return found


def _chunks_of(variable, chunks, engine: str) -> tuple | None:
    """The extents of the chunks, or None if the engine is to choose."""
    of_dask = variable.chunks
    if chunks is None or (chunks == "auto" and of_dask and engine == "zarr"):
        return None
    fixed = {} if chunks == "auto" else chunks
    extents = [min(n, fixed.get(dim, n)) for dim, n in zip(variable.dims, variable.shape)]
    free = [axis for axis, dim in enumerate(variable.dims) if dim not in fixed]
    if of_dask:
        for axis in free:
            extents[axis] = max(of_dask[axis])
    itemsize = np.dtype(variable.encoding.get("dtype", variable.dtype)).itemsize
    while math.prod(extents) * itemsize > CHUNK_BYTES and any(extents[axis] > 1 for axis in free):
        axis = max(free, key=lambda axis: extents[axis])
        extents[axis] = -(-extents[axis] // 2)
    return tuple(extents)


def _storage(codec, extents, engine: str, zarr_format: int) -> dict:
    """The part of an encoding in the engine's own terms."""
    if engine != "zarr":
        sizes = {} if extents is None else {"chunksizes": extents}
        if codec is None:
            return sizes
        return sizes | dict(codec) | {"shuffle": False}
    sizes = {} if extents is None else {"chunks": extents}
    if codec is None:
        return sizes | {"compressors": None}
    if zarr_format == 2:
        from gridz.numcodecs import Gridz

        return sizes | {"compressors": (Gridz(codec),)}
    from gridz.zarr import GridzCodec

    return sizes | {"compressors": None, "serializer": GridzCodec(codec)}
