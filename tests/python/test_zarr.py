"""The codec of Zarr v3: all types, shards, parts of chunks, damage, and the contents of
zarr.json."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore

import gridz
from gridz.zarr import GridzCodec

SHAPE, CHUNKS, SHARDS = (37, 41, 29), (10, 15, 15), (20, 30, 30)
INTEGERS = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2"]
NUMBERS = [*INTEGERS, "f2", "f4", "f8", "c8", "c16", ">f4", "M8[s]", "m8[ms]"]
OTHERS = ["U5", ">U5", "S4"]
RECORD = np.dtype([("a", ">i4"), ("b", "<f4")])


def values(dtype):
    ramp = np.arange(np.prod(SHAPE)).reshape(SHAPE) % 1000
    if dtype == RECORD:
        return np.rec.fromarrays([ramp, ramp / 3], dtype=RECORD).view(np.ndarray)
    if dtype == "V5":
        return ramp.astype("S5").view(dtype)
    return (ramp if np.dtype(dtype).kind in "USmM" else ramp / 7).astype(dtype)


def create(data, codec=None, store=None, **settings):
    """An array in Zarr v3; zarr-python warns about types that the standard does not define."""
    settings = {"chunks": CHUNKS, "compressors": None, "serializer": GridzCodec(codec)} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = MemoryStore() if store is None else store
        array = zarr.create_array(store, shape=data.shape, dtype=data.dtype, **settings)
        array[...] = data
        return zarr.open_array(store)


@pytest.mark.parametrize("shards", [None, SHARDS], ids=["chunks", "shards"])
@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS])
def test_every_type_and_its_parts(dtype, shards):
    data = values(dtype)
    array = create(data, shards=shards)
    np.testing.assert_array_equal(array[...], data)
    np.testing.assert_array_equal(array[3:17, 5, ::3], data[3:17, 5, ::3])
    np.testing.assert_array_equal(array[-1, -2, -3], data[-1, -2, -3])
    places = [30, 1, 5], [2, 40, 7], [28, 3, 3]
    np.testing.assert_array_equal(array.vindex[places], data[places])
    np.testing.assert_array_equal(array.oindex[[1, 5, 30], :, [2, 3]], data[np.ix_([1, 5, 30], range(41), [2, 3])])
    even = np.arange(SHAPE[0]) % 2 == 0
    np.testing.assert_array_equal(array.oindex[even, 3], data[even, 3])
    mask = np.arange(data.size).reshape(SHAPE) % 7 == 0
    np.testing.assert_array_equal(array[mask], data[mask])
    data[3:5, :, 7] = array[3:5, :, 7] = data[20:22, :, 7]
    np.testing.assert_array_equal(array[...], data)


def test_records_bytes_and_scalars():
    # Not in shards: zarr-python 3.1 fails there with any codec ("unhashable type").
    for data in (values(RECORD), values("V5")):
        np.testing.assert_array_equal(create(data)[2:11, 3], data[2:11, 3])
    scalar = np.array(1.5, "f4")
    assert create(scalar, chunks=())[...] == 1.5


def test_nan_payloads_and_negative_zero():
    bits = np.arange(0x7FC00000, 0x7FC00000 + 4000, dtype="u4")
    bits[::5] = 0x80000000
    data = bits.view("f4")
    np.testing.assert_array_equal(create(data, chunks=(1000,))[...].view("u4"), bits)


def test_the_frame_says_the_byte_order_and_zarr_json_does_not(tmp_path):
    data = values(">f4")
    array = create(data, store=LocalStore(tmp_path))
    assert array.dtype == np.dtype("f4")
    assert gridz.inspect((tmp_path / "c/0/0/0").read_bytes()).dtype == np.dtype(">f4")
    np.testing.assert_array_equal(array[...], data)


def test_dates_are_compressed_as_integers():
    assert create(values("M8[s]")).nbytes_stored() < values("M8[s]").nbytes / 2


def test_order_f_and_another_codec_before():
    data = values("f4")
    np.testing.assert_array_equal(create(np.asfortranarray(data), order="F")[5:20], data[5:20])
    transposed = create(data, filters=[zarr.codecs.TransposeCodec(order=(2, 0, 1))])
    np.testing.assert_array_equal(transposed[5:20, 1], data[5:20, 1])
    checked = create(data, compressors=[zarr.codecs.Crc32cCodec()])
    np.testing.assert_array_equal(checked[5:20, 1], data[5:20, 1])


@pytest.mark.parametrize("shards", [None, SHARDS], ids=["chunks", "shards"])
def test_a_bound_and_the_fill_value_of_the_array(shards):
    data = np.sin(values("f4"))
    data[5] = -999
    array = create(data, "quant,abs=1e-3", shards=shards, fill_value=-999)
    got = array[...]
    assert 0 < np.abs(got - data).max() <= 1e-3
    np.testing.assert_array_equal(got == -999, data == -999)
    np.testing.assert_array_equal(array[4:7, ::2], got[4:7, ::2])
    own = create(data, "quant,abs=1e-3,fill=-999", shards=shards)
    np.testing.assert_array_equal(own[5], data[5])


def test_metadata_come_back(tmp_path):
    array = create(values("f4"), gridz.Quant(abs=1e-3, fill=-9), LocalStore(tmp_path))
    (stored,) = json.loads((tmp_path / "zarr.json").read_text())["codecs"]
    assert stored == {"name": "gridz", "configuration": {"codec": "quant,abs=1e-3,level=fast,fill=-9"}}
    (codec,) = array.metadata.codecs
    assert codec == GridzCodec.from_dict(stored) == GridzCodec("quant,abs=1e-3,fill=-9") and codec.to_dict() == stored
    assert GridzCodec.from_dict({"name": "gridz"}) == GridzCodec()
    with pytest.raises(gridz.InvalidArgument, match="install a newer gridz"):
        GridzCodec.from_dict({"name": "gridz", "configuration": {"codec": "lorenzo", "shape": 1}})


@pytest.mark.parametrize(
    ("codec", "dtype", "text"),
    [
        ("quant,rel=1e-3", "f4", r"GridzCodec\(gridz.codec\('quant,rel=1e-3,level=fast'\).bounded_for\(array\)\)"),
        ("quant,abs=1e-3", "U3", "quant does not support opaque elements"),
        ("quant,abs=1", "M8[s]", "quant does not support opaque elements"),
        ("quant,pwrel=1e-3", "i4", "use abs"),
        ("lorenzo", str, "no fixed size; omit serializer="),
        ("quant,abs=1", "S4", "use a lossless codec"),
        ("nope", "f4", 'codec "nope" is unknown'),
    ],
)
def test_refusals_before_anything_is_written(codec, dtype, text):
    store = MemoryStore()
    with warnings.catch_warnings(), pytest.raises(gridz.Error, match=text):
        warnings.simplefilter("ignore")
        zarr.create_array(store, shape=(9,), dtype=dtype, compressors=None, serializer=GridzCodec(codec))
    assert not store._store_dict


def test_a_relative_bound_is_refused_in_shards_too():
    with pytest.raises(gridz.UnsupportedJob, match="bounded_for"):
        create(values("f4"), "quant,rel=1e-3", shards=SHARDS)


def test_damage_is_an_error(tmp_path):
    data = np.random.default_rng(1).standard_normal((40, 40, 40)).astype("f4")
    array = create(data, store=LocalStore(tmp_path), chunks=(40, 40, 20))
    chunk = tmp_path / "c/0/0/1"
    good = chunk.read_bytes()
    for bad in (good[: len(good) // 2], b"", b"x" * 900, good[:3000] + bytes([good[3000] ^ 4]) + good[3001:]):
        chunk.write_bytes(bad)
        with pytest.raises(gridz.Error):
            array[...]
        np.testing.assert_array_equal(array[:, :, :20], data[:, :, :20])
    for other in (data[:, :20, :20], data[:, :, 20:].view("i4")):
        chunk.write_bytes(gridz.compress(other))
        with pytest.raises(gridz.Corrupt, match="was the file moved here from another array"):
            array[...]


def test_only_what_a_part_touches_is_decoded(tmp_path):
    # A part can be read despite damage in a distant block: that block was not decoded.
    data = np.random.default_rng(1).standard_normal((64, 64, 64)).astype("f4")
    array = create(data, store=LocalStore(tmp_path), chunks=(64, 64, 64))
    chunk = tmp_path / "c/0/0/0"
    frame = bytearray(chunk.read_bytes())
    frame[-100] ^= 1
    chunk.write_bytes(frame)
    np.testing.assert_array_equal(array[:2, :2, :2], data[:2, :2, :2])
    with pytest.raises(gridz.Corrupt):
        array[...]


def test_it_is_found_without_importing_gridz(tmp_path):
    create(values("f4"), store=LocalStore(tmp_path))
    program = "import sys, zarr; print(zarr.open_array(sys.argv[1])[:2, 3].sum())"
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(values("f4")[:2, 3].sum())


def test_a_complex_fill_value():
    data = values("c8")
    data[3:9, 5] = fill = np.complex64(-999 + 3j)
    array = create(data, "quant,abs=1e-3", fill_value=fill)
    back = array[...]
    assert (back[data == fill] == fill).all() and gridz.quality(data, back, 1e-3, fill=fill).ok
