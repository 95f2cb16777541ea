"""The forest plot: every effect with its 95 % interval on one of two axes, as plain numbers.

The template forest.html draws them. Ratios lie on a logarithmic axis from 1/100 to 100, on
which a claim's "A is below B" points to the left; shares of seeds lie on an axis from 0 to 1.
"""

import math

# Widths of labels, ratios, a gap, shares and words; a phone has no room for words. The sum is
# about the width of the page's column: so the text is hardly smaller than the page's.
WIDE, NARROW = (316, 250, 34, 124, 160), (34, 176, 34, 76, 16)
REACH = 2  # powers of ten on each side of 1
STEP = 14  # height of a row
TICKS = [(f"{10.0**k:g}", k) for k in range(-REACH, REACH + 1)]


class Axes:
    """Where log10 ratios and shares lie; what is beyond an axis lies at its end."""

    def __init__(self, widths):
        left, ratios, gap, shares, words = widths
        self.left, self.ratios, self.start, self.shares = (
            left,
            ratios,
            left + ratios + gap,
            shares,
        )
        self.width = self.start + shares + words

    def ratio(self, log10):
        inside = min(max(log10, -REACH), REACH)
        return round(self.left + self.ratios * (inside + REACH) / (2 * REACH), 1)

    def share(self, share):
        return round(self.start + self.shares * share, 1)


def marks(judged, axes):
    """The intervals of a claim: pooled where there are such, and the parts that are not."""
    pooled = judged["pooled"]
    found = [mark(axes.ratio, *e, "pooled", pair) for pair, e in pooled.items()]
    for name, part in judged["parts"].items():
        if part["rule"] in ("order", "share") and part["pair"] not in pooled:
            place = axes.ratio if part["rule"] == "order" else axes.share
            ends = part["effect"], part["low"], part["high"]
            found.append(mark(place, *ends, part["word"], name, part["by"]))
    return found


def mark(place, effect, low, high, kind, label, by=1):
    ends = (place(x) for x in (low, effect, high))
    low_x, x, high_x = (p if not math.isnan(p) else place(0) for p in ends)
    bar = place(-math.log10(by)) if by != 1 else None
    return {"x": x, "low": low_x, "high": high_x, "kind": kind, "label": label, "bar": bar}


def forest(rows, ids=None, widths=WIDE):
    """The rows that have an interval, in turn, with the heights at which they stand."""
    shown = [row for row in rows if "parts" in row and (not ids or row["id"] in ids)]
    axes, lines, exact, y = Axes(widths), [], [], STEP
    for row in shown:
        own = marks(row, axes)
        if not own:
            exact.append(row)
            continue
        height = STEP * max(1, math.ceil(len(own) / 4))
        for k, one in enumerate(own):
            one["y"] = round(y + height * (k + 1) / (len(own) + 1), 1)
        lines.append({"row": row, "y": y, "height": height, "marks": own})
        y += height
    return {
        "lines": lines, "exact": exact, "bottom": y,
        "width": axes.width, "height": y + 2 * STEP,
        "ticks": [(text, axes.ratio(k)) for text, k in TICKS], "one": axes.ratio(0),
        "shares": [(f"{s:.0%}", axes.share(s)) for s in (0, 0.5, 1)], "nine": axes.share(0.9),
        "ends": (axes.ratio(-REACH), axes.share(1)),
    }  # fmt: skip
