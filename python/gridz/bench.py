"""Measures codecs on a user's own data, through HDF5 as h5py uses it: the output of `gridz bench`.

Each codec writes a sample of a dataset to an in-memory file, in the dataset's chunks, and reads it
back. So the times include HDF5's overhead, and no disk. h5py gives HDF5 one thread; gridz uses
several threads in large chunks. In bulk, that is by `gridz.h5.write` and `read`, chunks are
compressed in parallel.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

import numpy as np

import gridz
from gridz._libhdf5 import numbers_of
from gridz._missing import Missing, of_dataset
from gridz._ranges import check_rel

CHUNK_BYTES = 4 << 20
"""Approximate size of automatically chosen chunks."""


@dataclass
class Sample:
    """Part of a dataset: the values, their chunks, and the part's index: `t[10:20, :, :]`."""

    name: str
    part: str
    shape: tuple
    """The shape of the whole dataset."""
    values: np.ndarray
    chunks: tuple
    chunks_are_given: bool
    """True if the chunks are those of the dataset."""
    missing: Missing
    """The elements that mark missing data, from the dataset."""


@dataclass
class Candidate:
    """A codec of gridz or of another package, and the h5py arguments that select it."""

    label: str
    options: dict
    is_lossless: bool = True
    in_bulk: bool = False
    """True if `gridz.h5` moves the data, instead of h5py."""


@dataclass
class Result:
    """Results of a codec. Speeds are in bytes of the array, medians of the repeats."""

    label: str
    ratio: float = math.nan
    write_gb_s: float = math.nan
    read_gb_s: float = math.nan
    max_error: float = math.nan
    is_lossless: bool = True
    error: str = ""
    """The reason why the measurement failed."""


