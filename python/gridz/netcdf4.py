"""gridz in files that are written by netCDF4-python, which has no argument for third-party filters.

    import gridz.netcdf4, netCDF4
    with netCDF4.Dataset("t.nc", "w") as nc:
        nc.createDimension("x", 100_000)
        t = nc.createVariable("t", "f4", ("x",), chunksizes=(50_000,))
        gridz.netcdf4.set_filter(t, "quant,abs=1e-3")
        t[:] = …

It calls `nc_def_var_filter` of the netCDF library that netCDF4-python itself is linked with.
"""

from __future__ import annotations

import ctypes
import functools

import gridz
from gridz._cf import why_not_lossy
from gridz._elements import check_job
from gridz._missing import of_attributes

_TOO_LATE = (-39, -123)  # NC_EINDEFINE and NC_ELATEDEF of netcdf.h: data have been written


def set_filter(variable, codec: gridz.Codec | str | None = None) -> None:
    """Compresses a new `netCDF4.Variable`: call it after `createVariable`, before any data are
    written.

    The variable must have a dimension, and the file's format must be NETCDF4. (In NETCDF4_CLASSIC,
    netCDF4-python ends the definition of a variable before this function can be called; use
    h5netcdf or nccopy instead.) `codec` is a `gridz.Codec` or its text form; None is the default
    lossless one. Missing elements are restored bit for bit: those that the variable's attributes
    name at the time of the call (`_FillValue`, `missing_value`, `valid_min`, `valid_max`,
    `valid_range`), so set these before. Raises `gridz.InvalidArgument` for variables that cannot
    have a filter, `gridz.UnsupportedJob` for elements that the codec does not support and for
    `rel=`, and `gridz.HostError` for errors of netCDF.
    """
    codec = gridz.codec(codec)
    if variable.group().data_model != "NETCDF4":
        raise gridz.InvalidArgument(
            f"{variable.name}: variables in a file of format {variable.group().data_model} cannot have a filter; "
            f'use format="NETCDF4"'
        )
    if not variable.ndim:
        raise gridz.InvalidArgument(
            f"{variable.name} is a single value without dimensions, which cannot have a filter; leave it uncompressed"
        )
    if variable.dtype is str or type(variable.datatype).__name__ == "VLType":
        raise gridz.UnsupportedJob(
            f"{variable.name}: elements of variable length cannot be compressed; leave the variable uncompressed"
        )
    codec = _with_missing(variable, codec)
    values = codec.filter_options
    check_job(codec, variable.dtype, variable.ndim)
    gridz.register()
    library = _library()
    words = (ctypes.c_uint * len(values))(*values)
    status = library.nc_def_var_filter(
        ctypes.c_int(variable._grpid), ctypes.c_int(variable._varid), ctypes.c_uint(gridz.FILTER_ID),
        ctypes.c_size_t(len(values)), words,
    )  # fmt: skip
    if status:
        why = library.nc_strerror(ctypes.c_int(status)).decode()
        hint = "; set the filter right after createVariable, before data are written" if status in _TOO_LATE else ""
        raise gridz.HostError(f"{variable.name}: netCDF rejects the filter: {why} ({status}){hint}")


def _with_missing(variable, codec: gridz.Codec) -> gridz.Codec:
    """The codec that keeps the missing elements named by the variable's attributes; the filter
    itself adds HDF5's fill value."""
    attributes = {name: variable.getncattr(name) for name in variable.ncattrs()}
    why_not = why_not_lossy(attributes, variable.dtype)
    if why_not and not codec.is_lossless:
        raise gridz.UnsupportedJob(f"{variable.name}: {codec} is not for {why_not}; use a lossless codec")
    return of_attributes(attributes, variable.dtype).kept_by(codec, variable.name)


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The functions of netCDF4-python's libnetcdf, looked up through the module that is linked with
    it."""
    import netCDF4

    library = ctypes.CDLL(netCDF4._netCDF4.__file__)
    library.nc_strerror.restype = ctypes.c_char_p
    if not hasattr(library, "nc_def_var_filter"):
        raise gridz.HostError("the netCDF library of netCDF4 has no nc_def_var_filter; install netCDF4 1.6 or newer")
    return library
