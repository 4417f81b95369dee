"""Functions of h5py's own libhdf5 that h5py does not offer, by ctypes: raw elements, and links
themselves.

Elements are read and written in the file's type, byte for byte, so nothing is converted. Every call
must be made with h5py's lock held (`with lock:`), as for all calls of h5py.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools

import h5py
import numpy as np
from h5py import h5d, h5s, h5t

from gridz._native import lib, number_of
from gridz.errors import HostError

lock = h5py._objects.phil
DEFAULT = ctypes.c_int64(0)
"""H5P_DEFAULT, or H5S_ALL as a dataspace."""


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """A handle of one of h5py's modules, through which symbols of its libhdf5 are looked up."""
    return ctypes.CDLL(h5py.h5d.__file__)


def call(name: str, *arguments) -> int:
    """Calls a function; returns its int or id. Raises `HostError` if it is negative."""
    function = getattr(library(), name)
    function.restype = ctypes.c_int64 if name in MAKES_IDS else ctypes.c_int
    answer = function(*arguments)
    if answer < 0:
        raise HostError(f"{name} of HDF5 {h5py.version.hdf5_version} failed{_reason()}")
    return answer


MAKES_IDS = (
    "H5Acreate2", "H5Aget_create_plist", "H5Rdereference2", "H5Rget_region", "H5Ropen_object", "H5Ropen_region",
    "H5Tget_create_plist",
)  # fmt: skip


class _ErrorEntry(ctypes.Structure):
    """`H5E_error2_t`."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("class_id", "major", "minor")),
        ("line", ctypes.c_uint),
        *((name, ctypes.c_char_p) for name in ("function", "file", "text")),
    ]


_ErrorWalk = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_ErrorEntry), ctypes.c_void_p)


def _reason() -> str:
    """HDF5's reason for the last failure: the innermost entry of its error stack."""
    texts = []
    note = _ErrorWalk(lambda _, entry, __: texts.append(entry.contents.text) or 0)
    library().H5Ewalk2(DEFAULT, 0, note, None)  # H5E_WALK_UPWARD: begins with the innermost entry
    return f": {texts[0].decode(errors='replace')}" if texts and texts[0] else ""


@contextlib.contextmanager
def made(close: str, name: str, *arguments):
    """The id that a function creates; the function `close` releases it."""
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
    """True if a type is of one of these classes, or contains elements of one at any depth. Strings
    of variable length count as `VLEN`, as they do in memory."""
    found = kind.get_class()
    if found in classes or (h5t.VLEN in classes and found == h5t.STRING and kind.is_variable_str()):
        return True
    if found == h5t.COMPOUND:
        return any(holds(kind.get_member_type(i), *classes) for i in range(kind.get_nmembers()))
    return found in (h5t.ARRAY, h5t.VLEN) and holds(kind.get_super(), *classes)


def padded(kind: h5t.TypeID) -> bool:
    """True if elements of a type may have padding bytes, between members of a compound at any
    depth."""
    found = kind.get_class()
    if found == h5t.COMPOUND:
        members = [kind.get_member_type(i) for i in range(kind.get_nmembers())]
        return sum(member.get_size() for member in members) < kind.get_size() or any(map(padded, members))
    return found in (h5t.ARRAY, h5t.VLEN) and padded(kind.get_super())


def numbers_of(kind: h5t.TypeID) -> np.dtype | None:
    """The NumPy type of elements that are numbers, or arrays of numbers. None for all others, and
    for number types that gridz or NumPy lacks, or represents in other bits."""
    found = kind.get_class()
    if found == h5t.ARRAY:
        base = numbers_of(kind.get_super())
        return base and np.dtype((base, kind.get_array_dims()))
    if found == h5t.ENUM:
        return numbers_of(kind.get_super()) and kind.dtype
    # h5py's complex numbers are compounds, unless they are of HDF5 2.
    if found not in (h5t.INTEGER, h5t.FLOAT, h5t.COMPOUND, getattr(h5t, "COMPLEX", None)):
        return None
    try:
        dtype = kind.dtype
        # One-byte numbers have a byte order too.
        is_same = any(kind.equal(known) for known in (h5t.py_create(dtype), h5t.STD_I8BE, h5t.STD_U8BE))
    except (TypeError, ValueError, RuntimeError):
        return None
    return dtype if is_same and number_of(dtype) != lib.GRIDZ_DTYPE_OPAQUE else None


@contextlib.contextmanager
def elements(dataset: h5d.DatasetID, start: tuple, count: tuple):
    """The elements of a box, or of a scalar with `()`, in the file's type: rows of bytes, and their
    dataspace."""
    kind, place = dataset.get_type(), dataset.get_space()
    memory = h5s.create_simple(count) if count else h5s.create(h5s.SCALAR)
    if count:
        place.select_hyperslab(start, count)
    with room_for(memory.get_simple_extent_npoints(), kind, memory) as rows:
        arguments = id_of(kind), id_of(memory), id_of(place), DEFAULT, pointer(rows)
        call("H5Dread", id_of(dataset), *arguments)
        yield rows, arguments


def content_of(rows: np.ndarray, kind: h5t.TypeID) -> list:
    """The contents of elements, for comparison: bytes without padding, and strings and sequences in
    place of their addresses. References are left out, since their bytes differ between files."""
    found = kind.get_class()
    if not holds(kind, h5t.VLEN, h5t.REFERENCE) and not padded(kind):
        return [np.ascontiguousarray(rows).tobytes()]
    if found == h5t.COMPOUND:
        members = [(kind.get_member_offset(i), kind.get_member_type(i)) for i in range(kind.get_nmembers())]
        return [content_of(rows[:, first : first + member.get_size()], member) for first, member in members]
    if found == h5t.ARRAY:
        return content_of(np.ascontiguousarray(rows).reshape(-1, kind.get_super().get_size()), kind.get_super())
    if found == h5t.STRING:
        return [
            address and ctypes.string_at(address)
            for address in np.ascontiguousarray(rows).view(np.uint64)[:, 0].tolist()
        ]
    if found == h5t.VLEN:
        size = kind.get_super().get_size()
        places = np.ascontiguousarray(rows).view(np.uint64).tolist()  # hvl_t: length and address
        within = b"".join(ctypes.string_at(address, n * size) for n, address in places if n)
        return [[n for n, _ in places], content_of(np.frombuffer(within, np.uint8).reshape(-1, size), kind.get_super())]
    return []


@contextlib.contextmanager
def room_for(n: int, kind: h5t.TypeID, space: h5py.h5s.SpaceID):
    """Memory for `n` elements, rows of bytes; allocations of HDF5 for sequences and references are
    freed at the end."""
    elements = np.zeros((n, kind.get_size()), np.uint8)
    try:
        yield elements
    finally:
        if n and holds(kind, h5t.VLEN, h5t.REFERENCE):
            call("H5Dvlen_reclaim", id_of(kind), id_of(space), DEFAULT, pointer(elements))


def pointer(elements: np.ndarray) -> ctypes.c_void_p:
    """The address of an array's elements."""
    return ctypes.c_void_p(elements.ctypes.data)
