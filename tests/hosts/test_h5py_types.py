"""h5py: every type of element, in every rank, with chunks that do not divide the array."""

import ctypes

import h5py
import numpy as np
import pytest

from support import (
    DENSE,
    FAST,
    GRIDZ,
    LORENZO,
    NDZIP,
    SPECS,
    STORED,
    ZFP,
    codec_of,
    frames,
    noise,
    placed_frames,
    same,
    smooth,
    spec_of,
    written,
    specials,
    takes,
    wheel_library,
)

FLOATS = ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2"]
INTEGERS = ["i1", "u1", *(f"{order}{kind}{size}" for size in (2, 4, 8) for kind in "iu" for order in "<>")]
OTHERS = {
    "bool": "?",
    "string": "S10",
    "opaque": "V7",
    "compound": [("t", "<f8"), ("id", "<i4"), ("tag", "S3"), ("v", "<f4", (2,))],
    "two floats": [("x", "<f4"), ("y", "<f4")],
    "imaginary part first": [("im", "<f4"), ("re", "<f4")],
    "two integers": [("r", "<i4"), ("i", "<i4")],
    "mixed": [("r", "<f4"), ("i", ">f4")],
    "half": [("r", "<f2"), ("i", "<f2")],
    "array": ("<f4", (3,)),
    "array_be": (">f8", (2, 2)),
    "enum": h5py.enum_dtype({"calm": 0, "gale": 9}, basetype="<i2"),
}
# rank -> extents and chunks, with partial chunks along every axis
SHAPES = {
    1: ((700,), (256,)),
    2: ((50, 40), (33, 17)),
    3: ((20, 18, 21), (16, 16, 16)),
    4: ((3, 18, 17, 19), (2, 16, 16, 16)),
    5: ((2, 3, 7, 5, 9), (2, 2, 4, 4, 8)),
    6: ((2, 3, 2, 5, 4, 7), (1, 2, 2, 3, 4, 4)),
}


