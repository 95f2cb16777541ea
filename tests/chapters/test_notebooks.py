"""Every notebook: runs, and runs again; refuses bad parameters; is stored as run."""

import ast
import base64
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from sonode_utils.evidence.compare import compare
from sonode_utils.evidence.parameters import LIMITS
from sonode_utils.evidence.report import CATALOGUE

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import plumbing  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PARITY = ROOT / "notebooks/02_parity.ipynb"
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run(path, folder, **parameters):
    return papermill.execute_notebook(
        path, folder / path.name, parameters={"results_dir": str(folder), **parameters},
        kernel_name="python3", cwd=path.parent, progress_bar=False, execution_timeout=300,
    )  # fmt: skip


@each_notebook
def test_all_of_it_runs_twice_in_one_kernel_and_with_other_seeds(path, smoke_runs):
    runs = smoke_runs(path)
    assert len(runs) == 3
    for run in runs:
        assert run["record"]["profile"] == "smoke"
        assert run["record"]["claims"] or path.stem == "00_models"
        assert run["record"]["seeds"] == run["seeds"]


@each_notebook
def test_a_wrong_parameter_stops_it_in_the_first_cells(path, tmp_path):
    with pytest.raises(PapermillExecutionError, match="seeds accepts a whole number") as error:
        run(path, tmp_path, seeds=0)
    assert error.value.exec_count <= 6  # before any computing


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"seeds": "ten"}, "seeds accepts a whole number, 1 or more"),
        ({"sedes": 3}, "unknown parameter sedes: did you mean seeds"),
        ({"iterations": -5}, "iterations accepts a whole number, 1 or more"),
        ({"closer_look": "RNN"}, "closer_look accepts one of 'NODE', 'ANODE', 'SONODE'"),
        ({"largest_dimension": 11}, "largest_dimension accepts .* 10 at most"),
    ],
    ids=["ten in words", "misspelt", "negative", "unknown model", "too large"],
)
def test_every_kind_of_wrong_parameter_is_named(wrong, words, tmp_path):
    with pytest.raises(PapermillExecutionError, match=words):
        run(PARITY, tmp_path, **wrong)


@each_notebook
def test_papermill_lists_every_parameter_with_the_papers_value_and_a_comment(path):
    listed = papermill.inspect_notebook(path)
    rules = LIMITS[path.stem]
    values = {name: ast.literal_eval(found["default"]) for name, found in listed.items()}
    assert values == {name: rule["paper"] for name, rule in rules.items()}
    assert all(found["help"] for found in listed.values()), "a parameter without a comment"


def test_every_table_of_parameters_belongs_to_a_notebook():
    assert list(LIMITS) == [path.stem for path in NOTEBOOKS]


