"""make reproduce: in place, whole or not at all, here or on a cluster."""

import base64
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import confirm
import execute
import run_notebook

CONFIRMED = Path(__file__).parents[2] / "book/results/confirm"
SAVE = """
import json, os, pathlib
record = {{"profile": "{profile}", "cpu_seconds": 1, "seeds": seeds}}
pathlib.Path(os.environ["SONODE_RESULTS_DIR"], "{name}.json").write_text(json.dumps(record))
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty checkout."""
    monkeypatch.setattr(execute, "ROOT", tmp_path)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def run(name, seeds):
    return execute.execute(execute.task(name, seeds), execute.put)


def store(book, *sources, name="x"):
    cells = [new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), book / f"notebooks/{name}.ipynb")


def cells(book, name="x"):
    return nbformat.read(book / f"notebooks/{name}.ipynb", as_version=4).cells


def outputs(book, name="x"):
    return [[o.get("text") for o in cell.outputs] for cell in cells(book, name)]


def files(book):
    return sorted(p.name for p in book.rglob("*") if p.is_file() and "locks" not in p.parts)


def test_a_notebook_is_executed_in_place(book):
    store(book, "seeds = 10", "print(seeds + 1)")
    assert run("x", None) == 0
    assert outputs(book) == [[], ["11\n"]]


def test_two_notebooks_run_at_once_and_one_that_fails_is_named(book, capfd):
    meet = """
import pathlib, time
pathlib.Path({mine!r}).touch()
end = time.time() + 60
while not pathlib.Path({other!r}).exists():
    assert time.time() < end
    time.sleep(0.01)
"""
    paths = {name: str(book / f"{name}-is-here") for name in "ab"}
    store(book, "1", meet.format(mine=paths["a"], other=paths["b"]), "print('met')", name="a")
    store(book, "1", meet.format(mine=paths["b"], other=paths["a"]), "1 / 0", name="b")
    assert execute.main([]) == 1
    assert outputs(book, "a")[-1] == ["met\n"]
    said = capfd.readouterr()
    assert "failed, and left as they were: b" in said.out
    assert "ZeroDivisionError" in said.err


def test_other_seeds_change_the_run_and_not_the_source(book):
    store(book, "seeds = 10", "print(seeds + 1)")
    run("x", 20)
    assert outputs(book) == [[], ["21\n"]]
    assert cells(book)[0].source == "seeds = 10"


def test_its_record_is_put_in_place_with_it(book):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    run("x", None)
    assert json.loads((book / "book/results/x.json").read_text())["seeds"] == 10


def test_a_record_of_other_settings_is_not(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="custom", name="x"))
    run("x", 2)
    assert files(book) == ["x.ipynb"]
    assert "not the paper's settings" in capsys.readouterr().out


