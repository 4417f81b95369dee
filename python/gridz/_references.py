"""References to objects and regions, re-pointed from a file to its copy.

A reference is the address of an object's header, or the place of a region's description, so its bytes mean nothing in
another file. Those of objects that nothing links to, and of objects that are gone, become null.
"""

from __future__ import annotations

import ctypes

import h5py
import numpy as np
from h5py import h5t

from gridz._libhdf5 import address_of, call, holds, id_of, made, pointer
from gridz.errors import UnsupportedJob


class References:
    """Re-points references of the file `source` by `places`: from the address of an object to its copy."""

    def __init__(self, source: h5py.h5f.FileID, places: dict):
        self._source, self._places = source, places

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
        if repoint is None:
            raise UnsupportedJob("the file has references of the type H5T_STD_REF, which gridz cannot re-point yet")
        different, places = np.unique(elements, axis=0, return_inverse=True)
        elements[...] = np.stack([repoint(np.ascontiguousarray(row)) for row in different])[places.reshape(-1)]

    def _object(self, reference: np.ndarray) -> np.ndarray:
        copied = self._places.get(int(reference.view(np.uint64)[0]))
        address = 0 if copied is None else address_of(copied)
        return np.array([address], np.uint64).view(np.uint8)

    def _region(self, reference: np.ndarray) -> np.ndarray:
        copy = np.zeros_like(reference)
        if not reference.any():
            return copy
        region, here = ctypes.c_int(1), pointer(reference)  # H5R_DATASET_REGION
        with made("H5Oclose", "H5Rdereference2", id_of(self._source), ctypes.c_int64(0), region, here) as target:
            address = address_of(_dataset(target))
        copied = self._places.get(address)
        if copied is not None:
            with made("H5Sclose", "H5Rget_region", id_of(self._source), region, here) as space:
                call("H5Rcreate", pointer(copy), id_of(copied), b".", region, space)
        return copy


def _dataset(number: ctypes.c_int64) -> h5py.h5d.DatasetID:
    """An h5py object for an id that somebody else closes."""
    call("H5Iinc_ref", number)
    return h5py.h5d.DatasetID(number.value)
