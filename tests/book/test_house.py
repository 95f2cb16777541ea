"""The package stays thin, in its rooms, and its arrows point one way."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sonode_utils"
ROOMS = {"evidence": 1112, "solvers": 1290, "data": 412, "chapters": 1250}
CORE = 806


def lines(folder):
    return {p.name: len(p.read_text("utf8").splitlines()) for p in folder.glob("*.py")}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_to_its_lines(room):
    assert sum(lines(PACKAGE / room).values()) <= ROOMS[room]


def test_the_core_and_the_whole_keep_to_their_lines():
    core, rooms = sum(lines(PACKAGE).values()), {r: lines(PACKAGE / r) for r in ROOMS}
    assert core <= CORE and core + sum(rooms["evidence"].values()) <= 1917
    assert core + sum(sum(room.values()) for room in rooms.values()) <= 4862


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_no_file_is_longer_than_one_sitting(room):
    assert max(lines(PACKAGE / room).values()) <= 250


def test_a_newcomer_sees_five_files_and_four_rooms():
    seen = {p.name for p in PACKAGE.iterdir() if not p.name.startswith("__pycache__")}
    files = {"ensemble.py", "models.py", "solve.py", "train.py", "figures.py"}
    assert seen == {"__init__.py", "js", *files, *ROOMS}


def imports(path):
    """The modules of the package that a file imports, from inside functions too."""
    for node in ast.walk(ast.parse(path.read_text("utf8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sonode_utils"):
            parts = node.module.split(".")[1:]
            yield from [parts] if parts else [[alias.name] for alias in node.names]
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("sonode_utils") for alias in node.names)


# What each room may import of the package beside itself.
MAY = {
    "": {"ensemble", "models", "solve", "train", "solvers"},
    "solvers": set(),
    "evidence": set(),
    "data": {"ensemble"},
    "chapters": {"ensemble", "models", "solve", "train", "solvers", "data"},
}


@pytest.mark.parametrize("room", MAY)
def test_arrows_point_one_way(room):
    for path in (PACKAGE / room).glob("*.py"):
        seen = {parts[0] for parts in imports(path)} - {room}
        assert seen <= MAY[room], f"{path.name} imports {seen - MAY[room]}"


def public(path):
    for node in ast.parse(path.read_text("utf8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def test_no_two_public_things_share_a_name():
    files = list(PACKAGE.rglob("*.py"))
    found = Counter(node.name for path in files for node in public(path))
    shared = {name for name, n in found.items() if n > 1}
    assert not shared, shared


def test_every_public_function_says_what_it_gives():
    """A docstring and a type for what it returns."""
    for path in PACKAGE.rglob("*.py"):
        for node in public(path):
            assert ast.get_docstring(node), f"{path.name}: {node.name} has no docstring"
            typed = isinstance(node, ast.ClassDef) or node.returns is not None
            assert typed, f"{path.name}: {node.name} does not say what it returns"


WITHOUT = """
import sys
for name in {hidden}:
    sys.modules[name] = None
import torch
from sonode_utils import fit, mse, paper_model, streams
from sonode_utils.evidence import order
model, times = paper_model("SONODE", 1, streams("test", range(2))), torch.linspace(0, 1, 5)
x0, data = torch.ones(2, 1, 1), torch.cos(times).view(5, 1, 1, 1)
print(fit(model, lambda solve: mse(solve(x0, times).x, data), iterations=2).loss.shape)
"""
# Not on every operating system, or not needed by the core.
HIDDEN = "fcntl matplotlib anywidget IPython pooch sympy filelock jinja2 myst_nb ipywidgets"


def test_the_core_trains_without_fcntl_and_without_any_extra(tmp_path):
    script = WITHOUT.format(hidden=HIDDEN.split())
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "torch.Size([2, 2])\n", done.stderr
