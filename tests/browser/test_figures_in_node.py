"""The interactive figures: what the page computes is what the model is."""

import json
import re
from pathlib import Path

import nbformat
import pytest
import torch

from sonode_utils import figures
from sonode_utils.data.systems import oscillators
from sonode_utils.ensemble import EnsembleMLP, pad_mask, streams
from sonode_utils.models import paper_model

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
FIGURES = sorted(p.stem for p in figures.JS.glob("*.js") if p.stem != "common")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_made_and_carries_its_description(name):
    made = figures.figure(name, {}, "what it shows")
    bundle = made._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == "what it shows"
    assert "export default { render };" in made._esm and "function axes" in made._esm


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_asks_anything_of_the_network(name):
    source = figures.sources(name)["_esm"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|fetch\(|import ", source)


def test_no_data_or_words_can_break_out_of_a_stored_figure():
    made = figures.figure("parity", {"a": "</script><b>"}, 'it says "<i>"').stored()
    assert made.count("</script>") == 1 and "<b>" not in made and "<i>" not in made
    data = re.search(r'json">(.*?)</script>', made)[1]
    assert json.loads(data) == {"a": "</script><b>"}


def test_numbers_reach_the_page_as_plain_lists_with_a_few_digits():
    values = {"x": torch.tensor([1 / 3, torch.inf]), 2: [1.23456789, None, True, 7]}
    made = figures.figure("parity", values, "").data
    assert made == {"x": [0.3333, 1e6], "2": [1.235, None, True, 7]}


def test_weights_come_without_their_padding():
    mask = pad_mask([1, 3], 3)
    f = EnsembleMLP(3, 3, streams("test", [0, 1]), in_mask=mask, out_mask=mask)
    first, _, last = figures.mlp_weights(f, 0, mask[0], mask[0])
    assert len(first["w"]) == 1 and len(last["w"][0]) == len(last["b"]) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_holds_the_data_of_its_figure_and_no_code(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    bundles = [output.get("data", {}) for cell in cells for output in cell.outputs]
    stored = [b for b in bundles if "sonode-data" in b.get("text/html", "")]
    assert stored, "no interactive figure"
    assert "widgets" not in notebook.metadata and "function axes" not in json.dumps(bundles)
    assert not any("widget-view" in mime for bundle in bundles for mime in bundle)


def test_the_playground_draws_the_true_motion_of_the_oscillator(javascript):
    theirs = javascript("playground", "exact([1.5, -0.5], 7, 0.1, 1)")
    truth = oscillators(torch.tensor([1.5, -0.5]), torch.tensor([0.0, 7.0]), 0.1, 1.0)[-1]
    assert torch.allclose(torch.tensor(theirs), truth, atol=1e-6)


def test_the_page_integrates_the_network_as_torch_does(javascript):
    model, x0 = paper_model("SONODE", 2, streams("test", [7])), [0.3, -0.8]
    f, g = (json.dumps(figures.mlp_weights(net, 0)) for net in (model.f, model.g))
    call = f"""(() => {{
        const f = mlp({f}, "elu"), g = mlp({g}, "tanh");
        const field = (t, z) => [...z.slice(2), ...f(z)];
        return flow(field, [...{x0}, ...g({x0})], 0, 1, 60)[60].slice(0, 2);
    }})()"""
    theirs = torch.tensor(javascript("parity", call)).double()
    ours = model.solve_tight(torch.tensor([[x0]]), torch.tensor([0.0, 1.0])).x[-1, 0, 0]
    assert torch.allclose(theirs, ours, atol=1e-6)
