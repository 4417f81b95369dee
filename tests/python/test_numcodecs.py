"""The codec of numcodecs: alone, in Zarr v2, and with chunks of HDF5 files."""

import json
import pickle

import h5py
import ml_dtypes
import numcodecs
import numpy as np
import pytest
import zarr

import gridz
from gridz.numcodecs import Gridz

SHAPE, CHUNKS = (37, 41, 29), (10, 15, 15)
TYPES = ["b1", "i1", "<i2", ">i4", "u8", "f2", "<f4", ">f4", "<f8", "c16", "M8[s]", "m8[ms]", "S4", "U3"]


def values(dtype):
    ramp = np.arange(np.prod(SHAPE)).reshape(SHAPE) % 1000
    return (ramp if np.dtype(dtype).kind in "USmM" else ramp / 7).astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES)
def test_zarr_format_2(tmp_path, dtype, order):
    data = values(dtype)
    array = zarr.create_array(
        tmp_path, shape=SHAPE, dtype=dtype, chunks=CHUNKS, order=order, zarr_format=2, compressors=Gridz(), filters=None
    )
    array[...] = data
    stored = json.loads((tmp_path / ".zarray").read_text())
    assert stored["compressor"] == {"id": "gridz", "codec": "lorenzo,level=fast"}
    frame = gridz.inspect((tmp_path / "0.0.0").read_bytes())
    assert frame.shape == (CHUNKS if order == "C" else CHUNKS[::-1])
    again = zarr.open_array(tmp_path)
    assert again.dtype == data.dtype
    np.testing.assert_array_equal(again[...], data)
    np.testing.assert_array_equal(again[3:17, 5, ::3], data[3:17, 5, ::3])


def test_a_bound_and_the_fill_value(tmp_path):
    data = np.sin(values("f4"))
    data[5] = -999
    array = zarr.create_array(
        tmp_path, data=data, chunks=CHUNKS, zarr_format=2, fill_value=-999, compressors=Gridz("quant,abs=1e-3,fill=-999")
    )
    got = array[...]
    assert 0 < np.abs(got - data).max() <= 1e-3
    np.testing.assert_array_equal(got == -999, data == -999)


@pytest.mark.parametrize("dtype", ["b1", "M8[s]", "S4", ml_dtypes.bfloat16])
def test_a_bound_is_for_numbers(dtype):
    with pytest.raises(gridz.UnsupportedJob, match="opaque"):
        Gridz("quant,abs=1").encode(np.zeros(9, dtype))
    frame = Gridz().encode(np.zeros(9, dtype))
    assert (Gridz().decode(frame).view(dtype) == np.zeros(9, dtype)).all()


def test_buffers_and_destinations():
    codec, data = Gridz("lorenzo,level=dense"), values("f8")
    frame = codec.encode(data)
    assert gridz.inspect(frame).shape == SHAPE
    assert bytes(codec.decode(codec.encode(b"bytes"))) == b"bytes"
    np.testing.assert_array_equal(codec.decode(frame), data)
    for out in (np.empty(SHAPE), np.empty(data.nbytes, "u1"), bytearray(data.nbytes), np.empty(SHAPE, "M8[s]")):
        assert codec.decode(frame, out) is out
        assert bytes(np.asarray(out).tobytes()) == data.tobytes()
    fortran = np.empty(SHAPE[::-1], order="F")
    codec.decode(codec.encode(data.T), fortran)
    np.testing.assert_array_equal(fortran, data.T)
    with pytest.raises(gridz.InvalidArgument):
        codec.decode(frame, np.empty(3))
    with pytest.raises(gridz.Corrupt):
        codec.decode(frame[:-1])


def test_configuration():
    codec = numcodecs.get_codec({"id": "gridz", "codec": "quant,abs=1e-3"})
    assert codec == Gridz(gridz.Quant(abs=1e-3)) == pickle.loads(pickle.dumps(codec))
    assert codec.get_config() == {"id": "gridz", "codec": "quant,abs=1e-3,level=fast"}
    assert numcodecs.get_codec({"id": "gridz"}) == Gridz("lorenzo")
    with pytest.raises(gridz.UnsupportedJob, match="bounded_for"):
        Gridz("quant,rel=1e-3")


@pytest.mark.parametrize("shuffle", [False, True])
def test_chunks_of_hdf5_are_read_as_zarr(tmp_path, shuffle):
    data = values("f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dset = file.create_dataset("x", data=data, chunks=CHUNKS, shuffle=shuffle, **gridz.Lorenzo())
        array = zarr.create_array(
            tmp_path / "z", shape=SHAPE, dtype="f4", chunks=CHUNKS, zarr_format=2, compressors=Gridz()
        )
        for place in np.ndindex(*(-(-n // c) for n, c in zip(SHAPE, CHUNKS))):
            _, chunk = dset.id.read_direct_chunk([i * c for i, c in zip(place, CHUNKS)])
            (tmp_path / "z" / ".".join(map(str, place))).write_bytes(chunk)
    np.testing.assert_array_equal(array[...], data)
