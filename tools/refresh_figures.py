"""Put the current JavaScript of the interactive figures into the stored notebooks.

A stored notebook keeps a copy of each figure's code beside its data, so that the page
needs no kernel. A change to sonode_utils/js reaches those copies by this script; the
data, and everything else that a run computed, stay as they are.
"""

from pathlib import Path

import nbformat

from sonode_utils.explore import JS, sources

ROOT = Path(__file__).parents[1]
STATE = "application/vnd.jupyter.widget-state+json"


def figures(notebook):
    """(name, state) of every stored figure of ours."""
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for model in models.values():
        name = model.state.get("_anywidget_id", "").split(".")[-1]
        if (JS / f"{name}.js").exists():
            yield name, model.state


def refresh(path):
    """True if the notebook held an older copy, and has the current one now."""
    notebook = nbformat.read(path, as_version=4)
    stale = False
    for name, state in figures(notebook):
        stale |= any(state[key] != text for key, text in sources(name).items())
        state.update(sources(name))
    if stale:
        nbformat.write(notebook, path)
    return stale


if __name__ == "__main__":
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if refresh(path):
            print(f"{path.name}: figures refreshed")