def test_nbval_leaves_out_verdicts_on_measured_data_where_there_is_none(tmp_path):
    nothing = {"SONODE_DATA_DIR": "", "SONODE_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path)}
    path = str(ROOT / "notebooks/E2_third_order.ipynb")
    command = [sys.executable, "-m", "pytest", "-rs", "--nbval-lax", "-p", "no:xdist", path]
    done = subprocess.run(
        command, env={**os.environ, **nothing}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "cannot be had here" in done.stdout
    assert " passed" not in done.stdout and " failed" not in done.stdout


def code_cells(path):
    cells = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]


def tags(cell):
    return set(cell.metadata.get("tags", []))


@each_notebook
def test_it_is_stored_as_run_without_errors_warnings_or_paths(path):
    cells = code_cells(path)
    assert all(cell.execution_count for cell in cells), "a cell was never run"
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error"]
    stored = json.dumps(outputs)
    assert not re.search(r"\bWarning\b|/home/|/root/|/tmp/|site-packages", stored)


@each_notebook
def test_its_cells_are_few_and_short_and_its_tags_in_place(path):
    cells = code_cells(path)
    run = [cell for cell in cells if "live" not in tags(cell)]
    assert statistics.median(len(cell.source.splitlines()) for cell in run) <= 8
    assert max(len(cell.source.splitlines()) for cell in cells) <= 35
    assert len([c for c in cells if not only_says(c.source)]) <= 45
    assert max(len(line) for cell in cells for line in cell.source.splitlines()) <= 88
    every = [tag for cell in cells for tag in tags(cell)]
    assert every.count("parameters") == 1 and every.count("nbval-check-output") == 1
    assert run[-1].source == "run.close()" and "nbval-check-output" in tags(run[-1])


def only_says(source):
    """Whether a cell is a single call of `say`."""
    (*_, last) = body = ast.parse(source).body
    call = getattr(last, "value", None)
    return len(body) == 1 and getattr(getattr(call, "func", None), "id", "") == "say"


@each_notebook
def test_plumbing_is_at_most_12_percent_of_its_code(path):
    found, lines, _ = plumbing.share(path)
    assert found <= 0.12 * lines


def test_plumbing_is_told_by_what_a_cell_calls():
    cells = [
        "import torch",
        "model = build()",
        "loss = run.record('loss', score(model))",
        "parts = {'a': share(loss, '<', 1)}",
        "run.judge('P1', parts, ours='')",
        "run.record('other', loss)",
        "rows = [(1, loss)]",
        "table(('a', 'b'), rows)",
        "print(model)",
    ]
    yes = [True, False, False, True, True, True, False, True, False]
    assert plumbing.plumbing(cells) == yes


@each_notebook
def test_the_numbers_in_its_prose_are_said_by_the_run(path):
    cells = nbformat.read(path, as_version=4).cells
    assert not [c for c in cells if "{glue" in c.source or "glue(" in c.source]
    said = [c for c in cells if c.source.rstrip().endswith('""")') and "say(" in c.source]
    assert said, "nothing is said"
    for cell in said:
        texts = [o.data["text/markdown"] for o in cell.outputs if "text/markdown" in o.data]
        assert texts and not re.search(r"\bnan\b|\{\w+\}`", " ".join(texts)), cell.source[:80]


NAMES = re.compile(  # digits in these are part of a name
    r"\b(?:Figs?|Eqs?|Props?|Cor|App|Sec)\. ?[A-E\d]+(?: ?(?:,|and|to) ?\d+)*"
    r"|\b(?:Figures?|Equations?|Sections?|Table|[Cc]hapter|exercise) [A-E]?\d+\w?"
    r"|\b[A-Z]\d+\b|NODE\(\d\)|F-16|RK45?|95 %"
)
NUMBER = re.compile(r"10\^\{?(-?\d+)|(?<![\w.])(\d+(?:\.\d+)?(?:e[-+]?\d+)?|\.\d+)")


def numbers(text):
    found = NUMBER.findall(text)
    return {10.0 ** int(power) if power else float(plain) for power, plain in found}


def typed_numbers(sources, rules):
    """Numbers typed into said sentences that are no constant of the code and of no rule."""
    known, said = {0.0, 1.0, 2.0, 100.0} | numbers(rules), []
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
            pieces = getattr(node.args[0], "values", [node.args[0]])
            said += [str(p.value) if isinstance(p, ast.Constant) else "_" for p in pieces]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            known.add(float(node.value))
    known |= {x * 100 for x in known} | {x / 100 for x in known} | {1 - x for x in known}
    typed = numbers(NAMES.sub("", " ".join(said)))
    return {x for x in typed if not any(abs(x - k) <= 1e-9 * abs(k) for k in known)}


@each_notebook
def test_no_result_is_typed_into_a_said_sentence(path):
    record = json.loads((ROOT / f"book/results/{path.stem}.json").read_text())
    rules = " ".join(CATALOGUE[claim["id"]]["rule"] for claim in record["claims"])
    assert not typed_numbers([cell.source for cell in code_cells(path)], rules)


def test_a_typed_result_is_told_from_a_limit_and_from_a_name():
    code = ["limit = 0.05", "say(f'Fig. 7: P4 lies within 5 % in {n} of 50, at $10^{{-3}}$')"]
    assert typed_numbers(code, "share(x < 1e-3)") == {50.0}


LIVE = ["02_parity", "03_nested_spheres", "04_second_order_anodes"]
LIVE += ["06_interpretability", "07_oscillators_and_noise", "E1_van_der_pol"]


@pytest.mark.parametrize("name", LIVE)
def test_its_live_cells_need_no_other_cell_and_cancel_and_train(name):
    known = {}
    for cell in code_cells(ROOT / f"notebooks/{name}.ipynb"):
        if "live" in tags(cell):
            assert not cell.outputs, "a stored notebook keeps no widget"
            exec(cell.source, known)
    small = {"iterations": 3, "seeds": 3, "points": 20}
    values = {k: w.value for k, w in known["CONTROLS"].items()}
    values |= {k: v for k, v in small.items() if k in values}
    live = known["live"]
    with pytest.raises(ZeroDivisionError):
        live.train(lambda *_: 1 / 0, **values)  # the callback can stop it
    assert live.drawn(live.train(lambda *_: None, **values)).startswith(b"\x89PNG")


@each_notebook
def test_what_the_page_folds_is_folded_in_jupyterlab(path):
    for cell in code_cells(path):
        folded = bool(tags(cell) & {"hide-input", "remove-input", "hide-cell", "remove-cell"})
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        assert folded == hidden, cell.source[:80]


@each_notebook
def test_its_stored_lines_are_those_of_its_record(path):
    record = json.loads((ROOT / f"book/results/{path.stem}.json").read_text())
    last = [cell for cell in code_cells(path) if "live" not in tags(cell)][-1]
    said = "".join(output.text for output in last.outputs)
    expected = [compare(claim["id"], record, record) for claim in record["claims"]]
    assert said.split("\n")[:-1] == (expected or ["no claim is judged here"])
    assert record["profile"] == "paper"
    assert record["seeds"] >= (3 if path.stem == "E4_mnist" else 10)


def test_the_notebooks_stay_small_and_their_pictures_sharp():
    """Twice the pixels of the page's column, which is 824 wide."""
    assert sum(path.stat().st_size for path in NOTEBOOKS) < 12e6
    cells = [cell for path in NOTEBOOKS for cell in code_cells(path)]
    pictures = [
        o.data["image/png"]
        for c in cells
        for o in c.outputs
        if "image/png" in o.get("data", {})
    ]
    widths = [int.from_bytes(base64.b64decode(png[:32])[16:20], "big") for png in pictures]
    assert len(widths) > 50 and min(widths) >= 2 * 824


@each_notebook
def test_its_figures_have_captions_and_alt_text(path):
    for cell in code_cells(path):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            described = cell.metadata.get("mystnb", {})
            assert described.get("figure", {}).get("caption"), cell.source[:80]
            assert described.get("image", {}).get("alt"), cell.source[:80]
