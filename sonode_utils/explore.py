"""Interactive figures that live in the page: no kernel, no network.

Each figure is one JavaScript file beside this one, drawn as SVG from the data it is
given. In a notebook it is an ordinary widget; in the rendered book the same code and
data are stored in the page, so it reacts there too.
"""

from functools import cache
from pathlib import Path

import anywidget
import traitlets

JS = Path(__file__).with_name("js")


class Figure(anywidget.AnyWidget):
    """A drawing that depends on `data` alone. Keys and mouse are handled in the page."""

    data = traitlets.Dict().tag(sync=True)
    description = traitlets.Unicode().tag(sync=True)

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {
            **data,
            "text/plain": self.description,
        }  # no memory address in the output
        return (data, *rest) if rest else data


def sources(name):
    """The code and the style of a figure, as a widget (and a stored notebook) holds them."""
    code = "\n".join((JS / f).read_text("utf8") for f in ("common.js", f"{name}.js"))
    return {"_esm": code, "_css": (JS / "common.css").read_text("utf8")}


@cache
def _figure_class(name):
    return type(name, (Figure,), sources(name))


def figure(name, data, description):
    """The figure drawn by js/<name>.js from `data` (JSON: numbers, strings, lists, dicts).

    description: what it shows, in a sentence, for readers who cannot see it.
    """
    return _figure_class(name)(data=data, description=description)


def mlp_weights(mlp, member, inputs=slice(None), outputs=slice(None), digits=4):
    """One member's layers as nested lists, for a network integrated in the page.

    inputs, outputs: which features to keep, where the member is padded.
    """
    layers = [layer for layer in mlp.layers if hasattr(layer, "weight")]
    pairs = [(layer.weight[member], layer.bias[member, 0]) for layer in layers]
    pairs[0] = (pairs[0][0][inputs], pairs[0][1])
    pairs[-1] = (pairs[-1][0][:, outputs], pairs[-1][1][outputs])
    return [{"w": _rounded(w, digits), "b": _rounded(b, digits)} for w, b in pairs]


def _rounded(tensor, digits):
    return tensor.detach().double().round(decimals=digits).tolist()
