"""A file of HDF5 (netCDF-4, AnnData, …) to another one whose datasets are compressed by gridz.

Numbers go through the bulk layer, chunk by chunk on all threads; everything else in the file is copied as it is
(`gridz._tree`). What was written is read back and compared before the new file takes its name (`gridz._output`).
"""

from __future__ import annotations

import fnmatch
import os
import pathlib
from dataclasses import dataclass
from typing import Callable, Iterator, Mapping

import h5py
import numpy as np
from h5py import h5d, h5f, h5t, h5z

import gridz
from gridz._chunks import boxes_of, compared_boxes, is_dense
from gridz._elements import check_job
from gridz._libhdf5 import lock, numbers_of
from gridz._names import bytes_of, shown
from gridz._output import replacing
from gridz._tree import PROBLEMS, Copy, access_by_descriptor, create_like, datasets_of, open_file, reason_of
from gridz._verify import fill_is_same, is_as_encoded, is_in_file, is_kept
from gridz.bench import chunks_for
from gridz.filters import stored_codec

SMALLEST = 4 << 10
"""Bytes below which a dataset stays as it is, unless it is named: an index of chunks takes as much."""

LOSSLESS = {1, 2, 3, 4, 307, 32000, 32001, 32004, 32008, 32015}
"""Filters that change no value: deflate, shuffle, fletcher32, szip, bzip2, LZF, Blosc, LZ4, Bitshuffle, Zstandard."""

H5Z_ZFP = 32013
"""A filter whose chunks the bulk layer reads itself."""

KEEP = "keep"
"""In place of a codec, or of a chunk's shape: as it is in the source."""


@dataclass(frozen=True)
class Repacked:
    """What became of a dataset: its path, the codec's text (None: as it was), stored bytes before and after."""

    path: str
    codec: str | None
    array_bytes: int
    bytes_before: int
    bytes_after: int


