"""The house style: what is drawn is the median, its quartiles and every seed."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sonode_utils import figures

VALUES = np.array([[1.0, 2.0, 3.0, 4.0, 100.0], [0.0, 0.0, 1.0, 8.0, 9.0]])


@pytest.fixture
def axis():
    with matplotlib.rc_context():
        figures.use_style()
        yield plt.figure().add_subplot()
        plt.close("all")


def test_spread_draws_medians_quartiles_and_all_seeds(axis):
    figures.median_and_seeds(axis, [1, 2], VALUES, "SONODE", shift=0.5)
    (bars,) = axis.containers
    assert bars.get_label() == "SONODE" and bars[0].get_color() == figures.COLOURS["SONODE"]
    np.testing.assert_allclose(bars[0].get_xydata(), [[1.5, 3], [2.5, 1]])
    ends = [segment[:, 1].tolist() for segment in bars[2][0].get_segments()]
    assert ends == [[2, 4], [0, 8]]
    dots = np.concatenate([line.get_ydata() for line in axis.lines[:5]])
    assert sorted(dots) == sorted(VALUES.ravel())


def test_band_draws_the_median_and_leaves_out_seeds_that_are_gone(axis):
    gone = np.concatenate([VALUES, [[np.nan]] * 2], 1)
    figures.band(axis, [0, 1], gone, "NODE", label="ours")
    (line,) = axis.lines
    assert line.get_ydata().tolist() == [3, 1] and line.get_label() == "ours"
    edges = axis.collections[0].get_paths()[0].vertices
    assert edges[:, 1].min() == 0 and edges[:, 1].max() == 8


def luminance(colour):
    channel = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("ground", ["#ffffff", "#121212"])
def test_text_can_be_read_on_white_and_inverted_in_the_dark(ground):
    ink = np.array(matplotlib.colors.to_rgb(figures.INK))
    ink = ink if ground == "#ffffff" else 1 - ink  # what assets/book.css does with a picture
    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_what_is_not_a_model_has_no_models_colour():
    taken = [matplotlib.colors.to_rgb(colour) for colour in figures.COLOURS.values()]
    for colour in map(matplotlib.colors.to_rgb, (*figures.OTHERS, figures.INK)):
        assert min(np.abs(np.subtract(colour, other)).max() for other in taken) > 0.15


def test_every_model_has_a_colour_and_a_marker_of_its_own():
    looks = [tuple(figures.look(model).values()) for model in figures.COLOURS]
    assert len({c for c, _ in looks}) == len({m for _, m in looks}) == len(looks)