def chunks_for(shape: tuple, itemsize: int, target: int = CHUNK_BYTES) -> tuple:
    """Chunks of about `target` bytes that are long along the last axes, since HDF5 copies whole
    rows."""
    chunks, left = [1] * len(shape), max(target // itemsize, 1)
    for axis in reversed(range(len(shape))):
        chunks[axis] = max(1, min(shape[axis], left))
        left //= chunks[axis]
    return tuple(chunks)


def box_of(shape: tuple, itemsize: int, chunks: tuple, limit: int) -> tuple:
    """A box from the middle of an array, of about `limit` bytes or less: whole chunks, cut along
    the first axes."""
    counts, bytes_of = list(shape), lambda: math.prod(counts) * itemsize
    for axis, chunk in enumerate(chunks):
        if bytes_of() > limit:
            fitting = counts[axis] * limit // bytes_of()
            counts[axis] = min(shape[axis], max(chunk, fitting // chunk * chunk))
    starts = [(extent - count) // 2 // chunk * chunk for extent, count, chunk in zip(shape, counts, chunks)]
    return tuple(slice(start, start + count) for start, count in zip(starts, counts))


def sample_of(name: str, array, limit: int) -> Sample:
    """A sample of an array or dataset, of about `limit` bytes or less."""
    given = getattr(array, "chunks", None)
    chunks = given or chunks_for(array.shape, array.dtype.itemsize)
    box = box_of(array.shape, array.dtype.itemsize, chunks, limit)
    if isinstance(array, np.ndarray):
        values = np.ascontiguousarray(array[box])
    else:
        values = gridz.h5.read(array, start=[s.start for s in box], count=[s.stop - s.start for s in box])
    whole = values.shape == tuple(array.shape)
    index = ", ".join(f"{s.start}:{s.stop}" if s.stop - s.start < n else ":" for s, n in zip(box, array.shape))
    chunks = tuple(min(chunk, extent) for chunk, extent in zip(chunks, values.shape))
    missing = of_dataset(array) if hasattr(array, "attrs") else Missing(values.dtype)
    part = name if whole else f"{name}[{index}]"
    return Sample(name, part, tuple(array.shape), values, chunks, given is not None, missing)


def is_measurable(array) -> bool:
    """True if an array or dataset has elements, and they are numbers."""
    if not array.shape or math.prod(array.shape) == 0:
        return False
    dtype = array.dtype if isinstance(array, np.ndarray) else numbers_of(array.id.get_type())
    return dtype is not None and dtype.kind in "fiuc"


def candidates(
    sample: Sample,
    texts=(),
    abs_bound: float | None = None,
    rel_bound: float | None = None,
    bulk: bool = False,
    force: bool = False,
) -> list[Candidate]:
    """The candidates: the codecs of `texts`, or all of gridz and of the other installed packages.

    A bound adds the codecs that respect one; `rel_bound` is relative to the range of the sample's
    valid numbers. `bulk` adds each codec of gridz in bulk. Raises `InvalidArgument` for `rel=`
    above 0.1 and for ranges that outliers determine, unless `force` is set.
    """
    values = sample.values

    def bounded(text: str) -> gridz.Codec:
        codec = gridz.codec(text)
        check_rel(codec, force)
        return sample.missing.kept_by(codec, sample.name).bounded_for(values, force=force)

    if rel_bound is not None:
        abs_bound = bounded(f"quant,rel={rel_bound!r}").value
    mine = [bounded(text) for text in texts]
    if not mine:
        for info in gridz.codecs():
            if values.dtype.newbyteorder("=") not in info.dtypes:
                continue
            # zfp has no error bounds for integers.
            keeps_bound = "abs" in info.modes and not (info.name == "zfp" and values.dtype.kind in "iu")
            modes = ["lossless"] * ("lossless" in info.modes) + [f"abs={abs_bound!r}"] * (
                keeps_bound and abs_bound is not None
            )
            for mode in modes:
                for level in info.levels or (None,):
                    parts = [info.name, mode if mode != "lossless" else "", f"level={level}" if level else ""]
                    mine.append(bounded(",".join(filter(None, parts))))
    found = [
        Candidate(f"gridz {codec}" + ", bulk" * in_bulk, dict(codec), codec.is_lossless, in_bulk)
        for codec in mine
        for in_bulk in (False, True)[: 1 + bulk]
    ]
    return found if texts else [Candidate("none", {}), *found, *_peers(values, abs_bound)]


def _peers(values: np.ndarray, abs_bound: float | None) -> list[Candidate]:
    """HDF5's gzip, and the filters of hdf5plugin if it is installed."""
    found = [
        Candidate("shuffle + gzip 1", {"compression": "gzip", "compression_opts": 1, "shuffle": True}),
        Candidate("shuffle + gzip 4", {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
    ]
    try:
        import hdf5plugin as peer
    except ImportError:
        return found
    found += [
        Candidate("Blosc lz4", dict(peer.Blosc("lz4", 5, peer.Blosc.SHUFFLE))),
        Candidate("Blosc zstd 3", dict(peer.Blosc("zstd", 3, peer.Blosc.SHUFFLE))),
        Candidate("Blosc2 lz4", dict(peer.Blosc2("lz4", 5, peer.Blosc2.SHUFFLE))),
        Candidate("Blosc2 zstd 3", dict(peer.Blosc2("zstd", 3, peer.Blosc2.SHUFFLE))),
        Candidate("Bitshuffle lz4", dict(peer.Bitshuffle(cname="lz4"))),
        Candidate("Bitshuffle zstd 3", dict(peer.Bitshuffle(cname="zstd", clevel=3))),
        Candidate("LZ4", dict(peer.LZ4())),
        Candidate("Zstd 3", dict(peer.Zstd(3))),
    ]
    # zfp and SZ3 crash for other types, ranks and byte orders, or return wrong values without an
    # error. If there are NaNs, SZ3 takes minutes for a few megabytes, and gigabytes of memory.
    if (
        abs_bound is not None
        and values.dtype in (np.dtype("f4"), np.dtype("f8"))
        and values.ndim <= 4
        and values.dtype.isnative
        and np.isfinite(values).all()
    ):
        found += [
            Candidate(f"Zfp accuracy={abs_bound:g}", dict(peer.Zfp(accuracy=abs_bound)), False),
            Candidate(f"SZ3 absolute={abs_bound:g}", dict(peer.SZ3(absolute=abs_bound)), False),
        ]
    return found


def measure(sample: Sample, candidate: Candidate, repeats: int = 3) -> Result:
    """Writes and reads a sample with one codec. A failure is recorded in the result, so that other
    codecs are still measured."""
    import h5py

    values, writes, reads = sample.values, [], []
    write, read = (gridz.h5.write, gridz.h5.read) if candidate.in_bulk else (_write_by_h5py, _read_by_h5py)
    result = Result(candidate.label, is_lossless=candidate.is_lossless)
    back = np.full_like(values, 0)  # so that its pages are mapped
    try:
        for _ in range(repeats):
            # No chunk cache, so that reading decompresses what was written. The file image is
            # allocated once, with spare room.
            memory = {"driver": "core", "backing_store": False, "block_size": 2 * values.nbytes + (1 << 20)}
            with h5py.File("bench", "w", rdcc_nbytes=0, **memory) as f:
                start = time.perf_counter()
                dataset = f.create_dataset("x", values.shape, values.dtype, chunks=sample.chunks, **candidate.options)
                write(dataset, values)
                f.flush()
                writes.append(time.perf_counter() - start)
                stored = dataset.id.get_storage_size()
                start = time.perf_counter()
                read(dataset, back)
                reads.append(time.perf_counter() - start)
    except Exception as error:  # third-party filters may raise anything
        result.error = " ".join(str(error).split())
        return result
    result.ratio = values.nbytes / stored
    result.write_gb_s = values.nbytes / statistics.median(writes) / 1e9
    result.read_gb_s = values.nbytes / statistics.median(reads) / 1e9
    result.max_error = max_error(values, back)
    if candidate.is_lossless and result.max_error != 0:
        result.error = "the values that were read differ from the original"
    return result


def _write_by_h5py(dataset, values: np.ndarray) -> None:
    dataset.write_direct(values)


def _read_by_h5py(dataset, back: np.ndarray) -> None:
    dataset.read_direct(back)


def max_error(original: np.ndarray, decoded: np.ndarray) -> float:
    """The largest absolute error; infinity if a number became a non-number, or vice versa."""
    if original.tobytes() == decoded.tobytes():
        return 0.0
    quality = gridz.quality(original, decoded)
    return quality.largest_error if quality.ok else math.inf


def advice(sample: Sample, results: list[Result]) -> list[str]:
    """The conclusions from the measurement, in sentences."""
    good = [r for r in results if not r.error and r.label != "none"]
    return [*_on_codecs(good), *_on_chunks(sample)]


def _on_codecs(good: list[Result]) -> list[str]:
    said = []
    mine = [r for r in good if r.label.startswith("gridz ")]
    lossless, lossy = [r for r in mine if r.is_lossless], [r for r in mine if not r.is_lossless]
    if lossless:
        smallest = max(lossless, key=_ratio)
        said.append(f"Smallest lossless codec of gridz: {smallest.label[6:]}, {smallest.ratio:.2f} times smaller.")
        saving = [r for r in lossless if r.ratio > 1.1]
        if saving:
            fastest = min(saving, key=lambda r: 1 / r.write_gb_s + 1 / r.read_gb_s)
            said.append(
                f"Fastest codec of gridz that saves at least a tenth: {fastest.label[6:]}, {fastest.write_gb_s:.2f} GB/s written "
                f"and {fastest.read_gb_s:.2f} GB/s read."
            )
        else:
            said.append(
                "Lossless codecs save little here. If the last digits are noise, an error bound (--abs, --rel) saves much."
            )
        others = [r for r in good if r.is_lossless and r not in mine and r.ratio > smallest.ratio]
        if others:
            other = max(others, key=_ratio)
            said.append(
                f"{other.label} is smaller: {other.ratio:.2f} times, at {other.write_gb_s:.2f} GB/s written."
            )
    if lossy:
        best = max(lossy, key=_ratio)
        said.append(
            f"With the bound: {best.label[6:]}, {best.ratio:.2f} times smaller, largest error {best.max_error:g}."
        )
    return said


def _on_chunks(sample: Sample) -> list[str]:
    """docs/chunks.md has the measurements that support this advice."""
    itemsize, chunks = sample.values.dtype.itemsize, "x".join(map(str, sample.chunks))
    better = "x".join(map(str, chunks_for(sample.shape, itemsize)))
    n_bytes = math.prod(sample.chunks) * itemsize
    if not sample.chunks_are_given:
        return [f"The array has no chunks; {chunks} were used. Chunks of 1 to 16 MiB, long along all axes, suit most files."]
    if n_bytes < 16 << 10 and math.prod(sample.shape) * itemsize > n_bytes:
        return [
            f"The chunks, {chunks}, have {n_bytes} bytes: below 16 KiB, HDF5's overhead per chunk dominates. Try {better}."
        ]
    if n_bytes > 64 << 20:
        return [
            f"The chunks, {chunks}, have {n_bytes >> 20} MiB, and reading any element reads a whole chunk. Try {better}."
        ]
    if len(sample.chunks) > 1 and sample.chunks[-1] < 16 < sample.shape[-1]:
        return [
            f"The chunks, {chunks}, are thin along the last axis, whose elements HDF5 copies one by one. Try {better}."
        ]
    return []


def _ratio(result: Result) -> float:
    return result.ratio