def repack(
    source,
    target=None,
    codec=None,
    *,
    datasets: Mapping[str, object] | None = None,
    chunk: str | tuple = KEEP,
    threads: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> list[Repacked]:
    """Copies an HDF5 file to `target` (None: in its place) with its numbers compressed by a codec, or its text.

    A codec with a bound is for floats that are no dimension scales; other numbers, and all if there is none, get the
    default lossless codec; `rel=` is of each dataset's range. `datasets` maps patterns (`/group/*`, or `name*` anywhere)
    to the codec of what they match, or to "keep"; the last one that matches counts. A dataset that none matches stays
    as it is if it is small, is no array of numbers, would become larger, or went through a filter that is not known or
    may have changed values; with no codec given, what gridz has compressed stays too. `chunk`: "keep" those there are
    (arrays without chunks get some), "auto" for new ones, or a shape for datasets of its rank. `progress` is told the
    path of each dataset.

    Everything else is kept: links, attributes, types, references, order, user block. The new file replaces `target`
    when all of it was read back and compared; after an error, or if the process is killed, there is the old one. Raises
    `gridz.Error`, and OSError for files. References to what nothing links to become null.
    """
    source = pathlib.Path(source)
    target = source if target is None else pathlib.Path(target)
    with open_file(source) as file, replacing(target) as (descriptor, name), lock:
        job = _Job(codec, datasets or {}, chunk, threads, progress)
        for found in datasets_of(file.id):
            if found.id is not None:
                job.check(found.path, found.dataset)
        written = create_like(name, file.id)
        try:
            Copy(file.id, written, job.make).run()
        finally:
            written.close()
        n = file.userblock_size
        with open(source, "rb") as stream:
            os.pwrite(descriptor, stream.read(n), 0)
        with h5py.File(h5f.open(name.encode(), h5f.ACC_RDONLY, access_by_descriptor())) as copy:
            return [
                _verified(path, file[bytes_of(path)], copy[bytes_of(path)], made, threads)
                for path, made in job.done.items()
            ]


class _Job:
    """What is asked for, and what was done."""

    def __init__(self, codec, datasets: Mapping[str, object], chunk, threads, progress):
        self._is_chosen = codec is not None
        self._codec = gridz.codec(codec)
        self._datasets = {glob: KEEP if c == KEEP else gridz.codec(c) for glob, c in datasets.items()}
        self._chunk, self._threads, self._progress = chunk, threads, progress
        self.done: dict[str, gridz.Codec | None] = {}

    def check(self, path: str, dataset: h5py.Dataset) -> None:
        """Raises, before the work begins, for a codec that cannot compress the dataset that a pattern names."""
        codec = self._named(path)
        if isinstance(codec, gridz.Codec) and _is_array(dataset):
            try:
                check_job(codec, numbers_of(dataset.id.get_type()).base, dataset.ndim)
            except gridz.Error as error:
                raise gridz.UnsupportedJob(f"{shown(path)} cannot be compressed with {codec}: {error}") from None

    def make(self, path: str, original: h5d.DatasetID, kind: h5t.TypeID, file) -> h5d.DatasetID | None:
        """The dataset in the new file, of the type `kind` there, with all elements; None if it is to stay as it is."""
        if self._progress:
            self._progress(path)
        self.done[path] = None
        dataset, named = h5py.Dataset(original), self._named(path)
        if named == KEEP or not _is_array(dataset) or not (named or self._converts(dataset)):
            return None
        codec = named or self._codec
        if not named and not codec.is_lossless and (dataset.dtype.kind not in "fc" or h5py.h5ds.is_scale(original)):
            codec = gridz.codec(None)
        if codec.mode == "rel":
            codec = codec.bounded_by(*_range_of(dataset, codec.fill))
        create = original.get_create_plist()
        for filter_id in _filters(dataset):
            if not h5z.filter_avail(filter_id) and filter_id != H5Z_ZFP:
                raise gridz.UnsupportedJob(
                    f"{path} is compressed by filter {filter_id}, which is not here; name its plugin's folder in "
                    f"HDF5_PLUGIN_PATH, or leave the dataset as it is"
                )
            create.remove_filter(filter_id)
        create.set_chunk(self._chunks(dataset))
        create.set_alloc_time(h5d.ALLOC_TIME_INCR)
        create.set_filter(codec.filter_id, 0, codec.filter_options)
        try:
            made = h5d.create(file, None, kind, original.get_space(), create)
        except (OSError, ValueError, RuntimeError) as error:
            if named:
                raise gridz.UnsupportedJob(f"{path} cannot be compressed with {codec}: {error}") from None
            return None
        if original.get_storage_size():  # without, all elements are the fill value
            _copy(dataset, h5py.Dataset(made), self._threads)
            if not named and made.get_storage_size() > original.get_storage_size():
                return None
        self.done[path] = codec
        return made

    def _named(self, path: str):
        found = None
        for glob, codec in self._datasets.items():
            if fnmatch.fnmatchcase(path if glob.startswith("/") else path.rpartition("/")[2], glob):
                found = codec
        return found

    def _converts(self, dataset: h5py.Dataset) -> bool:
        """Whether a dataset that no pattern names is converted."""
        if dataset.dtype.subdtype or dataset.nbytes < SMALLEST:
            return False
        stored = stored_codec(dataset)
        if stored is not None:
            return self._is_chosen and stored.is_lossless and stored != self._codec
        filters = set(_filters(dataset))
        return filters <= LOSSLESS and all(h5z.filter_avail(number) for number in filters)

    def _chunks(self, dataset: h5py.Dataset) -> tuple:
        if isinstance(self._chunk, tuple) and len(self._chunk) == dataset.ndim:
            limits = zip(self._chunk, dataset.shape, dataset.maxshape)
            return tuple(c if most is None else min(c, max(n, 1)) for c, n, most in limits)
        if dataset.chunks and self._chunk != "auto":
            return dataset.chunks
        return chunks_for(dataset.shape, dataset.dtype.itemsize)


def _is_array(dataset: h5py.Dataset) -> bool:
    """Whether a dataset can be compressed at all: some numbers, along axes, stored in this file."""
    is_numbers = dataset.shape and dataset.size and numbers_of(dataset.id.get_type()) is not None
    return bool(is_numbers) and is_in_file(dataset.id)


def _filters(dataset: h5py.Dataset) -> list[int]:
    create = dataset.id.get_create_plist()
    return [create.get_filter(i)[0] for i in range(create.get_nfilters())]


def boxes(dataset: h5py.Dataset) -> Iterator[tuple[tuple, tuple]]:
    """First element and extents of the boxes that hold the stored elements of a dataset."""
    return boxes_of(dataset.id)


def _copy(before: h5py.Dataset, after: h5py.Dataset, threads) -> None:
    """Copies the stored elements of a dataset."""
    if is_dense(before.id):
        gridz.h5.copy(before, after, threads=threads)
        return
    for start, count in boxes_of(before.id, after.chunks):
        gridz.h5.write(after, gridz.h5.read(before, start=start, count=count, threads=threads), start, threads=threads)


def _range_of(dataset: h5py.Dataset, fill) -> tuple[float, float]:
    """The range of the finite numbers that are not a fill value: the codec's, HDF5's, or netCDF's."""
    fill = _fill_of(dataset) if fill is None else fill
    if fill is None and "_FillValue" in dataset.attrs:
        fill = np.ravel(dataset.attrs["_FillValue"])[0]
    ends = [gridz.range_of(gridz.h5.read(dataset, start=start, count=count), fill) for start, count in boxes(dataset)]
    return min(a for a, _ in ends), max(b for _, b in ends)


def _verified(path: str, before: h5py.Dataset, after: h5py.Dataset, codec: gridz.Codec | None, threads) -> Repacked:
    """Compares a dataset with its copy: stored bytes if they were copied, otherwise elements. Raises `Corrupt`."""
    sizes = [dataset.id.get_storage_size() for dataset in (before, after)]
    how = f" with {codec}" if codec else ""
    try:
        same = fill_is_same(before.id, after.id)
        if codec is None:
            same = same and is_kept(before.id, after.id)
        elif codec.mode in ("rms", "rate", "precision", "expert"):
            same = same and is_as_encoded(before, after, threads)
        else:
            same = same and all(_is_same(before, after, box, codec, threads) for box in compared_boxes(before.id, after.id))
    except PROBLEMS as error:
        text = f"{shown(path)}: the copy{how} cannot be compared with the original: {reason_of(error)}"
        raise gridz.HostError(text) from error
    if not same:
        raise gridz.Corrupt(f"{shown(path)}: the copy{how} differs from the original, so no file was written")
    n_bytes = before.size * before.id.get_type().get_size() if before.shape is not None else 0
    return Repacked(path, codec and str(codec), n_bytes, *sizes)


def _is_same(before, after, box, codec, threads) -> bool:
    a, b = (gridz.h5.read(dataset, start=box[0], count=box[1], threads=threads) for dataset in (before, after))
    if codec.is_lossless:
        return a.tobytes() == b.tobytes()
    return gridz.quality(a, b, codec, fill=_fill_of(before)).ok


def _fill_of(dataset: h5py.Dataset):
    """The fill value that somebody has chosen, or None."""
    chosen = dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    return dataset.fillvalue if chosen else None
