"""Repacks an HDF5 file (netCDF-4, AnnData, …): the numbers in the new file's datasets are
compressed by gridz.

The bulk layer copies the numbers chunk by chunk, on all threads; everything else in the file is
copied unchanged (`gridz._tree`). The written data is read back and compared before the new file
gets its name (`gridz._output`).
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import os
import pathlib
from dataclasses import dataclass
from typing import Callable, Iterator, Mapping

import h5py
import numpy as np
from h5py import h5d, h5f, h5g, h5l, h5o, h5t, h5z

import gridz
from gridz import _cf
from gridz._chunks import boxes_of, compared_boxes, is_dense
from gridz._codecs import listed
from gridz._elements import check_job
from gridz._libhdf5 import address_of, lock, numbers_of
from gridz._missing import Missing, attributes_of, of_codec, of_dataset, of_values, user_fill
from gridz._names import bytes_of, shown, text_of
from gridz._output import replacing
from gridz._pipeline import filters_of, missing_filters
from gridz._quality import Statistics
from gridz._ranges import Range, check_rel
from gridz._report import problems, type_text
from gridz._tree import PROBLEMS, Copy, Found, access_by_descriptor, create_like, datasets_of, open_file, reason_of
from gridz._verify import fill_is_same, is_as_encoded, is_in_file, is_kept
from gridz.bench import chunks_for
from gridz.filters import stored_codec

SMALLEST = 4 << 10
"""Smaller datasets (in bytes) are copied unchanged unless a pattern names them: a chunk index takes
as much space."""

LOSSLESS = {1, 2, 3, 4, 307, 32000, 32001, 32004, 32008, 32015}
"""Filters that change no value: deflate, shuffle, fletcher32, szip, bzip2, LZF, Blosc, LZ4, Bitshuffle, Zstandard."""

KEEP = "keep"
"""Used in place of a codec, or of a chunk's shape: as in the source."""


@dataclass(frozen=True)
class Repacked:
    """One dataset of a repacked file."""

    path: str
    codec: str | None
    """The codec's text; None: the dataset was copied unchanged."""
    array_bytes: int
    bytes_before: int
    """Stored bytes in the original."""
    bytes_after: int
    reason: str | None = None
    """The reason why the dataset was copied unchanged, or why its codec is lossless although a
    lossy one was given."""
    minimum: float | None = None
    """The smallest valid number of the original; this and the following fields are set only for a
    lossy codec."""
    maximum: float | None = None
    largest_error: float | None = None
    psnr: float | None = None
    """Peak signal-to-noise ratio, 20 log10(range / root mean square error), in dB."""


def repack(
    source,
    target=None,
    codec=None,
    *,
    datasets: Mapping[str, object] | None = None,
    chunk: str | tuple = KEEP,
    fill=None,
    force: bool = False,
    threads: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> list[Repacked]:
    """Copies an HDF5 file to `target` (None: in place), with its numbers compressed by a codec or
    its text form.

    A lossy codec applies only to floats that are not coordinates; all other numbers get the default
    lossless codec. Coordinates are dimension scales, and by the CF conventions datasets that an
    attribute such as `coordinates` or `bounds` names, and those with `axis`, units such as
    degrees_north, or a standard name such as latitude. `rel=` is relative to the range of each
    dataset's valid numbers. Missing elements are restored bit for bit: elements equal to HDF5's
    fill value, `_FillValue`, `missing_value` or a value of `fill` (one or a sequence), and elements
    outside `valid_min`, `valid_max` or `valid_range`.

    `datasets` maps patterns to the codec of the matching datasets, or to "keep"; the last match
    counts. A pattern with a slash matches paths (`/group/*`), one without matches names in every
    group (`name*`). A coordinate gets a lossy codec only if a pattern names it itself. A dataset
    that no pattern matches is copied unchanged if it is small, is not an array of numbers, would
    become larger, or went through a filter that is unknown or may have changed values; if no codec
    is given, also if gridz has already compressed it. `chunk`: "keep" (arrays without chunks get
    new ones), "auto" for new chunks, or a shape for datasets of its rank. `progress` is called with
    the path of each dataset.

    Raises `InvalidArgument` for a pattern that matches nothing, and unless `force` is set, for
    `rel=` above 0.1 and for a range that outliers determine.

    Everything else is preserved: links, attributes, types, references, order, user block. The new
    file replaces `target` after all of it was read back and compared. After an error, or if the
    process is killed, the old file remains. Raises `gridz.Error`, and OSError for files. References
    to objects without a link become null.
    """
    source = pathlib.Path(source)
    target = source if target is None else pathlib.Path(target)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_file(source))
        job = _Job(file, codec, datasets or {}, chunk, listed(fill), force, threads, progress)
        descriptor, name = stack.enter_context(replacing(target))
        stack.enter_context(lock)
        written = create_like(name, file.id)
        try:
            Copy(file.id, written, job.make).run()
        finally:
            written.close()
        n = file.userblock_size
        with open(source, "rb") as stream:
            os.pwrite(descriptor, stream.read(n), 0)
        with h5py.File(h5f.open(os.fsencode(name), h5f.ACC_RDONLY, access_by_descriptor())) as copy:
            return [
                _verified(path, file[bytes_of(path)], copy[bytes_of(path)], made, job.reasons.get(path), threads)
                for path, made in job.done.items()
            ]


