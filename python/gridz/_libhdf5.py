"""Functions of h5py's own libhdf5 that h5py does not offer, by ctypes: raw elements, and links as they are.

Elements travel in the type of the file, byte for byte, so nothing is converted on the way. Every call must be made with
h5py's lock held (`with lock:`), as all of h5py's are.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools

import h5py
import numpy as np
from h5py import h5t

from gridz.errors import HostError

lock = h5py._objects.phil
DEFAULT = ctypes.c_int64(0)
"""H5P_DEFAULT, and H5S_ALL where a dataspace is asked for."""


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """A handle of one of h5py's modules, which finds the functions of the libhdf5 that it is linked with."""
    return ctypes.CDLL(h5py.h5d.__file__)


def call(name: str, *arguments) -> int:
    """The answer, an int or an id, of a function. Raises `HostError` if it is negative."""
    function = getattr(library(), name)
    function.restype = ctypes.c_int64 if name in MAKES_IDS else ctypes.c_int
    answer = function(*arguments)
    if answer < 0:
        raise HostError(f"{name} of HDF5 {h5py.version.hdf5_version} failed")
    return answer


MAKES_IDS = ("H5Acreate2", "H5Aget_create_plist", "H5Rdereference2", "H5Rget_region", "H5Tget_create_plist")


@contextlib.contextmanager
def made(close: str, name: str, *arguments):
    """The id that a function makes; the function `close` ends it."""
    number = ctypes.c_int64(call(name, *arguments))
    try:
        yield number
    finally:
        call(close, number)


def id_of(thing) -> ctypes.c_int64:
    """The id of an h5py object for `call`."""
    return ctypes.c_int64(thing.id)


def address_of(thing) -> int:
    """The address of an object's header, which identifies it in its file."""
    return h5py.h5o.get_info(thing).addr


def holds(kind: h5t.TypeID, *classes: int) -> bool:
    """Whether a type is of one of these classes, or has elements of one anywhere within. Strings of variable length are
    `VLEN` here, as they are for memory."""
    found = kind.get_class()
    if found in classes or (h5t.VLEN in classes and found == h5t.STRING and kind.is_variable_str()):
        return True
    if found == h5t.COMPOUND:
        return any(holds(kind.get_member_type(i), *classes) for i in range(kind.get_nmembers()))
    return found in (h5t.ARRAY, h5t.VLEN) and holds(kind.get_super(), *classes)


@contextlib.contextmanager
def room_for(n: int, kind: h5t.TypeID, space: h5py.h5s.SpaceID):
    """Room for `n` elements, rows of bytes; what HDF5 allocates for those of variable length is freed at the end."""
    elements = np.zeros((n, kind.get_size()), np.uint8)
    try:
        yield elements
    finally:
        if n and holds(kind, h5t.VLEN):
            call("H5Dvlen_reclaim", id_of(kind), id_of(space), DEFAULT, pointer(elements))


def pointer(elements: np.ndarray) -> ctypes.c_void_p:
    """The address of an array's elements."""
    return ctypes.c_void_p(elements.ctypes.data)
