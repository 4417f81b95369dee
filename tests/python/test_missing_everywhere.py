"""Missing elements are restored bit for bit by every host, lossy codec, level, mode and type.

Arrays are random fields with random masks of several fill values at once: 0, -999, 1e20, NaN with a
payload, the limits of the type. Other elements are near the fill values, some within the bound. An
element is missing, as docs/bounds.md defines it, if it equals a fill value bit for bit, or is
outside the valid range.
"""

import collections
import dataclasses
import functools
import itertools
import os

import gridz
import gridz.netcdf4
import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from gridz._native import array_of, check, ffi, lib, struct
from gridz.numcodecs import Gridz
from gridz.xarray import to_netcdf, xarray_encoding
from gridz.zarr import GridzCodec

SHAPES = [(7201,), (60, 120), (11, 24, 27), (5, 8, 12, 15)]
"""Chunks have half the extent along the first axis; so for an odd extent, one chunk extends past the end."""

MODES = {
    "abs": "abs=0.5", "rel": "rel=1e-2", "pwrel": "pwrel=1e-2", "rms": "rms=0.5", "rate": "rate=9",
    "precision": "precision=14", "expert": "expert,maxbits=900,maxprec=18,minexp=-8",
}  # fmt: skip
EXTRAS = {("multigrid", "abs"): ["layers=3"], ("multigrid", "rms"): ["s=-1"]}
"""Additional parameters that are tested as well."""

SEED = int(os.environ.get("MISSING_SEED", 0))

INTEGERS = ["i1", "u1", "i2", ">i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f4", "f8", ">f4"]
TYPES = [*INTEGERS, *FLOATS, "f2", "c8", "c16"]


