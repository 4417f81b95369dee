"""Generated HDF5 files with all kinds of links, attributes and types."""

import h5py
import numpy as np



def make(path, seed):
    """A file that is determined by the seed."""
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
            if rng.integers(2) and i in (4, 10, 11, 12):  # h5py cannot commit predefined types
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