def test_a_failing_notebook_is_left_as_it_was(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"), "1 / 0")
    before = (book / "notebooks/x.ipynb").read_bytes()
    assert run("x", None) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert (book / "notebooks/x.ipynb").read_bytes() == before
    assert files(book) == ["x.ipynb"]


def test_a_kernel_that_dies_fails_its_notebook_alone(book, capsys):
    store(book, "seeds = 10", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run("x", None) == 1
    assert "x: Kernel died" in capsys.readouterr().err


def test_a_kernel_that_dies_before_its_first_cell_is_started_again(book, monkeypatch):
    store(book, "seeds = 10", "print(seeds)")
    right, died = run_notebook.NotebookClient.execute, []

    def execute_at_the_second_try(client, **options):
        if not died:
            died.append(1)
            raise RuntimeError("Kernel died before replying to kernel_info")
        return right(client, **options)

    monkeypatch.setattr(run_notebook.NotebookClient, "execute", execute_at_the_second_try)
    assert run("x", None) == 0
    assert outputs(book) == [[], ["10\n"]] and died


def test_a_full_disk_leaves_notebook_and_record_as_they_were(book, monkeypatch, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    run("x", None)
    before = {p: p.read_bytes() for p in book.rglob("*") if p.is_file()}
    write = Path.write_text

    def full(path, text, *rest):
        if "ipynb" in path.name:
            write(path, text[:100], *rest)
            raise OSError(28, "No space left on device")
        return write(path, text, *rest)

    monkeypatch.setattr(Path, "write_text", full)
    assert run("x", None) == 1
    assert "No space left on device; make room and run it again" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in book.rglob("*") if p.is_file()} == before


def test_the_same_notebook_twice_at_once_is_refused(book, capsys):
    store(book, "seeds = 10")
    with execute.one_at_a_time("x"):
        assert run("x", None) == 1
    assert "x is being executed by another process" in capsys.readouterr().err
    assert run("x", None) == 0


KILLED = """
import os, signal, sys
sys.path.insert(0, {tools!r})
import execute
from pathlib import Path
execute.ROOT = Path({book!r})
replace, calls = os.replace, []
def killed(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
execute.main(["x"])
"""


def test_a_kill_while_writing_leaves_the_old_files_and_the_next_run_is_clean(book):
    store(book, "seeds = 10", "print(1)")
    before = (book / "notebooks/x.ipynb").read_bytes()
    script = KILLED.format(tools=str(Path(execute.__file__).parent), book=str(book))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (book / "notebooks/x.ipynb").read_bytes() == before
    assert run("x", None) == 0
    assert outputs(book) == [[], ["1\n"]] and files(book) == ["x.ipynb"]


def test_a_notebook_reads_the_stored_rows_of_the_book_wherever_it_runs(book):
    (book / "book/results/mnist").mkdir(parents=True)
    (book / "book/results/mnist/a.json").write_text("[1]")
    find = "from sonode_utils.evidence import records_folder"
    store(book, find, "print((records_folder() / 'mnist/a.json').read_text())")
    run("x", None)
    assert outputs(book)[1] == ["[1]\n"]


def test_a_picture_is_stored_small_and_looks_the_same(book):
    draw = "import matplotlib.pyplot as plt\nimport numpy as np\n"
    draw += (
        "plt.figure(figsize=(8, 4), dpi=200)\nplt.plot(np.sin(np.arange(300) / 20))\nplt.show()"
    )
    store(book, "seeds = 10", draw)
    notebook = cells(book)
    client = run_notebook.NotebookClient(nbformat.v4.new_notebook(cells=notebook))
    client.execute()
    assert run("x", None) == 0
    first, small = (c[1].outputs[0].data["image/png"] for c in (notebook, cells(book)))
    assert len(small) < 0.5 * len(first)
    before, after = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA"), float)
        for png in (first, small)
    )
    assert before.shape == after.shape and np.abs(before - after).mean() < 1


def test_a_live_widget_is_stored_as_its_data_and_not_as_code(book):
    show = "from sonode_utils import figures\nfigures.figure('parity', {'a': 1}, 'words')"
    store(book, "seeds = 10", show)
    run("x", None)
    (output,) = cells(book)[1].outputs
    assert (
        set(output.data) == {"text/html", "text/plain"}
        and '{"a":1}' in output.data["text/html"]
    )
    assert "widgets" not in nbformat.read(book / "notebooks/x.ipynb", 4).metadata


def test_progress_bars_are_not_stored_and_warnings_are(book):
    bar = "from tqdm import tqdm\nfor _ in tqdm(range(3)): pass"
    store(book, bar, "import warnings\nwarnings.warn('look here')")
    run("x", None)
    first, second = outputs(book)
    assert first == [] and "look here" in second[0]


def test_an_unknown_notebook_is_named_with_those_there_are(book):
    store(book, "seeds = 10")
    with pytest.raises(SystemExit, match="no notebook 'y'; there are x"):
        execute.find("y")


# A cluster of two workers on this machine.


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="needs the extra: cluster")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


SLOW = """
import os, pathlib, time
log = pathlib.Path({log!r}, "{name}." + str(os.getppid()))
log.touch()
deadline = time.time() + 60
while not pathlib.Path({log!r}, "go").exists() and time.time() < deadline:
    time.sleep(0.05)
print("{name}")
"""


