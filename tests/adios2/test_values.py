"""Every codec and mode, type and rank: a reader in another process gets the same result as gridz
without ADIOS2."""

import numpy as np
import pytest

from support import DTYPES, MODES, VALUES, Writer, field, noise, payload, python

SHAPES = [(), (500,), (31, 40), (9, 13, 14), (5, 6, 7, 8), (3, 4, 5, 6, 4), (2, 3, 4, 3, 4, 5)]
# Reads all variables of a file and saves them with NumPy; neither CUDA nor HDF5 may have been
# loaded for that.
READER = """
import sys, adios2, numpy as np
path, out = sys.argv[1:]
complexes = {"float complex": "complex64", "double complex": "complex128"}
with adios2.FileReader(path) as f:
    found = {}
    for name in f.available_variables():
        variable = f.inquire_variable(name)
        if variable.type() in complexes:  # which read does not know
            found[name] = np.empty(variable.shape(), complexes[variable.type()])
            f.engine.get(variable, found[name])
            f.engine.perform_gets()
        else:
            found[name] = f.read(name)
np.savez(out, **found)
libraries = open("/proc/self/maps").read()
assert "libgridz_adios2.so" in libraries and "libgridz.so" in libraries
assert "libcuda" not in libraries and "libhdf5" not in libraries
"""


def read_elsewhere(path):
    """Reads all variables of a file in another process."""
    out = path.with_suffix(".npz")
    python(READER, path.parent, 0, path, out)
    with np.load(out) as found:
        return dict(found)


def requests(codec):
    """Name and parameters for each mode and level of a codec, as separate parameters and as
    text."""
    levels = [None, *(codec.level_numbers[i] for i in range(codec.n_levels))]
    for number, mode in enumerate(MODES):
        if not codec.modes & 1 << number:
            continue
        for level in levels:
            single, text = {"codec": codec.name.decode()}, codec.name.decode()
            if mode != "lossless":
                single[mode], text = VALUES.get(mode, ""), f"{text},{mode}" + (f"={VALUES[mode]}" if mode in VALUES else "")
            if level is not None:
                single["level"], text = str(level), f"{text},level={level}"
            yield mode, single, text


def keeps(mode, array, back):
    """True if the decoded array satisfies the guarantee of the mode."""
    if mode == "lossless":
        return array.tobytes() == back.tobytes()
    # The parts of complex numbers count as separate numbers.
    wanted, found = ([a.view(a.real.dtype).astype("f8") for a in (array, back)])
    error = np.abs(found - wanted)
    if mode == "abs":
        return error.max() <= 1e-3
    if mode == "rms":
        return np.sqrt(np.mean(error**2)) <= 1e-3
    if mode == "rel":
        return error.max() <= 1e-4 * (wanted.max() - wanted.min())
    if mode == "pwrel":
        return (error <= 1e-3 * np.abs(wanted)).all()
    return np.isfinite(error).all()


def test_all(tmp_path, gridz):
    """Writes one file with a variable for each codec, mode, level, type and rank."""
    arrays, asked = {}, {}
    with Writer(tmp_path / "all.bp") as writer:
        variables = []
        for codec in gridz.codecs():
            for mode, single, text in requests(codec):
                for n, dtype in enumerate(DTYPES):
                    if gridz.frame(field((10,), dtype), text) is None:
                        continue
                    # All ranks for float32, one rank for each other type.
                    ranks = range(7) if dtype == "float32" else [n % 7]
                    for rank in ranks:
                        name = f"{text}/{dtype}/{rank}"
                        arrays[name] = field(SHAPES[rank], dtype, n)
                        asked[name] = (mode, text)
                        request = single if n % 2 else {"gridz": text}
                        variables.append((name, writer.define(name, dtype, SHAPES[rank], request)))
        writer.step()
        for name, variable in variables:
            writer.put(variable, arrays[name])
        writer.end_step()
    modes = {mode for mode, _ in asked.values()}
    assert len(asked) > 300 and modes >= {"lossless", "abs", "rel", "pwrel", "rate", "precision", "rms"}
    stored, found = payload(tmp_path / "all.bp"), read_elsewhere(tmp_path / "all.bp")
    for name, (mode, text) in asked.items():
        array, back = arrays[name], found[name]
        assert back.dtype == array.dtype and back.shape == array.shape, name
        # ADIOS2 stores a value without axes in the metadata, to which no operator applies.
        assert keeps(mode if array.ndim else "lossless", array, back), name
        assert not array.ndim or gridz.frame(array, text) in stored, name


@pytest.mark.parametrize("engine", ["BP5", "BP4"])  # BP4 does not call GetEstimatedSize
@pytest.mark.parametrize("request_", ["", "lorenzo,level=dense", "ndzip", "huffman", "quant,abs=1e-30", "zfp,abs=1e-30", "multigrid,abs=1e-30"])
def test_incompressible(tmp_path, request_, engine):
    """Incompressible blocks take one more header in the file, and nothing is written past the room
    for them."""
    arrays = {}
    with Writer(tmp_path / "noise.bp", engine) as writer:
        variables = []
        for dtype in ["float32", "float64"] if "abs" in request_ else DTYPES:
            for n in [1, 7, 4096, 100003]:
                arrays[f"{dtype}{n}"] = noise((n,), dtype, n)
                variables.append((f"{dtype}{n}", writer.define(f"{dtype}{n}", dtype, (n,), {"gridz": request_} if request_ else {})))
        writer.step()
        for name, variable in variables:
            writer.put(variable, arrays[name])
        writer.end_step()
    found = read_elsewhere(tmp_path / "noise.bp")
    assert all(keeps("lossless" if "abs" not in request_ else "abs", array, found[name]) for name, array in arrays.items())
    raw = sum(array.nbytes for array in arrays.values())
    assert len(payload(tmp_path / "noise.bp")) < raw + 4096 + 300 * len(arrays)


def test_special_values(tmp_path):
    """NaN with payloads, infinities, −0, subnormals, and fill values are restored bit for bit, also
    with a bound."""
    array = field((64, 64), "float64")
    array[3] = np.frombuffer(np.array([0x7FF8000000000123], "u8").tobytes(), "f8")[0]
    array[5, :4] = [np.inf, -np.inf, -0.0, 5e-324]
    array[7, ::2] = -999.0
    with Writer(tmp_path / "s.bp") as writer:
        exact = writer.define("exact", "float64", array.shape, {})
        bounded = writer.define("bounded", "float64", array.shape, {"gridz": "quant,abs=1e-3,fill=-999"})
        writer.step()
        writer.put(exact, array)
        writer.put(bounded, array)
        writer.end_step()
    found = read_elsewhere(tmp_path / "s.bp")
    assert found["exact"].tobytes() == array.tobytes()
    is_special = ~np.isfinite(array) | (array == -999)
    assert found["bounded"][is_special].tobytes() == array[is_special].tobytes()
    assert np.abs(found["bounded"][~is_special] - array[~is_special]).max() <= 1e-3
