"""The test harness of the installed hdf5plugin package, with gridz's codecs in place of its
filters."""

from __future__ import annotations

import unittest

import gridz
import h5py
import numpy as np
import pytest

pytest.importorskip("hdf5plugin", reason="the harness is part of hdf5plugin")
import hdf5plugin
import hdf5plugin.test as harness

LOSSLESS = [info.name for info in gridz.codecs() if "lossless" in info.modes]
BOUNDED = [info.name for info in gridz.codecs() if "abs" in info.modes]
TYPES = [np.dtype(kind) for kind in ("i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", ">f4", "f8")]


@pytest.fixture(autouse=True)
def gridz_in_its_place(monkeypatch):
    """Replaces every look-up of filters in the harness: names to classes, names to numbers,
    cd_values to objects."""
    for name, made in gridz._codecs.CLASSES.items():
        monkeypatch.setitem(harness.compression_name_to_class, name, made)
        monkeypatch.setitem(hdf5plugin.FILTERS, name, gridz.FILTER_ID)
    monkeypatch.setattr(harness._filters, "FILTER_CLASSES", gridz.get_filters(tuple(LOSSLESS)))
    monkeypatch.setattr(hdf5plugin, "from_filter_options", gridz.from_filter_options)
    monkeypatch.setattr(hdf5plugin, "get_filters", gridz.get_filters)


class Transfers(harness.BaseTestHDF5PluginRW):
    """Writes 100 x 10 ones, reads them, and checks the filter and the stored chunk."""

    __test__ = False  # by test_harness

    def test_lossless(self):
        for name in LOSSLESS:
            for dtype in TYPES:
                with self.subTest(codec=name, dtype=dtype):
                    found = self._test(name, dtype, compressed="nocheck" if name in ("stored", "ndzip", "zfp", "huffman", "cci") else True)
                    self.assertEqual(gridz.from_filter_options(found[0], found[2]).name, name)

    def test_levels(self):
        for info in gridz.codecs():
            for level in info.levels if info.name in LOSSLESS else ():
                with self.subTest(codec=info.name, level=level):
                    self._test(info.name, np.int32 if info.name == "cci" else np.float32, options={"level": level})

    def test_bounds(self):
        for name in BOUNDED:
            for dtype in (np.float32, np.float64):
                self._test(name, dtype, lossless=False, options={"abs": 1e-9})

    def test_registered_again(self):
        gridz.register()
        self._test("lorenzo")


class Roundtrips(harness.TestFromFilterOptionsRoundtrip):
    """From an object to cd_values in a dataset and back to an equal object."""

    __test__ = False  # by test_harness

    def test_every_codec_and_level(self):
        for info in gridz.codecs():
            for mode in info.modes:
                settings = {} if mode == "lossless" else {mode: {"expert": True, "precision": 9}.get(mode, 0.25)}
                if mode == "rel":
                    continue  # relative to a whole array, so not available for datasets
                for level in info.levels or (None,):
                    with self.subTest(codec=info.name, mode=mode, level=level):
                        made = gridz.get_filters(info.name)[0](level, **settings)
                        self._test(made, np.ones((10, 10), "f4"))
                        self.assertEqual(type(made)(**made.get_config()), made)


def cases():
    """The harness's own tests that name no filter of hdf5plugin."""
    yield harness.TestFilterGetConfig("testGetConfigRoundtrip")
    for made in (Transfers, Roundtrips):
        for name in unittest.defaultTestLoader.getTestCaseNames(made):
            if name.startswith("test_"):
                yield made(name)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.id().rpartition(".")[2])
def test_harness(case):
    """Uses unittest's runner, which reports each failing subtest."""
    suite = unittest.TestSuite([case])
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    assert result.wasSuccessful() and result.testsRun == 1 and not result.skipped


def test_names_and_numbers():
    assert gridz.FILTERS == {"gridz": gridz.FILTER_ID}
    assert gridz.get_filters() == gridz.get_filters("registered") == gridz.get_filters(gridz.FILTER_ID)
    assert gridz.get_filters(("lorenzo", "quant")) == (gridz.Lorenzo, gridz.Quant)
    with pytest.raises(ValueError, match="lz4.*lorenzo"):
        gridz.get_filters("lz4")
    assert gridz.from_filter_options("gridz", gridz.Quant(abs=0.5).filter_options) == gridz.Quant(abs=0.5)
    with pytest.raises(ValueError, match="no|not"):
        gridz.from_filter_options("lz4", ())


def test_repr_makes_the_same():
    for made in (gridz.Lorenzo("dense"), gridz.Quant(abs=1e-3, fill=-999), gridz.Quant(pwrel=1e-4)):
        assert eval(repr(made)) == made
    assert eval(repr(gridz.Codec("quant,abs=1e-3"))) == gridz.Quant(abs=1e-3)
    assert repr(gridz.Quant(abs=1e-3)) == "gridz.Quant(abs=0.001, level='fast')"


def test_beside_filters_of_hdf5plugin():
    """Both filters in one pipeline: each reads its own data."""
    a = np.arange(10000, dtype="f4").reshape(100, 100)
    with h5py.File("x", "w", driver="core", backing_store=False) as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(a.shape)
        plist.set_filter(gridz.FILTER_ID, h5py.h5z.FLAG_OPTIONAL, gridz.Lorenzo().filter_options)
        plist.set_filter(hdf5plugin.ZSTD_ID, h5py.h5z.FLAG_OPTIONAL, (3,))
        kind, space = h5py.h5t.py_create(a.dtype), h5py.h5s.create_simple(a.shape)
        dataset = h5py.Dataset(h5py.h5d.create(f.id, b"x", kind, space, plist))
        dataset[...] = a
        f.flush()
        assert (dataset[...] == a).all() and dataset.id.get_storage_size() < a.nbytes