def test_a_worker_killed_half_way_loses_only_its_own_notebook_which_is_run_again(
    book, cluster, tmp_path_factory
):
    log = tmp_path_factory.mktemp("log")
    for name in "abc":
        slow = SLOW.format(log=str(log), name=name)
        store(book, "seeds = 1", slow, SAVE.format(profile="paper", name=name), name=name)
    command = [sys.executable, "-c", ON_CLUSTER.format(
        tools=str(Path(execute.__file__).parent), book=str(book),
        address=cluster.scheduler_address,
    )]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        _until(lambda: len(list(log.iterdir())) == 2)
        victim = next(log.iterdir())
        os.kill(int(victim.suffix[1:]), signal.SIGKILL)
        (log / "go").touch()
        printed = run.communicate(timeout=120)[0].decode()
    assert run.returncode == 0, printed
    for name in "abc":
        assert outputs(book, name)[1] == [f"{name}\n"]
        assert (book / f"book/results/{name}.json").exists()
    starts = [p.stem for p in log.iterdir() if p.name != "go"]
    assert sorted(starts) == sorted(["a", "b", "c", victim.stem])


ON_CLUSTER = """
import sys
sys.path.insert(0, {tools!r})
import execute
from pathlib import Path
execute.ROOT = Path({book!r})
sys.exit(execute.main(["--scheduler", {address!r}]))
"""


def _until(true, seconds=60):
    deadline = time.time() + seconds
    while not true():
        assert time.time() < deadline, "waited in vain"
        time.sleep(0.05)


def test_a_notebook_that_fails_on_the_cluster_is_named_and_the_others_are_kept(
    book, cluster, capsys
):
    store(book, "seeds = 1", "1 / 0", name="bad")
    store(book, "seeds = 1", "print(seeds)", name="good")
    assert execute.main(["--scheduler", cluster.scheduler_address, "--seeds", "3"]) == 1
    assert outputs(book, "good") == [[], ["3\n"]] and outputs(book, "bad") == [[], []]
    said = capsys.readouterr()
    assert "ZeroDivisionError" in said.err and "left as they were: bad" in said.out


def test_a_scheduler_that_does_not_answer_is_named(book, monkeypatch):
    monkeypatch.setattr(execute, "PATIENCE", 1)
    store(book, "seeds = 1")
    with pytest.raises(SystemExit, match="no Dask scheduler answers at tcp:"):
        execute.main(["--scheduler", "tcp://127.0.0.1:9"])


def test_a_worker_with_other_versions_is_refused():
    other = {**run_notebook.fingerprint(), "torch": "1.0"}
    with pytest.raises(execute.Busy, match=r"worker w has torch 1\.0, not .*: update it"):
        execute.refuse_strangers({"w": other})


def test_a_cluster_of_strangers_is_left_alone(book, cluster, monkeypatch):
    def refuse(workers):
        assert all("torch" in versions for versions in workers.values())
        raise execute.Busy("strangers")

    monkeypatch.setattr(execute, "refuse_strangers", refuse)
    store(book, "seeds = 1", "print(seeds)")
    with pytest.raises(SystemExit, match="strangers; nothing was changed"):
        execute.main(["--scheduler", cluster.scheduler_address])
    assert outputs(book) == [[], []]


def test_a_notebook_that_runs_here_is_not_sent_to_a_cluster_as_well(book, cluster):
    store(book, "seeds = 1", "print(seeds)")
    with execute.one_at_a_time("x"), pytest.raises(SystemExit, match="by another process"):
        execute.main(["--scheduler", cluster.scheduler_address])
    assert outputs(book) == [[], []]


def test_a_scheduler_without_workers_is_refused():
    with pytest.raises(execute.Busy, match="no workers"):
        execute.refuse_strangers({})


# make confirm


CONFIRMS = """
import json, os, pathlib
profile = "confirm" if (first_seed, seeds) == (20_000, 50) else "custom"
record = {"notebook": "x", "profile": profile, "data": "synthetic", "first": first_seed}
pathlib.Path(os.environ["SONODE_RESULTS_DIR"], "x.json").write_text(json.dumps(record))
"""


@pytest.fixture
def confirming(book, monkeypatch):
    """A notebook with seeds, in an empty checkout."""
    rules = {"seeds": {"paper": 10}, "first_seed": {"paper": 0}}
    monkeypatch.setitem(confirm.LIMITS, "x", rules)
    monkeypatch.setitem(confirm.LIMITS, "y", {"seeds": {"paper": 10}})
    store(book, "seeds = 10\nfirst_seed = 0", CONFIRMS)
    return book