def round_trip(path, data, chunks, values=None):
    """Writes through the filter and reads after reopening. Returns the codecs and levels of the
    chunks inside the array, and of those that extend past its edge."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, compression=GRIDZ, compression_opts=values)
    with h5py.File(path) as file:
        same(file["x"][()], data)
        stored = file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[1]
        assert len(stored) <= 20
        inside, edge = set(), set()
        for place, frame in placed_frames(file["x"]):
            is_inside = all(at + n <= extent for at, n, extent in zip(place, chunks, data.shape, strict=True))
            (inside if is_inside else edge).add(spec_of(frame))
        assert inside, "this array has no whole chunk"
        return inside, edge


LORENZO_VALUES = {"default": (None, FAST), "fast": ((2, 0, 1), FAST), "dense": ((2, 0, 2), DENSE)}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", LORENZO_VALUES)
def test_numbers_by_lorenzo(tmp_path, rng, name, dtype, rank):
    values, level = LORENZO_VALUES[name]
    shape, chunks = SHAPES[rank]
    inside, edge = round_trip(tmp_path / "smooth.h5", smooth(dtype, shape), chunks, values)
    if np.prod(chunks) * np.dtype(dtype).itemsize >= 512:  # smaller chunks may not shrink
        assert inside | edge <= written((LORENZO, level))
    # Noise is stored, unless a part of the chunk is outside the array and therefore constant.
    inside, edge = round_trip(tmp_path / "noise.h5", noise(dtype, shape, rng), chunks, values)
    assert inside == {(STORED, 0)} and edge <= {(STORED, 0), (LORENZO, level)}
    if dtype in FLOATS:
        round_trip(tmp_path / "special.h5", specials(dtype, shape), chunks, values)


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_by_ndzip(tmp_path, rng, dtype, rank):
    shape, chunks = SHAPES[rank]
    inside, edge = round_trip(tmp_path / "smooth.h5", smooth(dtype, shape), chunks, (1,))
    # Chunks that hold a complete block are compressed; the other chunks are too small. float16 is
    # not supported.
    holds_a_block = np.prod(chunks) >= 4096
    assert ((NDZIP, 0) in inside | edge) == (holds_a_block and not dtype.endswith("2"))
    assert inside | edge <= {(STORED, 0), (NDZIP, 0)}
    round_trip(tmp_path / "special.h5", specials(dtype, shape), chunks, (1,))
    inside, edge = round_trip(tmp_path / "noise.h5", noise(dtype, shape, rng), chunks, (1,))
    assert inside | edge <= {(STORED, 0), (NDZIP, 0)}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_by_ndzip_are_stored(tmp_path, dtype, rank):
    shape, chunks = SHAPES[rank]
    inside, edge = round_trip(tmp_path / "x.h5", smooth(dtype, shape), chunks, (1,))
    assert inside | edge == {(STORED, 0)}


COMPLEX = {
    "h5py": "{}c{}",
    "re, im": [("re", "{}f{}"), ("im", "{}f{}")],
    "im, re": {"names": ["im", "re"], "formats": ["{}f{}", "{}f{}"], "offsets": [1, 0]},
    "real, imag": [("real", "{}f{}"), ("imag", "{}f{}")],
    "real, imaginary": [("real", "{}f{}"), ("imaginary", "{}f{}")],
}


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(("order", "size"), [("<", 4), (">", 4), ("<", 8), (">", 8)])
@pytest.mark.parametrize("names", COMPLEX)
def test_complex_numbers(tmp_path, rng, names, order, size, level):
    def part(text):
        return text.format(order, size)

    kind = COMPLEX[names]
    if names == "h5py":
        dtype = np.dtype(f"{order}c{2 * size}")
    elif isinstance(kind, dict):
        dtype = np.dtype(kind | {"formats": [part(f) for f in kind["formats"]], "offsets": [size, 0], "itemsize": 2 * size})
    else:
        dtype = np.dtype([(name, part(text)) for name, text in kind])
    parts = np.stack([smooth(f"{order}f{size}", (50, 40)), smooth(f"{order}f{size}", (50, 40)) ** 2], axis=-1)
    data = np.ascontiguousarray(parts, f"{order}f{size}").view(dtype)[..., 0]
    inside, edge = round_trip(tmp_path / "x.h5", data, (33, 17), (LORENZO, 0, level))
    assert inside | edge <= written((LORENZO, level))
    with h5py.File(tmp_path / "x.h5") as file:
        assert described(file["x"]) == (13 if size == 4 else 14, int(order == ">"), 2 * size)
        assert file["x"].id.get_storage_size() < 0.9 * data.nbytes
    round_trip(tmp_path / "noise.h5", noise(dtype, (50, 40), rng), (33, 17), (LORENZO, 0, level))


# Numbers of a few values, of one value, and with the largest possible differences.
HARD = {
    "zeros": lambda info, n: np.zeros(n, info.dtype),
    "largest": lambda info, n: np.full(n, info.max, info.dtype),
    "ends": lambda info, n: np.where(np.arange(n) % 2 == 0, info.min, info.max).astype(info.dtype),
    "few": lambda info, n: np.array([3, info.max, info.min, 0], info.dtype)[np.arange(n) ** 2 % 7 % 4],
    "rare": lambda info, n: np.where(np.arange(n) % 997 == 0, info.max, 1).astype(info.dtype),
    "stairs": lambda info, n: (np.arange(n) // 100 % 100).astype(info.dtype),
    "steep": lambda info, n: (np.arange(n) * 0x1234567).astype(f"u{info.dtype.itemsize}").view(info.dtype),
}


@pytest.mark.parametrize("values", [(2, 0, 1), (2, 0, 2)], ids=["fast", "dense"])
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_numbers_at_the_ends_of_their_range(tmp_path, dtype, name, values):
    info = (np.finfo if dtype in FLOATS else np.iinfo)(dtype)
    data = HARD[name](info, 40 * 30 * 50).reshape(40, 30, 50).astype(dtype)
    inside, _ = round_trip(tmp_path / "x.h5", data, (16, 30, 32), values)
    assert name == "steep" or inside == {(LORENZO, values[2])}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("name", OTHERS)
def test_other_types(tmp_path, rng, name, rank):
    shape, chunks = SHAPES[rank]
    dtype = OTHERS[name]
    if name.startswith("array"):
        base, inner = dtype
        data, dtype = noise(base, shape + inner, rng), np.dtype(dtype)
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("x", shape, dtype, chunks=chunks, compression=GRIDZ)[...] = data
        with h5py.File(tmp_path / "x.h5") as file:
            same(file["x"][()], data)
            assert {codec_of(frame) for frame in frames(file["x"])} <= {STORED, LORENZO}
        return
    round_trip(tmp_path / "x.h5", noise(dtype, shape, rng), chunks)


@pytest.mark.parametrize("values", [None, (1,), (2,), (2, 0, 2)])
@pytest.mark.parametrize("name", [name for name in OTHERS if not name.startswith(("array", "bool", "enum"))])
def test_other_types_are_stored_whatever_is_asked_for(tmp_path, name, values):
    # Zeros would be compressed to almost nothing.
    shape, chunks = SHAPES[2]
    inside, edge = round_trip(tmp_path / "x.h5", np.zeros(shape, OTHERS[name]), chunks, values)
    assert inside | edge == {(STORED, 0)}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("base", ["<f4", ">f4", "<i2", ">u8"])
@pytest.mark.parametrize(("codec", "level"), SPECS)
def test_elements_that_are_arrays_of_numbers_are_compressed(tmp_path, codec, level, base, rank):
    shape, chunks = (3, 2, 2, 2, 2, 2)[:rank], (2, 2, 2, 1, 1, 1)[:rank]
    data = smooth(base, (*shape, 16, 16, 16))
    options = {"chunks": chunks, "compression": GRIDZ, "compression_opts": (codec, 0, level)}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", shape, (base, (16, 16, 16)), **options)[...] = data
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data)
        expected = (codec, level) if takes(codec, base) else (STORED, 0)
        found = {spec_of(frame) for frame in frames(file["x"])}
        # zfp cannot compress the noise in the last bits.
        assert found <= written(expected) or codec == ZFP and found == {(STORED, 0)}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("dtype", ["?", h5py.enum_dtype({"calm": 0, "gale": 9}, ">i2"), h5py.enum_dtype({"a": 7}, "<u8")])
def test_enumerations_are_compressed_as_their_integers(tmp_path, rng, dtype, rank):
    shape, chunks = SHAPES[rank]
    is_set = smooth("f4", shape) > 0.3
    data = is_set if dtype == "?" else np.where(is_set, 9, 0).astype(dtype)
    inside, _ = round_trip(tmp_path / "x.h5", data, chunks)
    assert inside == {(LORENZO, FAST)}
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["x"].dtype == data.dtype and h5py.check_enum_dtype(file["x"].dtype) == h5py.check_enum_dtype(data.dtype)


def test_variable_length_strings_and_arrays(tmp_path):
    strings = [f"entry {i} " + "é" * (i % 50) for i in range(300)]
    arrays = [np.arange(i % 23, dtype="f4") / 7 for i in range(300)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        options = {"shape": (300,), "chunks": (64,), "compression": GRIDZ}
        file.create_dataset("strings", dtype=h5py.string_dtype(), **options)[...] = strings
        dataset = file.create_dataset("arrays", dtype=h5py.vlen_dtype("f4"), **options)
        for i, array in enumerate(arrays):
            dataset[i] = array
    with h5py.File(tmp_path / "x.h5") as file:
        assert list(file["strings"].asstr()[()]) == strings
        for got, expected in zip(file["arrays"][()], arrays, strict=True):
            same(got, expected)
        for name in ("strings", "arrays"):
            assert {codec_of(frame) for frame in frames(file[name])} == {STORED}


def test_references(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        targets = [file.create_group(f"g{i}") for i in range(40)]
        whole = file.create_dataset("objects", (40,), h5py.ref_dtype, chunks=(16,), compression=GRIDZ)
        parts = file.create_dataset("regions", (40,), h5py.regionref_dtype, chunks=(16,), compression=GRIDZ)
        source = file.create_dataset("source", data=np.arange(80))
        for i, target in enumerate(targets):
            whole[i] = target.ref
            parts[i] = source.regionref[i : 2 * i + 1]
    with h5py.File(tmp_path / "x.h5") as file:
        for i in range(40):
            assert file[file["objects"][i]].name == f"/g{i}"
            same(file["source"][file["regions"][i]], np.arange(i, 2 * i + 1))
        for name in ("objects", "regions"):
            assert {codec_of(frame) for frame in frames(file[name])} == {STORED}


def described(dataset):
    """Element type, byte order and element size in the stored cd_values (CD_VALUES.md)."""
    values = dataset.id.get_create_plist().get_filter_by_id(GRIDZ)[1]
    return values[2] & 0xFF, values[2] >> 8 & 0xFF, values[3]


DESCRIPTIONS = {
    **{f"u{size}": (1 + i, 0, size) for i, size in enumerate((1, 2, 4, 8))},
    **{f"i{size}": (5 + i, 0, size) for i, size in enumerate((1, 2, 4, 8))},
    **{">u2": (2, 1, 2), ">i8": (8, 1, 8)},
    **{
        "<f2": (9, 0, 2),
        ">f2": (9, 1, 2),
        "<f4": (11, 0, 4),
        ">f4": (11, 1, 4),
        "<f8": (12, 0, 8),
        ">f8": (12, 1, 8),
    },
    **{"?": (5, 0, 1), "S10": (0, 0, 10), "V7": (0, 0, 7), "c8": (13, 0, 8), ">c16": (14, 1, 16), "g": (0, 0, 16)},
}


@pytest.mark.parametrize("dtype", DESCRIPTIONS)
def test_what_a_type_is_to_gridz(tmp_path, rng, dtype):
    data = noise(dtype, (70, 90), rng)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["type"] = np.dtype(dtype)
        options = {"chunks": (64, 64), "compression": GRIDZ}
        for name, kind in (("x", data.dtype), ("committed", file["type"])):
            file.create_dataset(name, data.shape, kind, **options)[...] = data
            assert described(file[name]) == DESCRIPTIONS[dtype]
            same(file[name][()], data)


def write_and_read_bytes(path, dtype, data):
    """Uses h5py's low-level API, which does not convert; returns the description."""
    with h5py.File(path, "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((16, 16))
        plist.set_filter(GRIDZ, 0, ())
        dataset = h5py.h5d.create(file.id, b"x", dtype, h5py.h5s.create_simple(data.shape), plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=dtype)
        result = described(h5py.Dataset(dataset))
    with h5py.File(path) as file:
        got = np.empty(data.shape, data.dtype)
        file["x"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, got, mtype=dtype)
        same(got, data)
        assert frames(file["x"])
    return result


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("COMPLEX_IEEE_F32LE", (13, 0, 8)),
        ("COMPLEX_IEEE_F32BE", (13, 1, 8)),
        ("COMPLEX_IEEE_F64LE", (14, 0, 16)),
        ("COMPLEX_IEEE_F16LE", (0, 0, 4)),
        ("FLOAT_BFLOAT16LE", (10, 0, 2)),
        ("FLOAT_BFLOAT16BE", (10, 1, 2)),
        ("FLOAT_F8E4M3", (0, 0, 1)),
    ],
)
def test_types_that_came_with_hdf5_2(tmp_path, rng, name, description):
    # h5py itself writes complex numbers as compounds by default, and does not support the small floats.
    hdf5 = wheel_library(h5py, "h5py.libs", "libhdf5-*")
    dtype = h5py.h5t.TypeID(ctypes.c_int64.in_dll(hdf5, f"H5T_{name}_g").value).copy()
    data = noise(f"V{dtype.get_size()}", (50, 30), rng)
    assert write_and_read_bytes(tmp_path / "x.h5", dtype, data) == description


