"""One house style: a colour, a marker and a dash for each model, everywhere.

Okabe and Ito's colour-blind-safe palette on a transparent ground, with lines, text and
grid in a grey that reads on white and on black alike: one picture serves both modes.
"""

import matplotlib.pyplot as plt
import numpy as np

COLOURS = {
    "NODE": "#E69F00",
    "ANODE": "#CC79A7",
    "SONODE": "#0072B2",
    "TONODE": "#009E73",
}
MARKERS = {"NODE": "^", "ANODE": "o", "SONODE": "D", "TONODE": "s"}
INK = "#7a7f87"  # contrast of at least 3:1 on white and on the dark theme

STYLE = {
    "figure.dpi": 110, "savefig.transparent": True, "figure.facecolor": "none",
    "axes.facecolor": "none", "figure.constrained_layout.use": True,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.titlecolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": INK, "grid.alpha": 0.25, "legend.frameon": False,
    "legend.labelcolor": INK, "font.size": 11, "lines.linewidth": 1.8,
}  # fmt: skip


def use_style():
    """Put the house style in force for this notebook."""
    plt.rcParams.update(STYLE)


def look(model):
    """The colour and marker of a model, as keyword arguments of `plot`."""
    return {"color": COLOURS[model], "marker": MARKERS[model]}


def spread(axis, x, values, model, label=None, shift=0.0):
    """Median and interquartile bar of each column, all seeds as faint dots behind.

    x: (column,); values: (column, seed)
    """
    x, values = np.asarray(x) + shift, np.asarray(values)
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=1)
    colour, marker = COLOURS[model], MARKERS[model]
    dots = np.repeat(x[:, None], values.shape[1], 1)
    axis.plot(dots, values, ".", ms=3, alpha=0.3, color=colour)
    bars = np.abs(np.stack([middle - low, high - middle]))
    axis.errorbar(
        x, middle, bars, fmt=marker, ms=6, color=colour, capsize=2, label=label or model
    )


def band(axis, x, values, model, label=None):
    """Median line with the interquartile band. x: (n,); values: (n, seed)."""
    low, middle, high = np.nanquantile(np.asarray(values), [0.25, 0.5, 0.75], axis=1)
    axis.fill_between(x, low, high, color=COLOURS[model], alpha=0.2, lw=0)
    axis.plot(x, middle, color=COLOURS[model], label=label or model)
