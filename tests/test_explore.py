"""The interactive figures: what the page computes is what the model is."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch

from sonode_utils import explore
from sonode_utils.ensemble import EnsembleMLP, generators, pad_mask
from sonode_utils.models import SONODE
from sonode_utils.systems import oscillators

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import refresh_figures  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
FIGURES = sorted(p.stem for p in explore.JS.glob("*.js") if p.stem != "common")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_made_and_carries_its_description(name):
    made = explore.figure(name, {}, "what it shows")
    bundle = made._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == "what it shows"
    assert "export default" in made._esm and "function axes" in made._esm


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_asks_anything_of_the_network(name):
    source = (explore.JS / f"{name}.js").read_text() + (explore.JS / "common.js").read_text()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|fetch\(|import ", source)


def test_weights_come_without_their_padding():
    mask = pad_mask([1, 3], 3)
    f = EnsembleMLP(3, 3, generators([0, 1]), in_mask=mask, out_mask=mask)
    first, _, last = explore.mlp_weights(f, 0, mask[0], mask[0])
    assert len(first["w"]) == 1 and len(last["w"][0]) == len(last["b"]) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_holds_the_current_code_of_its_figures(path):
    """Fails when sonode_utils/js changes: make stills puts the new code into the pages."""
    stored = list(refresh_figures.figures(nbformat.read(path, as_version=4)))
    assert stored, "no interactive figure"
    for name, state in stored:
        assert {key: state[key] for key in ("_esm", "_css")} == explore.sources(name)


def test_refreshing_changes_the_code_and_keeps_the_data(tmp_path):
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    ((_, state),) = refresh_figures.figures(notebook)
    before, state["_esm"] = state["data"], "an older copy"
    nbformat.write(notebook, tmp_path / "x.ipynb")
    assert refresh_figures.refresh(tmp_path / "x.ipynb")
    ((name, after),) = refresh_figures.figures(nbformat.read(tmp_path / "x.ipynb", 4))
    assert after["data"] == before and after["_esm"] == explore.sources(name)["_esm"]
    assert not refresh_figures.refresh(tmp_path / "x.ipynb")


@needs_node
def test_the_playground_draws_the_true_motion_of_the_oscillator():
    source = (explore.JS / "playground.js").read_text().replace("export default", "")
    script = source + "console.log(JSON.stringify(exact([1.5, -0.5], 7, 0.1, 1)))"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    truth = oscillators(torch.tensor([1.5, -0.5]), torch.tensor([0.0, 7.0]), 0.1, 1.0)[-1]
    assert torch.allclose(torch.tensor(json.loads(done.stdout)), truth, atol=1e-6)


@needs_node
def test_the_page_integrates_the_network_as_torch_does():
    rng = generators([7])
    model = SONODE(EnsembleMLP(4, 2, rng), EnsembleMLP(2, 2, rng, activation="tanh"))
    x0 = [0.3, -0.8]
    script = (
        (explore.JS / "common.js").read_text()
        + f"""
    const f = mlp({json.dumps(explore.mlp_weights(model.f, 0, digits=8))}, "elu");
    const g = mlp({json.dumps(explore.mlp_weights(model.g, 0, digits=8))}, "tanh");
    const field = (t, z) => [...z.slice(2), ...f(z)];
    const path = flow(field, [...{x0}, ...g({x0})], 0, 1, 60);
    console.log(JSON.stringify(path[60].slice(0, 2)));
    """
    )
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    theirs = model.tight(torch.tensor([[x0]]), torch.tensor([0.0, 1.0])).x[-1, 0, 0]
    assert torch.allclose(torch.tensor(json.loads(done.stdout)).double(), theirs, atol=1e-6)