class _Job:
    """The request, and the result for each dataset."""

    def __init__(self, file: h5py.File, codec, datasets: Mapping, chunk, fills: list, force: bool, threads, progress):
        self._is_chosen = codec is not None
        self._codec = gridz.codec(codec)
        self._datasets = {glob: KEEP if c == KEEP else gridz.codec(c) for glob, c in datasets.items()}
        for given in (self._codec, *self._datasets.values()):
            if given != KEEP:
                check_rel(given, force)
        of_values("f8", [value for value in fills if not str(value).startswith("0x")])  # refuses texts
        self._chunk, self._fills, self._force = chunk, fills, force
        self._threads, self._progress = threads, progress
        self._paths, attributes = _paths_of(file)
        _check_patterns(self._datasets, self._paths)
        self._coordinates = _cf.coordinates(attributes)
        for found in datasets_of(file.id):
            if found.id is not None:
                self._check(found.path, found.dataset)
        self.done: dict[str, gridz.Codec | None] = {}
        self.reasons: dict[str, str] = {}

    def _check(self, path: str, dataset: h5py.Dataset) -> None:
        """Raises an error for a codec that cannot compress the dataset that a pattern names."""
        glob, named = self._named(dataset.id)
        codec = self._choice(dataset, glob, named)[0] if named else None
        if codec is not None:
            try:
                check_job(codec, np.empty((), numbers_of(dataset.id.get_type())).dtype, dataset.ndim)
            except gridz.Error as error:
                raise gridz.UnsupportedJob(f"{shown(path)} cannot be compressed with {codec}: {error}") from None

    def make(self, path: str, original: h5d.DatasetID, kind: h5t.TypeID, file) -> h5d.DatasetID | None:
        """The dataset in the new file, of the type `kind`, with all elements; None to copy it
        unchanged."""
        if self._progress:
            self._progress(path)
        dataset, glob, named = h5py.Dataset(original), *self._named(original)
        codec, reason = self._choice(dataset, glob, named)
        self.done[path] = None
        if reason:
            self.reasons[path] = reason
        if codec is None:
            return None
        codec = self._with_missing(path, dataset, codec)
        create = original.get_create_plist()
        missing = missing_filters(original)
        if missing:
            raise gridz.MissingFilter(f"{shown(path)} {missing}, or copy the dataset unchanged: --dataset PATH=keep")
        for filter_id in filters_of(original):
            create.remove_filter(filter_id)
        create.set_chunk(self._chunks(dataset))
        create.set_alloc_time(h5d.ALLOC_TIME_INCR)
        create.set_filter(codec.filter_id, 0, codec.filter_options)
        try:
            made = h5d.create(file, None, kind, original.get_space(), create)
        except (OSError, ValueError, RuntimeError) as error:
            if named:
                raise gridz.UnsupportedJob(f"{path} cannot be compressed with {codec}: {error}") from None
            self.reasons[path] = f"not compressible ({error})"
            return None
        if original.get_storage_size():  # otherwise all elements have the fill value
            _copy(dataset, h5py.Dataset(made), self._threads)
            if not named and made.get_storage_size() > original.get_storage_size():
                self.reasons[path] = "not smaller"
                return None
        self.done[path] = codec
        return made

    def _named(self, original: h5d.DatasetID) -> tuple[str, object]:
        """The last pattern that matches a dataset, and its codec or "keep"; None for both if there
        is no match."""
        found = "", None
        for glob, codec in self._datasets.items():
            if any(_matches(path, glob) for path in self._paths[address_of(original)]):
                found = glob, codec
        return found

    def _choice(self, dataset: h5py.Dataset, glob: str, named) -> tuple[gridz.Codec | None, str | None]:
        """The codec of a dataset, or None; and the reason, if that is not the requested one."""
        if named == KEEP:
            return None, f"kept ({glob})"
        why_kept = _why_no_array(dataset) or (None if named else self._why_kept(dataset))
        if why_kept:
            return None, why_kept
        codec = named or self._codec
        if codec.is_lossless:
            return codec, None
        paths = self._paths[address_of(dataset.id)]
        is_its_name = any(glob in (path, path[1:], path.rpartition("/")[2]) for path in paths)
        why_not = _cf.why_not_lossy(attributes_of(dataset, _cf.NAMES), dataset.dtype.base)
        if why_not and is_its_name:
            raise gridz.UnsupportedJob(f"{shown(paths[0])}: {codec} is not for {why_not}; use a lossless codec")
        if not why_not and not is_its_name:
            is_scale = h5py.h5ds.is_scale(dataset.id)
            why_not = "a coordinate (dimension scale)" if is_scale else self._coordinates.get(paths[0])
        if not why_not and not named and dataset.dtype.kind not in "fc":
            why_not = "no floats"
        return (gridz.codec(None), why_not) if why_not else (codec, None)

    def _why_kept(self, dataset: h5py.Dataset) -> str | None:
        """The reason why a dataset that no pattern names is copied unchanged, or None."""
        if dataset.dtype.subdtype:
            return "elements are arrays"
        if dataset.nbytes < SMALLEST:
            return "small"
        try:
            stored = stored_codec(dataset)
        except gridz.Error:
            return "filter values of gridz that this version cannot read"
        if stored is not None:
            is_wanted = self._is_chosen and stored.is_lossless and stored != self._codec
            return None if is_wanted else "compressed by gridz"
        filters = set(filters_of(dataset.id))
        if not filters <= LOSSLESS:
            return f"filter {min(filters - LOSSLESS)}"
        is_readable = all(h5z.filter_avail(number) for number in filters)
        return None if is_readable else "a filter that is not available"

    def _with_missing(self, path: str, dataset: h5py.Dataset, codec: gridz.Codec) -> gridz.Codec:
        """The codec with the missing elements of a dataset, and with a bound derived from its
        range."""
        if codec.is_lossless:
            return codec
        dtype, fills = dataset.dtype.base, []
        for value in self._fills:
            with contextlib.suppress(gridz.InvalidArgument):  # the value is not an element of this type
                fills += of_values(dtype, value).fills
        codec = (of_dataset(dataset) | Missing(dtype, tuple(fills))).kept_by(codec, shown(path))
        if codec.mode != "rel":
            return codec
        measured, n = Range(of_codec(codec, dtype), dataset.size), 0
        for start, count in boxes(dataset):
            measured.add(gridz.h5.read(dataset, start=start, count=count, threads=self._threads))
            n += int(np.prod(count))
        if n < dataset.size and not user_fill(dataset):
            measured.add(np.asarray([dataset.fillvalue], dtype))
        if not self._force:
            measured.check(shown(path), shown(path))
        return codec.bounded_by(measured.minimum, measured.maximum)

    def _chunks(self, dataset: h5py.Dataset) -> tuple:
        if isinstance(self._chunk, tuple) and len(self._chunk) == dataset.ndim:
            limits = zip(self._chunk, dataset.shape, dataset.maxshape)
            return tuple(c if most is None else min(c, max(n, 1)) for c, n, most in limits)
        if dataset.chunks and self._chunk != "auto":
            return dataset.chunks
        return chunks_for(dataset.shape, dataset.dtype.itemsize)


