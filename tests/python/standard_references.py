"""Writes, or with --show prints, a file with references of the type H5T_STD_REF, for which h5py has
no functions."""

import ctypes
import sys

import h5py
import numpy as np
from h5py import h5p, h5s

H5 = ctypes.CDLL(h5py.h5d.__file__)
DEFAULT, SIZE = ctypes.c_int64(0), 64
OBJECT, REGION, ATTRIBUTE = 2, 3, 4


def call(name, *arguments, answer=ctypes.c_int):
    function = getattr(H5, name)
    function.restype = answer
    found = function(*arguments)
    assert found >= 0, name
    return found


def new(name, *arguments):
    return ctypes.c_int64(call(name, *arguments, answer=ctypes.c_int64))


def at(array):
    return ctypes.c_void_p(array.ctypes.data)


def hid(thing):
    return ctypes.c_int64(thing.id)


def standard():
    return new("H5Tcopy", ctypes.c_int64.in_dll(H5, "H5T_STD_REF_g"))


def write(path):
    with h5py.File(path, "w") as file:
        target = file.create_dataset("group/target", data=np.arange(12_000.0).reshape(100, 120))
        target.attrs["unit"] = "m"
        references, root = np.zeros((5, SIZE), np.uint8), file.id
        part = target.id.get_space()
        part.select_hyperslab((1, 2), (3, 4))
        call("H5Rcreate_object", hid(root), b"group/target", DEFAULT, at(references[0]))
        call("H5Rcreate_object", hid(root), b"group", DEFAULT, at(references[1]))
        call("H5Rcreate_region", hid(root), b"group/target", hid(part), DEFAULT, at(references[2]))
        call("H5Rcreate_attr", hid(root), b"group/target", b"unit", DEFAULT, at(references[3]))
        kind, space = standard(), h5s.create_simple((5,))
        chunked = h5p.create(h5p.DATASET_CREATE)
        chunked.set_chunk((2,))
        for name, create in (b"plain", h5p.create(h5p.DATASET_CREATE)), (b"chunked", chunked):
            made = new("H5Dcreate2", hid(root), name, kind, hid(space), DEFAULT, hid(create), DEFAULT)
            call("H5Dwrite", made, kind, DEFAULT, DEFAULT, DEFAULT, at(references))
            call("H5Dclose", made)
        made = new("H5Acreate2", hid(target.id), b"references", kind, hid(space), DEFAULT, DEFAULT)
        call("H5Awrite", made, kind, at(references))
        call("H5Aclose", made)


def shown(row):
    if not row.any():
        return "null"
    kind = call("H5Rget_type", at(row))
    target = h5py.h5i.wrap_identifier(new("H5Ropen_object", at(row), DEFAULT, DEFAULT).value)
    text = h5py.h5i.get_name(target).decode()
    if kind == REGION:
        part = h5s.SpaceID(new("H5Ropen_region", at(row), DEFAULT, DEFAULT).value)
        return f"region {part.get_select_bounds()} of {text}"
    if kind == ATTRIBUTE:
        name = ctypes.create_string_buffer(99)
        call("H5Rget_attr_name", at(row), name, ctypes.c_size_t(99))
        return f"attribute {name.value.decode()} of {text}"
    return f"object {text}"


def show(path):
    with h5py.File(path) as file:
        owners = [("H5Dread", "plain", file["plain"].id), ("H5Dread", "chunked", file["chunked"].id)]
        target = file["group/target"]
        assert (target[...] == np.arange(12_000.0).reshape(100, 120)).all()
        owners.append(("H5Aread", "attribute", h5py.h5a.open(target.id, b"references")))
        for function, name, owner in owners:
            rows, kind = np.zeros((5, SIZE), np.uint8), standard()
            if function == "H5Dread":
                call(function, hid(owner), kind, DEFAULT, DEFAULT, DEFAULT, at(rows))
            else:
                call(function, hid(owner), kind, at(rows))
            print(name, [shown(row) for row in rows])


if __name__ == "__main__":
    (show if "--show" in sys.argv else write)(sys.argv[1])
