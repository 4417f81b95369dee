"""References to objects, regions and attributes, re-pointed from a file to its copy.

A reference is the address of an object's header, or the location of a description, so its bytes are
meaningless in another file. References to objects without a link, and to deleted ones, become null.
References of the type H5T_STD_REF may refer to another file; those are kept unchanged.
"""

from __future__ import annotations

import ctypes
from typing import Callable

import h5py
import numpy as np
from h5py import h5t

from gridz._libhdf5 import DEFAULT, address_of, call, holds, id_of, made, pointer

OBJECT, REGION = 2, 3
"""H5R_OBJECT2 and H5R_DATASET_REGION2; H5R_ATTR is the third kind of H5T_STD_REF."""


class References:
    """Re-points references of the file `source`; `copy_of` returns the copy of the object at an
    address, or None."""

    def __init__(self, source: h5py.h5f.FileID, copy_of: Callable):
        self._source, self._copy_of = source, copy_of

    def repoint(self, elements: np.ndarray, kind: h5t.TypeID) -> None:
        """Re-points all references within `elements`, rows of bytes of the type `kind`, in place."""
        found = kind.get_class()
        if not holds(kind, h5t.REFERENCE):
            return
        if found == h5t.REFERENCE:
            self._repoint_all(elements, kind)
        elif found == h5t.COMPOUND:
            for i in range(kind.get_nmembers()):
                member, first = kind.get_member_type(i), kind.get_member_offset(i)
                self.repoint(elements[:, first : first + member.get_size()], member)
        elif found == h5t.ARRAY:
            size = kind.get_super().get_size()
            for first in range(0, kind.get_size(), size):
                self.repoint(elements[:, first : first + size], kind.get_super())
        elif found == h5t.VLEN:
            size = kind.get_super().get_size()
            for row in elements:
                length, address = np.frombuffer(row.tobytes(), np.uint64)  # hvl_t
                if length:
                    within = (ctypes.c_uint8 * (int(length) * size)).from_address(int(address))
                    self.repoint(np.ctypeslib.as_array(within).reshape(-1, size), kind.get_super())

    def _repoint_all(self, elements: np.ndarray, kind: h5t.TypeID) -> None:
        one = {h5t.STD_REF_OBJ: self._object, h5t.STD_REF_DSETREG: self._region}
        repoint = next((function for known, function in one.items() if kind.equal(known)), None)
        if repoint is None:  # H5T_STD_REF, in memory a struct with pointers
            for i in range(len(elements)):
                row = np.ascontiguousarray(elements[i])
                self._standard(row)
                elements[i] = row
            return
        different, places = np.unique(elements, axis=0, return_inverse=True)
        elements[...] = np.stack([repoint(np.ascontiguousarray(row)) for row in different])[places.reshape(-1)]

    def _object(self, reference: np.ndarray) -> np.ndarray:
        copied = self._copy_of(int(reference.view(np.uint64)[0]))
        address = 0 if copied is None else address_of(copied)
        return np.array([address], np.uint64).view(np.uint8)

    def _region(self, reference: np.ndarray) -> np.ndarray:
        copy = np.zeros_like(reference)
        if not reference.any():
            return copy
        region, here = ctypes.c_int(1), pointer(reference)  # H5R_DATASET_REGION
        with made("H5Oclose", "H5Rdereference2", id_of(self._source), ctypes.c_int64(0), region, here) as target:
            address = address_of(_wrapped(target))
        copied = self._copy_of(address)
        if copied is not None:
            with made("H5Sclose", "H5Rget_region", id_of(self._source), region, here) as space:
                call("H5Rcreate", pointer(copy), id_of(copied), b".", region, space)
        return copy

    def _standard(self, reference: np.ndarray) -> None:
        """Replaces one `H5R_ref_t`, and frees the memory that it pointed to."""
        here, name = pointer(reference), ctypes.create_string_buffer(1 << 16)
        if not reference.any():
            return
        length = ctypes.c_size_t(len(name))
        call("H5Rget_file_name", here, name, length)
        if name.value != self._source.name:
            return
        kind, copy = call("H5Rget_type", here), np.zeros_like(reference)
        with made("H5Oclose", "H5Ropen_object", here, DEFAULT, DEFAULT) as target:
            copied = self._copy_of(address_of(_wrapped(target)))
        if copied is not None:
            to = id_of(copied), b"."
            if kind == OBJECT:
                call("H5Rcreate_object", *to, DEFAULT, pointer(copy))
            elif kind == REGION:
                with made("H5Sclose", "H5Ropen_region", here, DEFAULT, DEFAULT) as space:
                    call("H5Rcreate_region", *to, space, DEFAULT, pointer(copy))
            else:
                call("H5Rget_attr_name", here, name, length)
                call("H5Rcreate_attr", *to, name, DEFAULT, pointer(copy))
        call("H5Rdestroy", here)
        reference[...] = copy


def _wrapped(number: ctypes.c_int64):
    """An h5py object of any kind for an id that the caller closes."""
    call("H5Iinc_ref", number)
    return h5py.h5i.wrap_identifier(number.value)
