"""Pictures of a codec's effect on an array, with matplotlib (`pip install "gridz[plot]"`)."""

from __future__ import annotations

import warnings

import numpy as np

import gridz
from gridz._codecs import Codec
from gridz._figure import new_figure
from gridz._missing import as_given
from gridz._quality import without_masks

GREY = "0.75"
"""Color of elements without a number."""

BEYOND = "magenta"
"""Color of errors above the bound."""

POINTS = 4000
"""Longer lines are drawn as the minimum and the maximum of each stretch."""


def plot(original, decoded="quant,rel=1e-3", bound=None, *, index=None, path=None, force=False):
    """Original, decoded, error and the errors' histogram side by side: a matplotlib Figure.

    `decoded` is a codec, or its text form, which is applied to the array here, or a decoded array;
    `bound` is then its bound, as for `gridz.quality`. If there are more than two axes, the last two
    are shown, at `index`, one index along each of the others; None is the middle. The histogram is
    of the whole array. Elements that are not finite, are masked, or that the codec names as missing
    (`quant,rel=1e-3,fill=-999`) are gray; errors above an absolute bound are magenta. `path` saves
    the figure. Raises `ModuleNotFoundError` without matplotlib, and `InvalidArgument` if outliers
    determine the range for `rel=`, unless `force` is set.
    """
    original = as_given(original)
    original = original if isinstance(original, np.ma.MaskedArray) else np.asarray(original)
    if original.dtype.kind not in "fiu" or not original.size or not original.ndim:
        what = f"{original.dtype} {original.shape}"
        raise gridz.InvalidArgument(f"{what} cannot be plotted; give an array of real numbers")
    figure = new_figure((16, 3.8))
    title = "decoded"
    if isinstance(decoded, (str, Codec)):
        bound = gridz.codec(decoded).bounded_for(original, force=force)
        frame = gridz.compress(original, bound)
        decoded, ratio = gridz.decompress(frame), original.nbytes / len(frame)
        how = f", {bound.mode} {bound.value:.3g}" if bound.value else ""
        title = f"{bound.name}{how}\n{ratio:.1f} times smaller"
    bound = gridz.parse(bound) if isinstance(bound, str) else bound
    quality = gridz.quality(original, decoded, bound)
    original, decoded, missing = without_masks(original, decoded, bound)
    decoded = np.asarray(decoded)
    hidden = ~np.isfinite(original) | missing.mask(original)
    with np.errstate(invalid="ignore"):
        error = np.where(hidden, np.nan, decoded.astype("f8") - original.astype("f8"))
    limit = _limit(bound, quality)
    plane = _plane(original.shape, index)
    shown = [np.where(hidden, np.nan, array)[plane] for array in (original, decoded)] + [error[plane]]
    axes = figure.subplots(1, 4)
    where = f" at {plane}" if plane else ""
    titles = [f"original{where}", title, f"error, at most {quality.largest_error:.3g}"]
    draw = _draw_line if original.ndim == 1 else _draw_plane
    for i, (ax, values, text) in enumerate(zip(axes, shown, titles)):
        draw(figure, ax, values, limit if i == 2 else None, shown[0])
        ax.set_title(text, fontsize=9)
    _draw_histogram(axes[3], error[np.isfinite(error)], limit, has_bound=bound is not None)
    axes[3].set_title(f"errors, PSNR {quality.psnr:.1f} dB", fontsize=9)
    if path is not None:
        figure.save(path, dpi=150)
    return figure


