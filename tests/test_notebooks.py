"""Every notebook: runs on the fast profile, refuses bad parameters, is stored as run."""

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

from sonode_utils import claims

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run(path, folder, **parameters):
    return papermill.execute_notebook(
        path, folder / path.name, parameters={"results_dir": str(folder), **parameters},
        kernel_name="python3", cwd=path.parent, progress_bar=False, execution_timeout=300,
    )  # fmt: skip


@each_notebook
def test_it_runs_on_the_fast_profile_and_judges_its_claims(path, tmp_path, monkeypatch):
    monkeypatch.setenv("SONODE_PROFILE", "fast")
    run(path, tmp_path)
    record = json.loads((tmp_path / f"{path.stem}.json").read_text())
    assert record["profile"] == "fast" and record["claims"]


@each_notebook
def test_a_wrong_parameter_stops_it_in_the_first_cells(path, tmp_path):
    with pytest.raises(
        PapermillExecutionError, match="seeds accepts a whole number"
    ) as stopped:
        run(path, tmp_path, seeds=0)
    assert stopped.value.exec_count <= 4


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
    (path,) = (p for p in NOTEBOOKS if p.stem == "02_parity")
    with pytest.raises(PapermillExecutionError, match=words):
        run(path, tmp_path, **wrong)


def test_nbval_leaves_out_verdicts_on_measured_data_where_there_is_none(tmp_path):
    nothing = {"SONODE_DATA_DIR": "", "SONODE_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path)}
    (path,) = (p for p in NOTEBOOKS if p.stem == "E2_third_order")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rs",
        "--nbval-lax",
        "-p",
        "no:xdist",
        str(path),
    ]
    done = subprocess.run(
        command, env={**os.environ, **nothing}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "cannot be had here" in done.stdout
    assert " passed" not in done.stdout and " failed" not in done.stdout


def code_cells(path):
    cells = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]


@each_notebook
def test_it_is_stored_as_run_without_errors_warnings_or_paths(path):
    cells = code_cells(path)
    assert all(cell.execution_count for cell in cells), "a cell was never run"
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error"]
    stored = json.dumps(outputs)
    assert not re.search(r"\bWarning\b|/home/|/root/|/tmp/|site-packages", stored)


@each_notebook
def test_its_cells_are_short_and_its_tags_in_place(path):
    lengths = [len(cell.source.splitlines()) for cell in code_cells(path)]
    assert statistics.median(lengths) <= 8 and max(lengths) <= 35
    assert max(len(line) for c in code_cells(path) for line in c.source.splitlines()) <= 88
    tags = [tag for cell in code_cells(path) for tag in cell.metadata.get("tags", [])]
    assert tags.count("parameters") == 1 and tags.count("nbval-check-output") == 1


@each_notebook
def test_its_stored_verdicts_are_those_of_its_record(path):
    record = json.loads((claims.RESULTS / f"{path.stem}.json").read_text())
    said = "".join(
        output.text
        for cell in code_cells(path)
        if "nbval-check-output" in cell.metadata.get("tags", [])
        for output in cell.outputs
    )
    expected = [
        f"{c['id']} {'fragile' if c['fragile'] else c['verdict']}" for c in record["claims"]
    ]
    assert said.split("\n")[:-1] == expected
    assert record["profile"] == "paper"
    assert record["seeds"] >= (3 if path.stem == "E4_mnist" else 10)


@each_notebook
def test_its_figures_have_captions_and_alt_text(path):
    for cell in code_cells(path):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            described = cell.metadata.get("mystnb", {})
            assert described.get("figure", {}).get("caption"), cell.source[:80]
            assert described.get("image", {}).get("alt"), cell.source[:80]