def _paths_of(file: h5py.File) -> tuple[dict[int, list[str]], dict[str, dict]]:
    """All paths of each dataset, by its address in the file; and attributes of each dataset, by its
    first path, and of groups, whose paths end in a slash. If several hard links lead to a group,
    the first one counts."""
    paths: dict[int, list[str]] = {}
    attributes = {}
    seen, groups = set(), [("", h5g.open(file.id, b"/"))]
    while groups:
        path, group = groups.pop()
        if address_of(group) in seen:
            continue
        seen.add(address_of(group))
        attributes[f"{path}/"] = attributes_of(h5py.Group(group), _cf.REFERENCES)
        names: list[bytes] = []
        group.links.iterate(names.append)
        for name in names:
            if group.links.get_info(name).type != h5l.TYPE_HARD:
                continue
            with contextlib.suppress(*PROBLEMS):  # `datasets_of` reports objects that cannot be opened
                item, place = h5o.open(group, name), f"{path}/{text_of(name)}"
                if isinstance(item, h5g.GroupID):
                    groups.append((place, item))
                elif isinstance(item, h5d.DatasetID):
                    paths.setdefault(address_of(item), []).append(place)
                    if len(paths[address_of(item)]) == 1:
                        attributes[place] = attributes_of(h5py.Dataset(item), (*_cf.REFERENCES, *_cf.NAMES))
    return paths, attributes