@dataclasses.dataclass
class Case:
    """An array, its missing elements, and the request for all other elements."""

    codec: str
    mode: str
    request: str
    """The text form without missing elements."""
    array: np.ndarray
    fills: np.ndarray
    limits: tuple | None
    """The smallest and the largest valid number."""

    @property
    def text(self) -> str:
        """The text form with all missing elements."""
        return ",".join([self.request, *(f"fill={bits_text(fill)}" for fill in self.fills), *self.limits_text])

    @property
    def limits_text(self) -> list[str]:
        if self.limits is None:
            return []
        return [f"{key}={bits_text(value)}" for key, value in zip(("valid_min", "valid_max"), self.limits)]

    @property
    def chunks(self) -> tuple:
        return -(-self.array.shape[0] // 2), *self.array.shape[1:]

    @property
    def absolute(self) -> str:
        """As `text`, for hosts that cannot know the range of an array."""
        return str(gridz.parse(self.text).bounded_for(self.array))

    def attributes(self, dtype=None) -> dict:
        """The missing elements as netCDF attributes."""
        found = {"missing_value": self.fills[1:].astype(dtype or self.fills.dtype)} if len(self.fills) > 1 else {}
        if self.limits is not None:
            found["valid_range"] = np.array(self.limits, self.array.dtype)
        return found

    def missing(self, array: np.ndarray) -> np.ndarray:
        found = np.any([same_bits(array, fill) for fill in self.fills], axis=0)
        if self.limits is not None:
            found |= (array < self.limits[0]) | (array > self.limits[1])
        return found


def same_bits(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Mask of the positions where two arrays, or an array and an element, have the same bits."""
    parts = "u8" if one.itemsize == 16 else f"u{one.itemsize}"
    views = [np.ascontiguousarray(array).view(parts).reshape(*array.shape, -1) for array in (one, two)]
    return (views[0] == views[1]).all(-1)


def bits_text(element) -> str:
    element = np.asarray(element)
    return f"0x{element.astype(element.dtype.newbyteorder('<')).tobytes()[::-1].hex()}"


def case(rng, codec: str, mode: str, request: str, dtype, shape: tuple) -> Case:
    """Generates a random array, and chooses its missing values."""
    dtype = np.dtype(dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    ends = np.iinfo(part) if part.kind in "iu" else np.finfo(part)
    waves = [np.sin(np.arange(n) * rng.uniform(0.05, 0.4) + rng.uniform(0, 6)) for n in shape]
    field = 40 * functools.reduce(np.multiply.outer, waves) + rng.normal(size=shape)
    field = field + 60 if dtype.kind == "u" else field
    array = (field + 1j * field[::-1] if dtype.kind == "c" else field).astype(dtype)
    values = [0, 7, ends.max, ends.min]
    if dtype.kind in "fc":
        payload = np.array([0x7FF8 << 48 | 0x1234567 << 8], "u8").view("f8") if part.itemsize == 8 else None
        payload = np.array([0x7FC01234], "u4").view("f4") if part.itemsize == 4 else payload
        payload = np.array([0x7E12], "u2").view("f2") if part.itemsize == 2 else payload
        values += [-999, 1e20 if part.itemsize > 2 else 6e4, payload[0], 25.5]
    elif ends.min <= -999:
        values += [-999]
    chosen = rng.choice(len(values), int(rng.integers(1, min(len(values), 6) + 1)), replace=False)
    fills = np.array([part.type(values[i]) if part.isnative else values[i] for i in chosen]).astype(dtype)
    if dtype.kind == "c":
        fills.imag[rng.random(len(fills)) < 0.5] = -999
    for fill in fills:
        # Neighbors of fill values. In mode rel, only of fill values near the valid range: others
        # would enlarge the range.
        if np.isfinite(fill) and (mode != "rel" or max(abs(float(fill.real)), abs(float(fill.imag))) < 30):
            place = rng.random(shape) < 0.03
            array[place] = rng.choice(near(fill, 1e-2 if mode == "pwrel" else 0), int(place.sum()))
    for fill in fills:
        first = [int(rng.integers(n)) for n in shape]
        array[tuple(slice(start, start + int(rng.integers(1, n))) for start, n in zip(first, shape))] = fill
        array[rng.random(shape) < 0.02] = fill
    limits = None
    if dtype.kind != "c" and rng.random() < 0.4:
        limits = tuple(np.array([5, 90] if dtype.kind == "u" else [-35, 33], dtype))
    return Case(codec, mode, request, array, fills, limits)


def near(fill, relative: float) -> np.ndarray:
    """Elements near a fill value: some within a bound, 0.5 or `relative`, and the adjacent ones of
    the type."""
    dtype = fill.dtype
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return np.array([min(max(int(fill) + step, int(ends.min)), int(ends.max)) for step in (-2, -1, 1, 2)], dtype)
    steps = np.array([-1.7, -1, -0.3, 0.3, 1, 1.7], "g") * (abs(np.asarray(fill, "c32")) * relative or 0.5)
    with np.errstate(over="ignore"):  # infinities are among them
        found = (np.asarray(fill, "c32" if dtype.kind == "c" else "g") + steps).astype(dtype)
        if dtype.kind == "c":
            return found
        return np.append(found, [*np.nextafter(fill, np.array([-np.inf, np.inf], dtype)), -fill])


def cases(types, shape: tuple, seed: int) -> list[Case]:
    """A case for each valid combination of codec, level, mode and type."""
    rng, found = np.random.default_rng(seed), []
    for info in gridz.codecs():
        for mode, level, dtype in itertools.product(sorted(set(info.modes) - {"lossless"}), info.levels, types):
            if takes(info, mode, np.dtype(dtype)):
                for extra in ["", *EXTRAS.get((info.name, mode), [])]:
                    request = ",".join(filter(None, [info.name, MODES[mode], f"level={level}", extra]))
                    found.append(case(rng, info.name, mode, request, dtype, shape))
    return found


def takes(info, mode: str, dtype: np.dtype) -> bool:
    """True for the types that docs/bounds.md, zfp.md and multigrid.md list. Asserts that the library
    agrees."""
    for_floats = mode == "pwrel" or info.name == "zfp" and mode in ("abs", "rel")
    expected = dtype.newbyteorder("=") in info.dtypes and not (dtype.kind in "iu" and for_floats)
    try:
        gridz.bound_of(np.zeros((4, 4, 4), dtype), f"{info.name},{MODES[mode]}")
    except gridz.UnsupportedJob:
        assert not expected, (info.name, mode, dtype)
    else:
        assert expected, (info.name, mode, dtype)
    return expected


# ---- hosts: each maps a list of cases to the list of the decoded arrays -------------------------


def memory(found, folder):
    return [gridz.decompress(gridz.compress(c.array, c.text)) for c in found]


def c_api(found, folder):
    """Passes fill values and limits as elements, not as text."""
    decoded = []
    for c in found:
        described, length = array_of(c.array.dtype, c.array.shape), ffi.new("size_t *")
        request = ffi.new("char[]", c.request.encode())
        fills, array = ffi.from_buffer(c.fills), ffi.from_buffer(c.array)
        options = struct("gridz_options", request=request, fill_value=fills, n_fill_values=len(c.fills))
        limits = [ffi.from_buffer(np.array([limit], c.array.dtype)) for limit in c.limits or ()]
        if limits:
            options.valid_min, options.valid_max = limits
        check(lib.gridz_compress_bound(described.pointer, options, length))
        frame = np.empty(length[0], np.uint8)
        room = ffi.from_buffer(frame), frame.nbytes, length
        check(lib.gridz_compress(described.pointer, array, len(array), *room, options))
        decoded.append(gridz.decompress(frame[: length[0]]))
    return decoded


def plain(found, path, attributes: bool):
    """Writes an uncompressed file, with or without the attributes of missing elements."""
    with h5py.File(path, "w") as file:
        for i, c in enumerate(found):
            # In turn HDF5's own fill value, the attribute of netCDF, and both.
            fill = c.fills[0] if attributes and i % 3 else None
            dataset = file.create_dataset(f"v{i}", data=c.array, chunks=c.chunks, fillvalue=fill)
            if attributes:
                if i % 3 != 1:
                    dataset.attrs.create("_FillValue", c.fills[:1])
                wide = "f8" if c.array.dtype == "f4" and np.isfinite(c.fills).all() else None
                dataset.attrs.update(c.attributes(wide))
                assert len(c.fills) < 2 or "missing_value" in dataset.attrs


def repack_by_attributes(found, folder):
    plain(found, folder / "a.h5", attributes=True)
    gridz.repack(folder / "a.h5", folder / "b.h5", datasets={f"/v{i}": c.request for i, c in enumerate(found)})
    return read_h5(found, folder / "b.h5")


def repack_by_request(found, folder):
    plain(found, folder / "a.h5", attributes=False)
    gridz.repack(folder / "a.h5", folder / "b.h5", datasets={f"/v{i}": c.text for i, c in enumerate(found)})
    return read_h5(found, folder / "b.h5")


def read_h5(found, path):
    with h5py.File(path) as file:
        for i in range(len(found)):
            stored = gridz.filters.stored_codec(file[f"v{i}"])
            assert stored is not None and not stored.is_lossless, (i, found[i].request)
        return [file[f"v{i}"][...] for i in range(len(found))]


def h5py_filter(found, folder):
    with h5py.File(folder / "a.h5", "w") as file:
        for i, c in enumerate(found):
            options = {"fillvalue": c.fills[0]} if i % 2 else {}
            file.create_dataset(f"v{i}", data=c.array, chunks=c.chunks, **options, **gridz.parse(c.absolute))
    return read_h5(found, folder / "a.h5")


def bulk(found, folder):
    with h5py.File(folder / "a.h5", "w") as file:
        for i, c in enumerate(found):
            dataset = file.create_dataset(
                f"v{i}", c.array.shape, c.array.dtype, chunks=c.chunks, fillvalue=c.fills[0], **gridz.parse(c.absolute)
            )
            gridz.h5.write(dataset, c.array)
    with h5py.File(folder / "a.h5") as file:
        return [gridz.h5.read(file[f"v{i}"]) for i in range(len(found))]


def netcdf4(found, folder):
    with netCDF4.Dataset(folder / "a.nc", "w") as file:
        file.set_auto_mask(False)
        names = [file.createDimension(name, extent).name for name, extent in zip("tzyx", found[0].array.shape)]
        for i, c in enumerate(found):
            order = "big" if c.array.dtype.byteorder == ">" else "little"
            fill = c.fills[0] if i % 3 else False  # False: netCDF writes no fill value
            options = {"chunksizes": c.chunks, "fill_value": fill, "endian": order}
            made = file.createVariable(f"v{i}", c.array.dtype, names, **options)
            made.setncatts(c.attributes())
            if not i % 3:
                made.setncattr("missing_value", c.fills)
            made.set_auto_maskandscale(False)
            request = c.request if c.mode != "rel" else c.absolute
            gridz.netcdf4.set_filter(made, request)
            made[...] = c.array
    return read_h5(found, folder / "a.nc")


def dataset_of(found):
    variables = {}
    for i, c in enumerate(found):
        attributes = c.attributes() | ({"_FillValue": c.fills[0]} if i % 2 else {"missing_value": c.fills})
        variables[f"v{i}"] = list("tzyx")[: c.array.ndim], c.array, attributes
    return xarray.Dataset(variables), {f"v{i}": c.request for i, c in enumerate(found)}


def xarray_by_h5netcdf(found, folder):
    dataset, requests = dataset_of(found)
    encoding = xarray_encoding(dataset, per_variable=requests)
    dataset.to_netcdf(folder / "a.nc", engine="h5netcdf", encoding=encoding)
    return read_h5(found, folder / "a.nc")


def xarray_by_netcdf4(found, folder):
    dataset, requests = dataset_of(found)
    to_netcdf(dataset, folder / "a.nc", encoding=xarray_encoding(dataset, engine="netcdf4", per_variable=requests))
    return read_h5(found, folder / "a.nc")


def zarr3(found, folder):
    for i, c in enumerate(found):
        made = zarr.create_array(
            folder / f"{i}", shape=c.array.shape, dtype=c.array.dtype, chunks=c.chunks, fill_value=c.fills[0],
            serializer=GridzCodec(c.absolute), compressors=None, config={"write_empty_chunks": True},
        )  # fmt: skip
        made[...] = c.array
    return [zarr.open_array(folder / f"{i}")[...] for i in range(len(found))]


def zarr2(found, folder):
    for i, c in enumerate(found):
        made = zarr.create_array(
            folder / f"{i}", shape=c.array.shape, dtype=c.array.dtype, chunks=c.chunks, fill_value=None, zarr_format=2,
            order="CF"[i % 2], compressors=Gridz(c.absolute), filters=None,
        )  # fmt: skip
        made[...] = c.array
    return [zarr.open_array(folder / f"{i}")[...] for i in range(len(found))]


HOSTS = {
    memory: (TYPES, 4_000_000),
    c_api: (TYPES, 4_000_000),
    h5py_filter: ([*INTEGERS, *FLOATS, "f2"], 3_500_000),
    bulk: ([*INTEGERS, *FLOATS, "f2"], 3_500_000),
    repack_by_attributes: ([*INTEGERS, *FLOATS, "f2"], 3_500_000),
    repack_by_request: ([*INTEGERS, *FLOATS, "f2"], 3_500_000),
    netcdf4: ([*INTEGERS, *FLOATS], 3_000_000),
    xarray_by_h5netcdf: (FLOATS, 1_000_000),
    xarray_by_netcdf4: (FLOATS, 1_000_000),
    zarr3: (TYPES, 4_000_000),
    zarr2: (TYPES, 4_000_000),
}
"""The types that each host is tested with, and the minimum number of elements."""


@pytest.mark.parametrize("shape", SHAPES, ids=len)
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)
def test_missing_elements_are_kept(tmp_path, host, shape):
    types, least = HOSTS[host]
    found = cases(types, shape, SEED + 100 * list(HOSTS).index(host) + len(shape))
    problems, elements, n_missing = [], collections.Counter(), collections.Counter()
    for c, decoded in zip(found, host(found, tmp_path), strict=True):
        what = f"{c.text} of {c.array.dtype}"
        # Zarr and xarray choose their own byte order.
        assert decoded.shape == c.array.shape, what
        assert decoded.dtype.newbyteorder("=") == c.array.dtype.newbyteorder("="), what
        decoded = decoded.astype(c.array.dtype)
        missing = c.missing(c.array)
        elements[c.codec, c.mode] += c.array.size
        n_missing[c.codec, c.mode] += int(missing.sum())
        changed = ~same_bits(c.array, decoded) & missing
        became = c.missing(decoded) & ~missing
        if changed.any() or became.any():
            problems.append(f"{what}: {changed.sum()} missing elements changed, {became.sum()} others became missing")
        problems += [f"{what}: {problem}" for problem in out_of_bound(c, decoded, missing)]
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems[:40])
    modes = {(info.name, mode) for info in gridz.codecs() for mode in info.modes if mode != "lossless"}
    assert set(elements) == modes and len(modes) == 11
    assert all(n_missing[key] > elements[key] / 100 for key in modes), n_missing
    assert sum(elements.values()) >= least / len(SHAPES)


def test_number_of_elements():
    assert sum(least for _, least in HOSTS.values()) >= 10_000_000


@pytest.mark.parametrize("dtype", FLOATS)
def test_negative_zeros(dtype):
    """-0 differs in its bits from a fill value of 0 and must not become it; predictions of -0 are
    the difficult case."""
    mixed = np.where(np.arange(1000) % 7 == 3, 0.3, -0.0)
    arrays = [np.full((20, 50), -0.0), mixed, np.array([-0.0, 5, -0.0, 0, -5] * 200)]
    tried = 0
    for info, array in itertools.product(gridz.codecs(), arrays):
        for mode, level in itertools.product(set(info.modes) - {"lossless"}, info.levels):
            array = array.astype(dtype)
            decoded = gridz.decompress(gridz.compress(array, f"{info.name},{MODES[mode]},level={level},fill=0"))
            zero = np.zeros(1, dtype)
            assert np.array_equal(same_bits(array, zero), same_bits(decoded, zero)), (info.name, mode, level)
            tried += 1
    assert tried == 3 * (3 * 3 + 5 + 3)


def out_of_bound(c: Case, decoded: np.ndarray, missing: np.ndarray):
    """Errors of the other elements that the mode does not allow."""
    valid = ~missing & np.isfinite(c.array)
    if not same_bits(c.array, decoded)[~missing & ~np.isfinite(c.array)].all():
        yield "NaN or infinity changed"
    wide = "c32" if c.array.dtype.kind == "c" else "g"
    a, b = c.array[valid].astype(wide), decoded[valid].astype(wide)
    parts = [(a, b)] if wide == "g" else [(a.real, b.real), (a.imag, b.imag)]
    value = np.longdouble(gridz.parse(c.request).value)
    ends = [f([f(x) for x, _ in parts]) for f in (np.min, np.max)] if a.size else [0, 0]
    for x, y in parts:
        error = np.abs(x - y)
        if c.mode == "rms":
            if "s=" not in c.request and not np.sqrt((error**2).sum() / c.array.size) <= value * (1 + 1e-9):
                yield "the root mean square error is above the bound"
        elif c.mode in ("abs", "rel", "pwrel"):
            bound = value * {"abs": 1, "rel": ends[1] - ends[0], "pwrel": np.abs(x)}[c.mode]
            if not (error <= bound).all():
                yield f"an error of {error.max()} is above the bound"
