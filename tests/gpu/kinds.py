"""kinds.py FOLDER: derives fields of other kinds from turb3d.f32 in the folder.

masked.f32    a third of the values, in patches of some ten rows, are a fill value
decimals.f32  two decimals
signs.f32     the deviations from 300: both signs, many exponents
narrow.i16    the decimals as integers of 16 bits; narrow.u8 without their lower half
residuals.u16 residuals of the field in steps of two thousandths of its range, predicted along all
              axes, with the sign folded in
stencil.i32   columns of a matrix that joins each node of a periodic grid with its 26 neighbors and
              itself; anywhere.i32: of a matrix with 60 random elements a row
"""

import pathlib
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])
values = np.fromfile(folder / "turb3d.f32", np.float32)
n = round(values.size ** (1 / 3))
field = values.reshape(n, n, n)

land = field[:, ::16, ::16] > np.quantile(field[:, ::16, ::16], 2 / 3)
land = land.repeat(16, axis=1).repeat(16, axis=2)[:, :n, :n]
np.where(land, np.float32(1e20), field).tofile(folder / "masked.f32")
np.round(values.astype(np.float64), 2).astype(np.float32).tofile(folder / "decimals.f32")
(values - np.float32(300)).tofile(folder / "signs.f32")
integers = np.round((values - 300) * 100).clip(-32768, 32767).astype(np.int16)
integers.tofile(folder / "narrow.i16")
((integers >> 8) + 128).astype(np.uint8).tofile(folder / "narrow.u8")
residuals = np.round(field / np.float32(2e-3 * np.ptp(field))).astype(np.int32)
for axis in range(3):
    residuals = np.diff(residuals, axis=axis, prepend=np.int32(0))
(residuals << 1 ^ residuals >> 31).astype(np.uint16).tofile(folder / "residuals.u16")

side = 128
nodes = np.arange(side**3, dtype=np.int32).reshape(side, side, side)
around = [np.roll(nodes, (z, y, x), (0, 1, 2)) for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1)]
np.sort(np.stack(around, axis=-1).reshape(-1, 27), axis=1).tofile(folder / "stencil.i32")
np.sort(np.random.default_rng(1).integers(0, 1 << 20, (1 << 20, 60), dtype=np.int32), axis=1).tofile(folder / "anywhere.i32")
