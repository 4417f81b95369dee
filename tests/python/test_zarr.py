"""Zarr 3 and Zarr 2 arrays with gridz: values, parts, shards, metadata, damage."""

import json
import subprocess
import sys

import gridz
import numpy as np
import pytest
import zarr
from gridz.numcodecs import Gridz
from gridz.zarr import GridzCodec

DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", ">f4", "S7", "<U3", "M8[s]", "V5"]
A = np.random.default_rng(7).normal(size=(50, 60, 40)).astype("f4").cumsum(0)
PARTS = [np.s_[:], np.s_[3], np.s_[2:30, 7, 5:11], np.s_[::3, 1:50:7], np.s_[49, 59, 39], np.s_[..., -5:]]


def filled(dtype, shape):
    """Values of any type that Zarr gives back as they are."""
    n = np.arange(int(np.prod(shape)))
    return (n % 2 if dtype == "?" else n % 100).astype("S5" if dtype == "V5" else "i4").astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codec", [None, "lorenzo,level=dense", "ndzip"])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore::zarr.errors.ZarrUserWarning")
def test_types(dtype, codec):
    a = filled(dtype, (20, 30))
    z = zarr.create_array({}, shape=a.shape, dtype=a.dtype, chunks=(7, 30), serializer=GridzCodec(codec), compressors=None)
    z[...] = a
    assert (z[...] == a).all() and (z[3:9, 4] == a[3:9, 4]).all() and z[...].dtype == z.dtype
    if dtype == "M8[s]" and codec is None:
        assert z.nbytes_stored() < a.nbytes / 2  # dates are integers


@pytest.mark.parametrize("shards", [None, (40, 60, 40)])
@pytest.mark.parametrize("codec", ["lorenzo", "szp,abs=1e-3"])
def test_parts(tmp_path, shards, codec):
    z = zarr.create_array(
        tmp_path / "x.zarr", shape=A.shape, dtype="f4", chunks=(20, 30, 40), shards=shards, serializer=GridzCodec(codec), compressors=None
    )
    z[...] = A
    whole = z[...]
    assert gridz.quality(A, whole, bound=codec if "abs" in codec else None).ok and (codec != "lorenzo" or (whole == A).all())
    for part in PARTS:
        assert (z[part] == whole[part]).all()
    assert (z.oindex[[1, 5, 40], :, [3, 2]] == whole[np.ix_([1, 5, 40], range(60), [3, 2])]).all()
    # Another process finds the codec by itself.
    code = f"import zarr; print(float(zarr.open_array({str(tmp_path / 'x.zarr')!r})[7, 8, 9]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert float(done.stdout) == float(whole[7, 8, 9]), done.stderr


def test_metadata_and_damage(tmp_path):
    codec = gridz.Szp(abs=1e-2)
    z = zarr.create_array(
        tmp_path / "x", shape=A.shape, dtype="f4", chunks=A.shape, fill_value=-999, serializer=GridzCodec(codec), compressors=None
    )
    a = A.copy()
    a[3:5, 6] = -999
    z[...] = a
    assert gridz.quality(a, z[...], bound=codec, fill=-999).ok and (z[3:5, 6] == -999).all()
    told = json.loads((tmp_path / "x" / "zarr.json").read_text())["codecs"]
    assert told == [{"name": "gridz", "configuration": {"codec": str(codec)}}]
    assert GridzCodec.from_dict(told[0]) == GridzCodec(codec)
    chunk = tmp_path / "x" / "c" / "0" / "0" / "0"
    frame = bytearray(chunk.read_bytes())
    frame[len(frame) // 2] ^= 1
    chunk.write_bytes(frame)
    with pytest.raises(gridz.Corrupt):
        z[...]
    chunk.write_bytes(gridz.compress(A[:9]))
    with pytest.raises(gridz.Corrupt, match="metadata"):
        z[...]


@pytest.mark.parametrize(("codec", "dtype", "text"), [("szp,rel=1e-3", "f4", "bounded_for"), ("szp,abs=1", "S4", "lossless")])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_refused(codec, dtype, text):
    with pytest.raises(ValueError, match=text):
        zarr.create_array({}, shape=9, dtype=dtype, chunks=9, serializer=GridzCodec(codec), compressors=None)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", ">f8", "u2", "M8[s]", "?"])
def test_format_2(tmp_path, order, dtype):
    a = A.astype("i4").astype(dtype)
    z = zarr.create_array(
        tmp_path / "x", shape=a.shape, dtype=a.dtype, chunks=(20, 30, 40), zarr_format=2, order=order, compressors=Gridz("lorenzo"), filters=None
    )
    z[...] = a
    assert (zarr.open_array(tmp_path / "x")[...] == a).all() and (z[7, 3:50] == a[7, 3:50]).all()
    frame = (tmp_path / "x" / "0.0.0").read_bytes()
    assert gridz.inspect(frame).shape == ((20, 30, 40) if order == "C" else (40, 30, 20))
    assert json.loads((tmp_path / "x" / ".zarray").read_text())["compressor"] == {"codec": "lorenzo,level=fast", "id": "gridz"}
