"""Made files of HDF5 with all kinds of links, attributes and types, and what differs between two files.

Written against h5py's own reading, independently of what copies files in gridz.
"""

import h5py
import numpy as np
from h5py import h5, h5a, h5p


def make(path, seed):
    """A file that the seed determines."""
    rng = np.random.default_rng(seed)
    tracked, libver = bool(rng.integers(2)), [("earliest", "latest"), "latest", ("v108", "latest")][rng.integers(3)]
    with h5py.File(path, "w", track_order=tracked, userblock_size=[0, 512, 2048][rng.integers(3)], libver=libver) as file:
        groups = [file]
        for i in rng.permutation(int(rng.integers(1, 6))):
            parent = groups[rng.integers(len(groups))]
            groups.append(parent.create_group(f"g{i}é" if i % 2 else f"g{i}", track_order=bool(rng.integers(2))))
        kinds = [
            np.dtype("f4"), np.dtype(">f8"), np.dtype("i2"), np.dtype(">u4"), np.dtype("c8"), np.dtype(bool), np.dtype("f2"),
            np.dtype("S5"), h5py.string_dtype(), h5py.string_dtype("ascii", 7), h5py.enum_dtype({"a": 1, "b": 4}, "i4"),
            np.dtype([("x", ">f4"), ("y", "i8", (3,))]), h5py.vlen_dtype("f8"), h5py.ref_dtype, h5py.regionref_dtype,
            np.dtype([("r", h5py.ref_dtype), ("n", "i4")]), np.dtype("V6"),
        ]  # fmt: skip
        targets = [file.create_dataset("base", data=np.arange(50.0).reshape(5, 10)), *groups]

        def values(kind, shape):
            n, kind = int(np.prod(shape)), np.dtype(kind)
            is_text = kind.kind == "O" and h5py.check_string_dtype(kind) is not None
            ref, vlen = h5py.check_ref_dtype(kind), None if is_text else h5py.check_vlen_dtype(kind)
            if ref is h5py.Reference:
                items = [targets[rng.integers(len(targets))].ref if rng.integers(4) else h5py.Reference() for _ in range(n)]
            elif ref is h5py.RegionReference:
                items = [targets[0].regionref[rng.integers(5), 2:8] for _ in range(n)]
            elif vlen is not None:
                items = [values(vlen, int(rng.integers(4))) for _ in range(n)]
            elif is_text:
                items = ["ä" * int(rng.integers(9)) for _ in range(n)]
            elif kind.names:
                array = np.zeros(shape, kind)
                for name in kind.names:
                    sub = kind[name]
                    array[name] = values(sub.base, (*np.shape(array), *sub.shape)).reshape(array[name].shape)
                return array
            elif kind.kind in "SV":
                return np.frombuffer(rng.integers(65, 90, n * kind.itemsize, np.uint8).tobytes(), kind.base).reshape(shape)
            elif h5py.check_enum_dtype(kind):
                return rng.choice([1, 4], shape).astype(kind)
            else:
                return np.asarray(rng.normal(size=shape).cumsum().reshape(shape) * 50).astype(kind)
            array = np.empty(n, kind)
            for i, item in enumerate(items):
                array[i] = item
            return array.reshape(shape)

        for i in rng.permutation(len(kinds)):
            kind, where = kinds[i], groups[rng.integers(len(groups))]
            shape = [(7,), (40, 60), (9, 10, 11), (1,)][rng.integers(4) if kind.kind != "O" else 0]
            options = {}
            if rng.integers(2):
                options = {"chunks": tuple(int(rng.integers(1, n + 1)) for n in shape), "maxshape": (None, *shape[1:])}
                if kind.kind in "iufc" and rng.integers(2):
                    options.update(compression="gzip", shuffle=bool(rng.integers(2)), fletcher32=bool(rng.integers(2)))
                if kind.kind in "iuf" and rng.integers(2):
                    options["fillvalue"] = -9 if kind.kind != "u" else 9
            if rng.integers(2) and i in (4, 10, 11, 12):  # h5py names no predefined types
                where[f"t{i}"] = kind
                kind = where[f"t{i}"]
            name, plain = f"d{i}", kinds[i]
            dataset = where.create_dataset(name, shape, kind, track_order=bool(rng.integers(2)), **options)
            if rng.integers(5):
                dataset[...] = values(plain, shape)
            targets.append(dataset)
            for j, k in enumerate(rng.permutation(len(kinds))[: rng.integers(5)]):
                shape = [(), (3,), (2, 2)][rng.integers(3)]
                array = values(kinds[k], shape)
                dataset.attrs.create(f"z{9 - j}", array if shape or kinds[k].kind == "O" else array[()], shape, kinds[k])
        groups[-1].attrs["nothing"] = h5py.Empty("f8")
        groups[-1].attrs["none"] = np.zeros((0, 2))
        groups[-1].create_dataset("null", data=h5py.Empty("i4"))
        groups[-1]["one"] = 5.5
        groups[-1]["no elements"] = np.zeros((3, 0))
        file["base"].make_scale("base")
        for dataset in targets[-3:]:
            if isinstance(dataset, h5py.Dataset) and dataset.ndim == 2:
                dataset.dims[1].attach_scale(file["base"])  # a reference in a sequence, and one in a compound
        for i in range(int(rng.integers(20))):
            groups[0].attrs[f"many{i}"] = i
        for i, group in enumerate(groups):
            group[f"soft{i}"] = h5py.SoftLink("/nowhere/at all" if i % 2 else "/base")
            group[f"hard{i}"] = targets[rng.integers(len(targets))]
            group[f"external{i}"] = h5py.ExternalLink("other.h5", "/x")
        layout = h5py.VirtualLayout((10,), "f8")
        layout[...] = h5py.VirtualSource("other.h5", "x", (10,))
        groups[-1].create_virtual_dataset("virtual", layout, fillvalue=3)
        groups[-1].create_dataset("outside", (4,), "f8", external=[("raw.bin", 0, 32)])