def test_floats_and_integers_of_odd_layouts(tmp_path, rng):
    # 24 significant bits of 32: numbers to HDF5, plain bytes to gridz.
    float24 = h5py.h5t.IEEE_F32LE.copy()
    float24.set_fields(23, 15, 8, 0, 15)
    float24.set_precision(24)
    int24 = h5py.h5t.STD_I32LE.copy()
    int24.set_precision(24)
    other_bias = h5py.h5t.IEEE_F64LE.copy()
    other_bias.set_ebias(1000)
    for dtype in (float24, int24, other_bias):
        data = noise(f"V{dtype.get_size()}", (50, 30), rng)
        assert write_and_read_bytes(tmp_path / "x.h5", dtype, data) == (0, 0, dtype.get_size())


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i2", "S5", "V70000"])
def test_one_element_and_none(tmp_path, rng, dtype):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        one = file.create_dataset("one", (1,), dtype, chunks=(1,), compression=GRIDZ)
        one[...] = expected = noise(dtype, (1,), rng)
        file.create_dataset("none", (0, 4), dtype, chunks=(2, 2), maxshape=(None, 4), compression=GRIDZ)
        file.create_dataset("six", (1,) * 6, dtype, chunks=(1,) * 6, compression=GRIDZ)[...] = expected.reshape(
            (1,) * 6
        )
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["one"][()], expected)
        same(file["six"][()], expected.reshape((1,) * 6))
        assert file["none"][()].shape == (0, 4)
        assert len(frames(file["one"])) == 1 and file["none"].id.get_num_chunks() == 0


def test_rank_32(tmp_path, rng):
    # HDF5's largest rank: 70 cd_values.
    shape = (2,) * 8 + (1,) * 24
    data = noise("<f4", shape, rng)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", shape, "<f4", chunks=shape, compression=GRIDZ)[...] = data
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data)
        assert frames(file["x"])
