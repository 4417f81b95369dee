"""A simulation that writes its state to ADIOS2 through gridz, several blocks in each step, and a reader of a part of it.

    python heat.py write        10 steps to heat_py.bp
    python heat.py read         a window across the blocks of each step
"""

import sys

import adios2
import numpy as np

NY, NX, STEPS, BLOCKS = 512, 512, 10, 4
BOUND = 1e-3
PLUGIN = {"PluginName": "gridz", "PluginLibrary": "gridz_adios2"}


def temperature(step, y, x):
    """The simulated field: a hot spot that spreads. It is given by a formula, so that the reader
    can verify the values."""
    t = step + 1.0
    return 300 + 600 / t * np.exp(-40 / t * ((x / NX - 0.4) ** 2 + (y[:, None] / NY - 0.5) ** 2))


def write():
    adios = adios2.Adios()
    io = adios.declare_io("heat")
    io.set_engine("BP5")
    bounded = adios.define_operator("bounded", "plugin", PLUGIN | {"codec": "quant", "abs": "1e-3", "level": "dense"})
    rows = NY // BLOCKS
    field = io.define_variable("temperature", np.zeros(1), [NY, NX], [0, 0], [rows, NX])
    field.add_operation(bounded)
    with adios2.Stream(io, "heat_py.bp", "w") as stream:
        for step in stream.steps(STEPS):
            for first in range(0, NY, rows):
                field.set_selection([[first, 0], [rows, NX]])
                stream.write(field, temperature(step.current_step(), np.arange(first, first + rows), np.arange(NX)))


def read():
    y, x = np.arange(108, 148), np.arange(100, 150)  # spans two blocks
    with adios2.Stream("heat_py.bp", "r") as stream:
        n = 0
        for step in stream.steps():
            part = step.read("temperature", [y[0], x[0]], [len(y), len(x)])
            assert abs(part - temperature(step.current_step(), y, x)).max() <= BOUND
            n += 1
    assert n == STEPS
    print(f"{n} steps: every element is within {BOUND}")


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]]()