def confirmed(book):
    path = book / "book/results/confirm/x.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_a_confirming_run_stores_its_values_and_nothing_else_of_the_book_changes(confirming):
    before = (confirming / "notebooks/x.ipynb").read_bytes()
    assert confirm.main(["x"]) == 0
    assert confirmed(confirming)["first"] == 20_000
    assert (confirming / "notebooks/x.ipynb").read_bytes() == before
    assert [p.name for p in (confirming / "book/results").iterdir()] == ["confirm"]


def test_a_notebook_without_seeds_of_its_own_is_not_confirmed(confirming):
    store(confirming, "seeds = 10", "1 / 0", name="y")
    assert confirm.main([]) == 0


def test_a_chapter_that_judges_no_claim_has_nothing_to_confirm(confirming):
    folder = confirming / "book/results"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text(json.dumps({"claims": [], "cpu_seconds": 1}))
    assert confirm.main(["x"]) == 0 and confirmed(confirming) is None


def test_every_chapter_with_claims_on_its_seeds_is_confirmed():
    """What make confirm would still run: nothing."""
    names = [name for name in execute.known() if "first_seed" in confirm.LIMITS[name]]
    assert [name for name in names if confirm.judges(name) and not confirm.is_done(name)] == []


def own_record(book, value):
    """The chapter's own record, with one claim that rests on one value."""
    part = {"rule": "exact", "rows": {"": "error"}, "options": {"tol": 1}}
    claim = {"id": "Q4", "parts": {"": part}, "beside": {}}
    record = {"cpu_seconds": 1, "claims": [claim], "values": {"error": value}}
    (book / "book/results/x.json").write_text(json.dumps(record))


def test_a_stored_chapter_is_run_again_only_if_its_own_values_changed_or_on_demand(
    confirming, capsys
):
    path = confirming / "book/results/confirm/x.json"
    path.parent.mkdir(parents=True)
    own_record(confirming, 0.5)

    def runs(*options):
        before = path.stat().st_mtime_ns if path.exists() else 0
        assert confirm.main(["x", *options]) == 0
        return path.stat().st_mtime_ns != before

    assert runs() and not runs()
    assert "is stored already" in capsys.readouterr().out
    assert runs("--again")
    store(confirming, "seeds = 10\nfirst_seed = 0", "# in other words\n" + CONFIRMS)
    own_record(confirming, 0.5 + 1e-9)  # the same to six digits
    assert not runs()
    own_record(confirming, 0.51)
    assert runs()


@pytest.mark.parametrize("path", sorted(CONFIRMED.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_confirmed_is_the_experiment_of_the_chapter_now(path):
    """Fails when a chapter's values change: run make confirm."""
    assert confirm.is_done(path.stem)


@pytest.mark.parametrize(
    "change, why",
    [
        (('"synthetic"', '"simulated"'), "ran with stand-ins of the data"),
        (('"confirm" if', '"smoke" if'), "ran with smoke"),
    ],
)
def test_what_confirms_nothing_is_not_stored(change, why, confirming, capsys):
    store(confirming, "seeds = 10\nfirst_seed = 0", CONFIRMS.replace(*change))
    assert confirm.main(["x"]) == 1
    assert why in capsys.readouterr().err and confirmed(confirming) is None


def test_a_notebook_that_fails_on_the_confirming_seeds_fails_the_run(confirming, capsys):
    confirm.main(["x"])
    store(confirming, "seeds = 10\nfirst_seed = 0", "assert first_seed == 0")
    assert confirm.main(["x", "--again"]) == 1
    assert "failed, and left as they were: x" in capsys.readouterr().out
    assert confirmed(confirming)["first"] == 20_000  # the old values are still there


def test_two_confirming_runs_of_one_notebook_at_once_are_refused_with_a_word(
    confirming, capsys
):
    with execute.one_at_a_time("x"):
        assert confirm.main(["x"]) == 1
    assert "x is being executed by another process" in capsys.readouterr().err
    assert confirmed(confirming) is None


def test_a_confirming_run_goes_to_a_cluster_too(confirming, cluster):
    assert confirm.main(["x", "--scheduler", cluster.scheduler_address]) == 0
    assert confirmed(confirming)["first"] == 20_000