def _matches(path: str, glob: str) -> bool:
    """True if a pattern matches a path: as a whole if the pattern has a slash, otherwise the name at its end."""
    text = path if "/" in glob else path.rpartition("/")[2]
    glob = glob if glob.startswith("/") or "/" not in glob else f"/{glob}"
    return text == glob or fnmatch.fnmatchcase(text, glob)


def _check_patterns(globs, paths: Mapping[int, list[str]]) -> None:
    """Raises `InvalidArgument` for a pattern that matches no dataset."""
    every = [path for several in paths.values() for path in several]
    for glob in globs:
        if any(_matches(path, glob) for path in every):
            continue
        inside = [path for path in every if path.startswith(f"/{glob.strip('/')}/")]
        whole = {path.lower(): path for path in reversed(every)}
        names = {path.rpartition("/")[2].lower(): path for path in reversed(every)}
        text, is_path = glob.strip("/").lower(), "/" in glob
        near = difflib.get_close_matches(f"/{text}", whole, 1) if is_path else []
        near = [whole[path] for path in near] or [names[name] for name in difflib.get_close_matches(text, names, 1)]
        if inside:
            hint = f"it is a group: /{glob.strip('/')}/* matches its datasets"
        elif near:
            hint = f"did you mean {near[0]}?"
        else:
            more = f" and {len(every) - 5} more" if len(every) > 5 else ""
            hint = f"the file has {', '.join(every[:5])}{more}" if every else "the file has none"
        raise gridz.InvalidArgument(f"{shown(glob)!r} (--dataset) matches no dataset of the file; {shown(hint)}")


def _why_no_array(dataset: h5py.Dataset) -> str | None:
    """The reason why a dataset cannot be compressed at all, or None. It must have numbers, along
    axes, stored in this file."""
    if not dataset.shape or not dataset.size:
        return "scalar or empty"
    if not is_in_file(dataset.id):
        return "elements in other files"
    kind = dataset.id.get_type()
    return None if numbers_of(kind) is not None else f"no numbers ({type_text(kind)})"


def boxes(dataset: h5py.Dataset) -> Iterator[tuple[tuple, tuple]]:
    """First element and extents of the boxes that contain the stored elements of a dataset."""
    return boxes_of(dataset.id)


def _copy(before: h5py.Dataset, after: h5py.Dataset, threads) -> None:
    """Copies the stored elements of a dataset. Raises `Corrupt`, naming the chunk, if some cannot
    be decoded."""
    try:
        if is_dense(before.id):
            gridz.h5.copy(before, after, threads=threads)
            return
        for start, count in boxes_of(before.id, after.chunks):
            part = gridz.h5.read(before, start=start, count=count, threads=threads)
            gridz.h5.write(after, part, start, threads=threads)
    except (gridz.Corrupt, gridz.HostError) as error:
        for damage in problems(Found("", before.id), threads):
            raise gridz.Corrupt(f"chunk {damage['start']}: {damage['error']}") from error
        raise


def _verified(path: str, before: h5py.Dataset, after: h5py.Dataset, codec, reason: str | None, threads) -> Repacked:
    """Compares a dataset with its copy: stored bytes if they were copied, otherwise elements.
    Raises `Corrupt`."""
    statistics = Statistics()
    sizes = [dataset.id.get_storage_size() for dataset in (before, after)]
    name, how = f"{shown(before.file.filename)}: {shown(path)}", f" with {codec}" if codec else ""
    try:
        same = fill_is_same(before.id, after.id)
        if codec is None:
            same = same and is_kept(before.id, after.id)
        elif codec.mode in ("rms", "rate", "precision", "expert"):
            same = same and is_as_encoded(before, after, threads, statistics)
        else:
            boxes_ = compared_boxes(before.id, after.id)
            same = same and all(_is_same(before, after, box, codec, threads, statistics) for box in boxes_)
    except PROBLEMS as error:
        text = f"{name}: the copy{how} cannot be compared with the original: {reason_of(error)}"
        raise gridz.HostError(text) from error
    if not same:
        raise gridz.Corrupt(f"{name}: the copy{how} differs from the original, so no file was written")
    n_bytes = before.size * before.id.get_type().get_size() if before.shape is not None else 0
    return Repacked(path, codec and str(codec), n_bytes, *sizes, reason, **statistics.figures())


def _is_same(before, after, box, codec, threads, statistics: Statistics) -> bool:
    a, b = (gridz.h5.read(dataset, start=box[0], count=box[1], threads=threads) for dataset in (before, after))
    if codec.is_lossless:
        return a.tobytes() == b.tobytes()
    quality = gridz.quality(a, b, codec)
    statistics.add(quality)
    return quality.ok and of_codec(codec, a.dtype).is_kept(a, b)