NAMES = {}
"""By the names of the two files: from the address of each object to its first path, for an object may have many."""


def _names(file):
    found = {h5py.h5o.get_info(file.id).addr: "/"}
    file.visititems(lambda name, item: found.setdefault(h5py.h5o.get_info(item.id).addr, name) and None)
    return found


def differences(a, b, converted=False):
    """What differs between two files, as sentences. With `converted`, chunks and filters may."""
    with h5py.File(a, "r") as one, h5py.File(b, "r") as two:
        NAMES.update({file.filename: _names(file) for file in (one, two)})
        with open(a, "rb") as x, open(b, "rb") as y:
            if x.read(one.userblock_size) != y.read(two.userblock_size):
                yield "the user blocks differ"
        names = [{}, {}]
        yield from _group("", one["/"], two["/"], names, converted)


def _group(path, one, two, names, converted):
    lists = [[], []]
    for group, found in zip((one, two), lists):
        tracked = group.id.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
        index = h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME
        group.id.links.iterate(lambda name: found.append((name, tracked)), idx_type=index, order=h5.ITER_INC)
    if lists[0] != lists[1]:
        yield f"{path}: links {lists[0]} and {lists[1]}"
        return
    yield from _attributes(path, one, two)
    for name, _ in lists[0]:
        infos = [group.id.links.get_info(name) for group in (one, two)]
        here = f"{path}/{name.decode()}"
        if infos[0].type != infos[1].type or infos[0].cset != infos[1].cset:
            yield f"{here}: kinds of link differ"
        elif infos[0].type != h5py.h5l.TYPE_HARD:
            if one.id.links.get_val(name) != two.id.links.get_val(name):
                yield f"{here}: values of link differ"
        else:
            objects = [group[name.decode()] for group in (one, two)]
            first = [seen.setdefault(h5py.h5o.get_info(o.id).addr, here) for seen, o in zip(names, objects)]
            if first[0] != first[1]:
                yield f"{here}: is {first[0]} and {first[1]}"
            elif first[0] == here:
                yield from _object(here, *objects, names, converted)


