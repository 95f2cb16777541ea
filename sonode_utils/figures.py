"""Two kinds of figure: one house style for matplotlib, and figures that react in the page.

A colour and a marker belong to one model everywhere: Okabe and Ito's colour-blind-safe
palette on a transparent ground, with lines, text and grid in a dark grey. In the dark the
page inverts a picture and turns its hues back, so that one picture serves both modes.

An interactive figure is one JavaScript file in js/, drawn as SVG from the data it is given.
With a kernel it is an ordinary widget. In a stored notebook it is its name and its data, and
the rendered book draws the same figure from these with no kernel and no network.
"""

import json
from contextlib import suppress
from html import escape
from pathlib import Path

import anywidget
import matplotlib.pyplot as plt
import numpy as np
import traitlets
from matplotlib.axes import Axes

from sonode_utils.ensemble import EnsembleMLP

COLOURS = {"NODE": "#E69F00", "ANODE": "#CC79A7", "SONODE": "#0072B2", "TONODE": "#009E73"}
MARKERS = {"NODE": "^", "ANODE": "o", "SONODE": "D", "TONODE": "s"}
JS = Path(__file__).with_name("js")
INK = "#4d5259"  # contrast of at least 4.5:1 on white, and inverted on the dark theme
TRUTH = {"color": "black", "ls": "--", "lw": 1.5}  # what a model should do
OTHERS = ("#6f4e9c", "#8c6d31", "#3b7d83", "#a33b3b")  # for what is not a model


def use_style() -> None:
    """Put the house style in force for this notebook: sharp pictures, legible ink."""
    with suppress(ImportError):  # outside Jupyter there is no inline backend
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("retina")
    plt.rcParams.update({
        "figure.dpi": 110, "savefig.transparent": True, "figure.facecolor": "none",
        "axes.facecolor": "none", "figure.constrained_layout.use": True,
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
        "xtick.color": INK, "ytick.color": INK, "axes.titlecolor": INK,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": INK, "grid.alpha": 0.25, "legend.frameon": False,
        "legend.labelcolor": INK, "font.size": 11, "lines.linewidth": 1.8,
    })  # fmt: skip


def look(model: str) -> dict:
    """The colour and marker of a model, as keyword arguments of `plot`."""
    return {"color": COLOURS[model], "marker": MARKERS[model]}


def median_and_seeds(
    axis: Axes, x, values, model: str, label: str | None = None, shift: float = 0.0
) -> None:
    """Median and interquartile bar of each column, all seeds as faint dots behind.

    x: (column,); values: (column, seed)
    """
    x, values = np.asarray(x) + shift, np.asarray(values)
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=1)
    axis.plot(x, values, ".", ms=3, alpha=0.3, color=COLOURS[model])
    bars = np.abs(np.stack([middle - low, high - middle]))
    axis.errorbar(x, middle, bars, ls="", ms=6, capsize=2, label=label or model, **look(model))


def band(axis: Axes, x, values, model: str, label: str | None = None, **style) -> None:
    """Median line with the interquartile band. x: (n,); values: (n, seed).

    model gives colour and label; style goes to the line, and a `color` in it to both.
    """
    low, middle, high = np.nanquantile(np.asarray(values), [0.25, 0.5, 0.75], axis=1)
    style = {"color": COLOURS.get(model, INK), "label": label or model, **style}
    axis.fill_between(x, low, high, color=style["color"], alpha=0.2, lw=0)
    axis.plot(x, middle, **style)


class Figure(anywidget.AnyWidget):
    """A drawing that depends on `data` alone. Keys and mouse are handled in the page."""

    name = traitlets.Unicode()
    data = traitlets.Dict().tag(sync=True)
    description = traitlets.Unicode().tag(sync=True)

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        words = {"text/plain": self.description, "text/html": self.stored()}
        return {**data, **words}, metadata

    def stored(self) -> str:
        """What a stored notebook keeps: the figure's name, its data, and a sentence."""
        # No "</script>" can stand in the data once every "<" is escaped.
        data = json.dumps(self.data, separators=(",", ":")).replace("<", "\\u003c")
        words = escape(self.description, quote=True)
        return (
            f'<div class="sonode-data" data-figure="{self.name}" data-description="{words}">'
            f"<p>{words} <em>Run this cell to use the figure here.</em></p>"
            f'<script type="application/json">{data}</script></div>'
        )


def sources(name: str) -> dict:
    """The code and the style of a figure."""
    code = "\n".join((JS / f).read_text("utf8") for f in ("common.js", f"{name}.js"))
    return {"_esm": code, "_css": (JS / "common.css").read_text("utf8")}


def figure(name: str, data: dict, description: str, digits: int = 4) -> Figure:
    """The figure drawn by js/<name>.js from `data`: numbers, arrays, strings, lists, dicts.

    description: what it shows, in a sentence, for readers who cannot see it.
    Numbers keep `digits` significant digits; one that is not finite becomes +-1e6.
    """
    kind = type(name, (Figure,), sources(name))
    return kind(name=name, data=_plain(data, digits), description=description)


def _plain(value, digits):
    if isinstance(value, dict):
        return {str(key): _plain(part, digits) for key, part in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), digits)
    if isinstance(value, float):
        return float(f"{np.nan_to_num(value, nan=1e6, posinf=1e6, neginf=-1e6):.{digits}g}")
    return [_plain(part, digits) for part in value]


def mlp_weights(mlp: EnsembleMLP, member: int, inputs=slice(None), outputs=slice(None)) -> list:
    """One member's layers, for the page; inputs, outputs: what to keep of a padded member."""
    own = [p[member] for p in mlp.parameters()]  # (n_in, n_out) and (1, n_out) in turn
    own[0] = own[0][inputs]
    own[-2:] = [p[:, outputs] for p in own[-2:]]
    return [{"w": w.tolist(), "b": b[0].tolist()} for w, b in zip(own[0::2], own[1::2])]