def plot_rate(original, codecs=None, bounds=(1e-1, 1e-2, 1e-3, 1e-4, 1e-5), *, fill=None, path=None, force=False):
    """Compression ratio of an array against the bound and against the PSNR: a matplotlib Figure.

    `codecs` are names of codecs that support `rel=`; None for all. `bounds` are relative to the
    range of the array's valid numbers: those that are neither masked nor equal to `fill`, a value
    or a sequence of them. `path` saves the figure. Raises `ModuleNotFoundError` without matplotlib,
    and `InvalidArgument` if outliers determine the range, unless `force` is set.
    """
    figure = new_figure((9, 3.8))
    by_bound, by_psnr = figure.subplots(1, 2)
    for name in codecs or [info.name for info in gridz.codecs() if "rel" in info.modes]:
        ratios, psnrs = [], []
        for bound in bounds:
            codec = gridz.CLASSES[name](rel=bound, fill=fill).bounded_for(original, force=force)
            frame = gridz.compress(original, codec)
            ratios.append(gridz.inspect(frame).array_bytes / len(frame))
            psnrs.append(gridz.quality(original, gridz.decompress(frame), codec).psnr)
        by_bound.plot(bounds, ratios, marker="o", label=name)
        by_psnr.plot(psnrs, ratios, marker="o", label=name)
    by_bound.set(xscale="log", xlabel="bound / range", ylabel="times smaller")
    by_psnr.set(xlabel="PSNR, dB", ylabel="times smaller")
    for ax in (by_bound, by_psnr):
        ax.grid(alpha=0.3)
        ax.legend()
    if path is not None:
        figure.save(path, dpi=150)
    return figure


def _limit(bound, quality) -> float:
    """The limit of the error's color scale: an absolute bound, or else the largest error."""
    if isinstance(bound, Codec):
        bound = bound.value if bound.mode == "abs" else None
    return float(bound) if isinstance(bound, (int, float)) and bound else quality.largest_error or 1.0


def _plane(shape: tuple, index) -> tuple:
    """The index along the axes before the last two."""
    leading = shape[:-2]
    chosen = tuple(n // 2 for n in leading) if index is None else tuple(np.atleast_1d(index).tolist())
    if len(chosen) != len(leading) or any(not -n <= i < n for i, n in zip(chosen, leading)):
        raise gridz.InvalidArgument(f"index={index} is outside the first {len(leading)} axes of shape {shape}")
    return chosen


def _draw_plane(figure, ax, values, limit, original) -> None:
    from matplotlib import colormaps

    finite = original[np.isfinite(original)]
    ends = (-limit, limit) if limit else (finite.min(), finite.max()) if finite.size else (0, 1)
    beyond = BEYOND if limit else None
    colours = colormaps["RdBu_r" if limit else "viridis"].with_extremes(bad=GREY, under=beyond, over=beyond)
    rows, columns = values.shape
    aspect = "equal" if 1 / 4 <= rows / columns <= 4 else "auto"
    drawn = ax.imshow(values, cmap=colours, vmin=ends[0], vmax=ends[1], aspect=aspect, interpolation="nearest")
    bar = figure.colorbar(drawn, ax=ax, shrink=0.8)
    bar.formatter.set_powerlimits((-3, 4))
    bar.ax.tick_params(labelsize=8)
    ax.set(xticks=[], yticks=[])


def _draw_line(figure, ax, values, limit, original) -> None:
    ax.plot(*_thinned(values), linewidth=0.6)
    if limit:
        for end in (-limit, limit):
            ax.axhline(end, color="tab:red", linewidth=0.8, linestyle="--")
    ax.ticklabel_format(axis="y", scilimits=(-3, 4))


def _thinned(values) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of a line of at most `POINTS` points, with all its peaks."""
    step = -(-values.size // (POINTS // 2))
    if values.size <= POINTS:
        return np.arange(values.size), values
    stretches = np.pad(values, (0, -values.size % step), constant_values=np.nan).reshape(-1, step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # stretches without a number stay empty
        ends = np.stack([np.nanmin(stretches, axis=1), np.nanmax(stretches, axis=1)], axis=1)
    return np.arange(len(stretches)).repeat(2) * step, ends.ravel()


def _draw_histogram(ax, errors, limit, has_bound: bool) -> None:
    edge = max(limit, float(np.abs(errors).max(initial=0)))
    ax.hist(errors, bins=80, range=(-edge, edge), color="tab:blue")
    if has_bound:
        for end in (-limit, limit):
            ax.axvline(end, color="tab:red", linewidth=0.8, linestyle="--")
    ax.set_ylabel("elements")
    ax.ticklabel_format(axis="x", scilimits=(-3, 4))
