"""Arrays to frames and back, codecs as text and numbers, and the errors for bad arguments."""

import array
import pickle
import re

import gridz
import h5py
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from gridz.cli import main

DTYPES = ["u1", "<i2", ">i4", "<u8", "f2", "<f4", ">f4", "<f8", ">f8", "c8", ">c16", "V6"]


def noise(dtype, shape, seed=1):
    """An array of random bytes."""
    dtype = np.dtype(dtype)
    return np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), "u1").view(dtype).reshape(shape)


def same(a, b):
    """Compares shape and bytes."""
    assert a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (40, 50, 3)], ids=str)
def test_round_trip(dtype, shape):
    a = noise(dtype, shape)
    for codec in (None, "lorenzo,level=dense", gridz.Ndzip(), gridz.Stored()):
        frame = gridz.compress(a, codec)
        info = gridz.inspect(frame)
        assert (info.shape, info.array_bytes, info.frame_bytes) == (shape, a.nbytes, len(frame))
        back = gridz.decompress(frame)
        same(back, a)
        assert back.dtype == a.dtype


NOT_RECORDED = {
    "bool": (np.array([True, False]), "np.uint8"),
    "date": (np.array(["2000-01-01", "NaT"], "M8[D]"), "np.int64"),
    "duration": (np.array([1, 2], ">m8[s]"), "np.int64"),
    "text": (np.array(["ab", "c"]), '"V8"'),
    "bytes": (np.array([b"ab", b"c"]), '"V2"'),
    "record": (np.zeros(2, [("a", "f4"), ("b", "i2")]), '"V6"'),
    "long double": (np.arange(3, dtype="g"), '"V16"'),
    "complex long double": (np.arange(3, dtype="G"), '"V32"'),
    "bfloat16": (np.array([1, 2.5], ml_dtypes.bfloat16), "np.uint16"),
    "float8": (np.array([1, 2.5], ml_dtypes.float8_e4m3fn), "np.uint8"),
}


