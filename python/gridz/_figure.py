"""Figures of matplotlib, created without pyplot: no display is needed and no global state remains,
and a notebook shows them."""

from __future__ import annotations

import io
import pathlib

from gridz._output import replacing


def format_of(path) -> str:
    """The format of a picture, by the suffix of its file."""
    return pathlib.Path(path).suffix[1:].lower() or "png"


def new_figure(size):
    """A figure of `size` inches. Raises `ModuleNotFoundError`, which names the remedy, without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('plots need matplotlib: pip install "gridz[plot]"', name="matplotlib") from error

    class Shown(Figure):
        """A figure that a notebook shows, although it is not registered with pyplot."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

        def save(self, path, dpi: int) -> None:
            """Writes the figure to a stream, or to a file in the format of its suffix."""
            if hasattr(path, "write"):
                self.savefig(path, dpi=dpi)
                return
            with replacing(path) as (_, name):
                self.savefig(name, dpi=dpi, format=format_of(path))

    return Shown(figsize=size, layout="constrained")
