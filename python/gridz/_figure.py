"""Figures of matplotlib, made without pyplot: no display is needed and no state is left, and a notebook shows them."""

from __future__ import annotations

import io


def new_figure(size):
    """A figure of `size` inches. Raises `ModuleNotFoundError`, which names the remedy, without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('plots need matplotlib: pip install "gridz[plot]"', name="matplotlib") from error

    class Shown(Figure):
        """A figure that a notebook shows though pyplot does not know it."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    return Shown(figsize=size, layout="constrained")