@pytest.mark.parametrize("array, view", NOT_RECORDED.values(), ids=NOT_RECORDED)
def test_types_that_a_frame_does_not_record(tmp_path, array, view):
    """Such types are refused, and the error names a view that works."""
    first = array.ravel()[0]
    to_buffer, of_scalar = lambda a: gridz.compress(a, out=np.empty(4096, "u1")), lambda _: gridz.compress(first)
    for call in (gridz.compress, gridz.bound_of, to_buffer, of_scalar):
        with pytest.raises(gridz.UnsupportedJob, match=re.escape(f"array.view({view})")):
            call(array)
    with pytest.raises(gridz.UnsupportedJob, match="convert it to numbers"):
        gridz.compress(array, "quant,abs=1")
    viewed = array.view(eval(view))
    same(gridz.decompress(gridz.compress(viewed)).view(array.dtype), array)
    if array.dtype.isbuiltin != 2:  # .npy files have no such types
        np.save(tmp_path / "a.npy", array)
        done = CliRunner().invoke(main, ["compress", str(tmp_path / "a.npy")])
        assert done.exit_code == 2 and "a.npy: a frame records numbers" in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_what_is_no_array_of_numbers():
    text = np.array(["a"], np.dtypes.StringDType())
    for thing in (None, "text", [True], ["a"], [[1], [2, 3]], {1: 2}, np.array([None]), 2**70, text):
        for call in (gridz.compress, gridz.bound_of, gridz.range_of, lambda a: gridz.quality(a, a)):
            with pytest.raises((gridz.InvalidArgument, gridz.UnsupportedJob)):
                call(thing)
    assert gridz.decompress(gridz.compress([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(gridz.InvalidArgument, match="can only copy"):
        gridz.decompress(gridz.compress([1, 2]), out=[0, 0])


def layouts(a):
    """Arrays of 3 axes whose memory is not in C order."""
    yield from (a[:, ::2], a.T, a[::-1], a[5], a[::-2, :, ::-1], np.asfortranarray(a), a.transpose(1, 2, 0))
    yield from (np.broadcast_to(a[:, :1], a.shape), np.broadcast_to(a[0, 0, 0], a.shape))
    yield np.frombuffer(b"x" + a.tobytes(), "u1")[1:].view(a.dtype).reshape(a.shape)  # not aligned
    yield np.rec.fromarrays([a, a])["f1"]
    yield np.lib.stride_tricks.sliding_window_view(a[0, 0], 7)


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "c16"])
def test_any_memory(dtype):
    a = np.arange(12000).reshape(10, 30, 40).astype(dtype)
    n = 0
    for view in layouts(a):
        n += 1
        same(gridz.decompress(gridz.compress(view)), np.ascontiguousarray(view))
        if a.dtype.kind == "f":
            back = gridz.decompress(gridz.compress(view, "quant,abs=1e-2"))
            assert gridz.quality(view, np.asfortranarray(back), "quant,abs=1e-2").ok
            assert np.abs(back - view).max() <= 1e-2 and gridz.range_of(view) == (view.min(), view.max())
        with h5py.File("x", "w", driver="core", backing_store=False) as file:
            chunks = tuple(-(-extent // 2) for extent in view.shape)
            dset = file.create_dataset("x", view.shape, view.dtype, chunks=chunks, **gridz.Lorenzo())
            gridz.h5.write(dset, view)
            same(dset[...], np.ascontiguousarray(view))
            room = np.zeros([2 * extent for extent in view.shape[::-1]], view.dtype)
            out = room[(slice(None, None, -2),) * view.ndim].T
            gridz.h5.read(dset, out)
            assert np.array_equal(out, view)
    assert n == 12


def test_buffers_and_threads():
    a = np.arange(60000, dtype="f4").reshape(30, 40, 50)
    assert gridz.compress(array.array("d", [1, 2, 3])) == gridz.compress(np.array([1.0, 2, 3]))
    assert gridz.compress(bytearray(b"abc")) == gridz.compress(np.frombuffer(b"abc", "u1"))
    assert gridz.compress(a, threads=1) == gridz.compress(a, threads=3)


def test_destinations():
    a = noise("<f4", (30, 40))
    room = np.empty(gridz.bound_of(a), "u1")
    n = gridz.compress(a, out=room)
    assert room[:n].tobytes() == gridz.compress(a)
    out = np.empty_like(a)
    assert gridz.decompress(room[:n], out) is out
    same(out, a)
    raw = bytearray(a.nbytes)
    gridz.decompress(room[:n], raw)
    assert bytes(raw) == a.tobytes()
    for wrong in (np.empty((40, 30), "f4"), np.empty((30, 40), "f8"), out.T, np.frombuffer(bytes(a.nbytes), "f4")):
        with pytest.raises(gridz.InvalidArgument):
            gridz.decompress(room[:n], wrong)


@pytest.mark.parametrize("codec", ["lorenzo", "ndzip", "stored", "quant,abs=1e-3", "zfp,abs=1e-3", "zfp"])
def test_regions(codec):
    a = np.sin(np.arange(20 * 30 * 40, dtype="f4") / 500).reshape(20, 30, 40)
    frame = gridz.compress(a, codec)
    whole = gridz.decompress(frame)
    for region in [np.s_[3], np.s_[...], np.s_[2:5, ..., 7], np.s_[-1, 3:3], np.s_[:, -20:40, 5:6], (1, 2, 3)]:
        same(gridz.decompress_region(frame, region), np.asarray(whole[region]))
    for wrong in (np.s_[::2], np.s_[20], np.s_[0, 0, 0, 0]):
        with pytest.raises(gridz.InvalidArgument):
            gridz.decompress_region(frame, wrong)


def test_parts():
    axes = np.meshgrid(*[np.linspace(0, 5, n) for n in (40, 50, 60)], indexing="ij")
    field = np.sin(axes[0] * axes[1]) + np.cos(3 * axes[2])
    frame = gridz.compress(field, gridz.Multigrid(abs=1e-4, layers=3))
    layers, levels = gridz.inspect_parts(frame[:2000])
    assert [part.bound for part in layers] == [64e-4, 8e-4, 1e-4] and layers[-1].frame_bytes == len(frame)
    assert [part.shape for part in levels[:3]] == [(40, 50, 60), (20, 25, 30), (10, 13, 15)]
    for expected in layers:
        read, part = gridz.decompress_progressive(frame[: expected.frame_bytes], error=expected.bound)
        assert part == expected and np.abs(read - field).max() <= expected.bound
        assert np.array_equal(read, gridz.decompress_progressive(frame, layers=expected.layers)[0])
        with pytest.raises(gridz.Truncated):
            gridz.decompress_progressive(frame[: expected.frame_bytes - 1], error=expected.bound)
    first = gridz.decompress_progressive(frame, level=0)[0]
    for expected in levels:
        grid, part = gridz.decompress_progressive(frame[: expected.frame_bytes], level=expected.level)
        assert part == expected and np.array_equal(grid, first[(slice(None, None, 1 << expected.level),) * 3])
    assert np.array_equal(gridz.decompress_progressive(frame, error=0)[0], gridz.decompress(frame))
    with pytest.raises(gridz.UnsupportedJob, match="multigrid"):
        gridz.decompress_progressive(gridz.compress(field), level=1)
    with pytest.raises(gridz.InvalidArgument, match="level 7 does not exist"):
        gridz.decompress_progressive(frame, level=7)
    with pytest.raises(gridz.InvalidArgument, match="exactly one of level, layers and error"):
        gridz.decompress_progressive(frame, level=1, error=1)


def test_bounds():
    a = np.random.default_rng(2).normal(size=(50, 60)).cumsum(1)
    a[3, 4], a[5, 6], a[7, 8:20] = np.nan, np.inf, -999
    back = gridz.decompress(gridz.compress(a, gridz.Quant(abs=1e-2, fill=-999)))
    assert gridz.quality(a, back, bound=gridz.Quant(abs=1e-2, fill=-999)).ok
    numbers = np.isfinite(a)
    assert 0 < np.abs(a[numbers] - back[numbers]).max() <= 1e-2 and (back[7, 8:20] == -999).all() and np.isnan(back[3, 4])
    codec = gridz.Quant(rel=1e-4, fill=-999)
    real = a[numbers & (a != -999)]
    assert gridz.inspect(gridz.compress(a, codec)).bound == codec.bounded_for(a).value
    assert 0 <= 1e-4 * (real.max() - real.min()) - codec.bounded_for(a).value < 1e-12
    worse = gridz.quality(a, np.where(a == -999, 0, a), bound="quant,abs=1,fill=-999")
    assert not worse.ok and worse.fill_mismatches == 12
    wrong = a.copy()
    wrong[9, 10] += 1
    worse = gridz.quality(a, wrong, bound=0.5)
    assert not worse.ok and worse.where == (9, 10) and worse.error_over_bound == pytest.approx(2)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("<i8", 2**63 - 1), (">i8", -(2**62) - 1), ("f4", np.float32(0.1)), ("c8", np.complex64(-9 + 1j)), (">c16", np.complex128(3j))],
    ids=str,
)
def test_every_fill_value(dtype, fill):
    a = np.arange(3000).astype(dtype)
    a[5:50] = fill
    codec = gridz.Quant(abs=4, fill=fill)
    assert gridz.parse(str(codec)) == codec
    back = gridz.decompress(gridz.compress(a, codec))
    assert (back[5:50] == fill).all() and gridz.quality(a, back, bound=codec).ok
    assert gridz.quality(a, np.where(a == fill, a[0], a).astype(dtype), bound=codec).fill_mismatches == 45
    if a.dtype.kind != "c":
        assert gridz.range_of(a, fill=fill) == (0, 2999)


def test_damage():
    frame = bytearray(gridz.compress(np.arange(9000.0)))
    with pytest.raises(gridz.Truncated):
        gridz.decompress(frame[:-1])
    frame[-9] ^= 1
    with pytest.raises(gridz.Corrupt):
        gridz.decompress(frame)
    for n in range(0, 64, 7):
        with pytest.raises(gridz.Error):
            gridz.decompress(bytes(n))


def test_codecs():
    for info in gridz.codecs():
        made = getattr(gridz, info.name.capitalize())
        mode = {} if "lossless" in info.modes else {"abs": 0.25}
        for level in (None, *info.levels):
            codec = made(level, **mode)
            assert codec.name == info.name and codec.is_lossless == (not mode) and codec.level in (None, *info.levels)
            assert gridz.parse(str(codec)) == codec == pickle.loads(pickle.dumps(codec))
            assert type(pickle.loads(pickle.dumps(codec))) is made
            assert gridz.from_filter_options("gridz", codec.filter_options) == codec
            assert dict(codec) == {"compression": 34013, "compression_opts": codec.filter_options}
    assert gridz.Quant(abs=np.float32(0.1)).value == pytest.approx(0.1)
    assert gridz.Quant(pwrel=1e-3) != gridz.Quant(abs=1e-3)
    expert = gridz.Zfp(expert=True, maxbits=300, minexp=-20)
    assert str(expert) == "zfp,expert,level=fast,maxbits=300,minexp=-20" and expert == gridz.parse(str(expert))
    assert gridz.Zfp(**expert.get_config()) == expert == gridz.Codec.from_filter_options(expert.filter_options)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gridz.Quant(), "abs"),
        (lambda: gridz.Quant(abs=-1), "above 0"),
        (lambda: gridz.Quant(abs=1, pwrel=1), "contains a second mode"),
        (lambda: gridz.Quant(abs=1, colour=3), "allowed are"),
        (lambda: gridz.Lorenzo("most"), "levels are 1 fast, 2 dense, 3 max"),
        (lambda: gridz.Lorenzo(abs=1), "lossless"),
        (lambda: gridz.parse("zip"), "1 ndzip"),
        (lambda: gridz.Quant(abs=1, fill="x"), "fill"),
        (lambda: gridz.Quant(abs=1, fill="0x123"), "fill"),
        (lambda: gridz.range_of(np.zeros(3, "i4"), fill="0x123"), "such as -999"),
        (lambda: gridz.Quant(abs=1, fill=1j), "numpy.complex64"),
        (lambda: gridz.range_of(np.zeros(3, "i4"), fill=2**40), "not a value of type"),
        (lambda: gridz.range_of(np.zeros(3, "i4"), fill="0x12"), "1 bytes"),
        (lambda: gridz.Quant(rel=1e-3).filter_options, "bounded_for"),
        (lambda: gridz.compress(object()), "numpy.asarray"),
        (lambda: gridz.compress(np.array([{}])), "Python objects"),
        (lambda: gridz.quality(np.zeros(3), np.zeros(4)), "the same"),
    ],
)
def test_what_is_wrong_is_said(call, text):
    with pytest.raises(ValueError, match=text):
        call()