def _object(path, one, two, names, converted):
    if type(one) is not type(two):
        yield f"{path}: {one} and {two}"
    elif isinstance(one, h5py.Group):
        yield from _group(path, one, two, names, converted)
    else:
        yield from _attributes(path, one, two)
        kinds = [item.id if isinstance(item, h5py.Datatype) else item.id.get_type() for item in (one, two)]
        yield from _types(path, *kinds, one, two)
        if isinstance(one, h5py.Dataset):
            yield from _dataset(path, one, two, converted)


def _types(path, one, two, owner, other):
    if one != two or one.committed() != two.committed():
        yield f"{path}: types {one} and {two}"
    elif one.committed():
        linked = [file["/"].visititems(lambda name, o: name if isinstance(o, h5py.Datatype) and o.id == kind else None)
                  for file, kind in ((owner.file, one), (other.file, two))]  # fmt: skip
        if linked[0] != linked[1]:
            yield f"{path}: types named {linked}"


def _dataset(path, one, two, converted):
    plain = ("shape", "maxshape") if converted else ("shape", "maxshape", "chunks", "is_virtual", "external")
    for name in plain:
        if getattr(one, name) != getattr(two, name):
            yield f"{path}: {name} {getattr(one, name)} and {getattr(two, name)}"
    lists = [d.id.get_create_plist() for d in (one, two)]
    if lists[0].fill_value_defined() != lists[1].fill_value_defined() or not _same(one.fillvalue, two.fillvalue, one, two):
        yield f"{path}: fill values {one.fillvalue} and {two.fillvalue}"
    if one.external or one.is_virtual:
        return
    if one.shape is None or two.shape is None:
        if one.shape is not two.shape:
            yield f"{path}: one is null"
    elif not _same(one[()], two[()], one, two):
        yield f"{path}: elements differ"


def _attributes(path, one, two):
    lists = []
    for owner in (one, two):
        is_group = isinstance(owner, (h5py.Group, h5py.Dataset))
        tracked = is_group and owner.id.get_create_plist().get_attr_creation_order() & h5p.CRT_ORDER_TRACKED
        index = h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME
        ids = [h5a.open(owner.id, index=i, index_type=index) for i in range(h5a.get_num_attrs(owner.id))]
        lists.append([tracked, *((i.name, i.shape, i.get_space().get_simple_extent_type()) for i in ids)])
    if lists[0] != lists[1]:
        yield f"{path}: attributes {lists[0]} and {lists[1]}"
        return
    for name, *_ in lists[0][1:]:
        kinds = [owner.attrs.get_id(name).get_type() for owner in (one, two)]
        yield from _types(f"{path}@{name}", *kinds, one, two)
        if not _same(one.attrs[name], two.attrs[name], one, two):
            yield f"{path}@{name}: {one.attrs[name]!r} and {two.attrs[name]!r}"


def _same(x, y, one, two):
    """Equal values; references are if they lead to objects of the same name, or to the same elements."""
    return _plain(x, one.file) == _plain(y, two.file)


def _place(reference, file):
    return NAMES[file.filename][h5py.h5o.get_info(file[reference].id).addr]


def _plain(value, file):
    if isinstance(value, h5py.RegionReference):
        if not value:
            return "null"
        return _place(value, file), h5py.h5r.get_region(value, file.id).get_select_bounds(), file[value][value].tobytes()
    if isinstance(value, h5py.Reference):
        return _place(value, file) if value else "null"
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        return [_plain(value[name], file) for name in value.dtype.names]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return value.shape, [_plain(item, file) for item in value.ravel()]
    return value.tobytes() if isinstance(value, (np.ndarray, np.generic)) else repr(value)
