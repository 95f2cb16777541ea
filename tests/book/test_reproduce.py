"""make reproduce: in place, whole or not at all, here or on a cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import execute
import run_notebook
import verify_seeds

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
    assert execute.execute("x", seeds=None) == 0
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
    execute.execute("x", seeds=20)
    assert outputs(book) == [[], ["21\n"]]
    assert cells(book)[0].source == "seeds = 10"


def test_its_record_is_put_in_place_with_it(book):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    execute.execute("x", seeds=None)
    assert json.loads((book / "book/results/x.json").read_text())["seeds"] == 10


def test_a_record_of_other_settings_is_not(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="custom", name="x"))
    execute.execute("x", seeds=2)
    assert files(book) == ["x.ipynb"]
    assert "not the paper's settings" in capsys.readouterr().out


def test_a_failing_notebook_is_left_as_it_was(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"), "1 / 0")
    before = (book / "notebooks/x.ipynb").read_bytes()
    assert execute.execute("x", seeds=None) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert (book / "notebooks/x.ipynb").read_bytes() == before
    assert files(book) == ["x.ipynb"]


def test_a_kernel_that_dies_fails_its_notebook_alone(book, capsys):
    store(book, "seeds = 10", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert execute.execute("x", seeds=None) == 1
    assert "x: Kernel died" in capsys.readouterr().err


def test_a_kernel_that_dies_before_its_first_cell_is_started_again(book, monkeypatch):
    store(book, "seeds = 10", "print(seeds)")
    run, died = run_notebook.NotebookClient.execute, []

    def execute_at_the_second_try(client, **options):
        if not died:
            died.append(1)
            raise RuntimeError("Kernel died before replying to kernel_info")
        return run(client, **options)

    monkeypatch.setattr(run_notebook.NotebookClient, "execute", execute_at_the_second_try)
    assert execute.execute("x", seeds=None) == 0
    assert outputs(book) == [[], ["10\n"]] and died


def test_a_full_disk_leaves_notebook_and_record_as_they_were(book, monkeypatch, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    execute.execute("x", seeds=None)
    before = {p: p.read_bytes() for p in book.rglob("*") if p.is_file()}
    write = Path.write_text

    def full(path, text, *rest):
        if "ipynb" in path.name:
            write(path, text[:100], *rest)
            raise OSError(28, "No space left on device")
        return write(path, text, *rest)

    monkeypatch.setattr(Path, "write_text", full)
    assert execute.execute("x", seeds=None) == 1
    assert "No space left on device; make room and run it again" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in book.rglob("*") if p.is_file()} == before


def test_the_same_notebook_twice_at_once_is_refused(book, capsys):
    store(book, "seeds = 10")
    with execute.one_at_a_time("x"):
        assert execute.execute("x", seeds=None) == 1
    assert "x is being executed by another process" in capsys.readouterr().err
    assert execute.execute("x", seeds=None) == 0


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
execute.execute("x", None)
"""


def test_a_kill_while_writing_leaves_the_old_files_and_the_next_run_is_clean(book):
    store(book, "seeds = 10", "print(1)")
    before = (book / "notebooks/x.ipynb").read_bytes()
    script = KILLED.format(tools=str(Path(execute.__file__).parent), book=str(book))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (book / "notebooks/x.ipynb").read_bytes() == before
    assert execute.execute("x", seeds=None) == 0
    assert outputs(book) == [[], ["1\n"]] and files(book) == ["x.ipynb"]


def test_a_notebook_reads_the_stored_rows_of_the_book_wherever_it_runs(book):
    (book / "book/results/mnist").mkdir(parents=True)
    (book / "book/results/mnist/a.json").write_text("[1]")
    find = "from sonode_utils.evidence import records_folder"
    store(book, find, "print((records_folder() / 'mnist/a.json').read_text())")
    execute.execute("x", seeds=None)
    assert outputs(book)[1] == ["[1]\n"]


def test_a_live_widget_is_stored_as_its_data_and_not_as_code(book):
    show = "from sonode_utils import figures\nfigures.figure('parity', {'a': 1}, 'words')"
    store(book, "seeds = 10", show)
    execute.execute("x", seeds=None)
    (output,) = cells(book)[1].outputs
    assert (
        set(output.data) == {"text/html", "text/plain"}
        and '{"a":1}' in output.data["text/html"]
    )
    assert "widgets" not in nbformat.read(book / "notebooks/x.ipynb", 4).metadata


def test_progress_bars_are_not_stored_and_warnings_are(book):
    bar = "from tqdm import tqdm\nfor _ in tqdm(range(3)): pass"
    store(book, bar, "import warnings\nwarnings.warn('look here')")
    execute.execute("x", seeds=None)
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


# make verify-seeds


JUDGED = """
import json, os, pathlib
verdict = "reproduced" if first_seed < 1000 else "contradicted"
claims = [{"id": "P1", "verdict": verdict}, {"id": "P2", "verdict": "holds"}]
record = {"profile": "custom", "date": "today", "cpu_seconds": 1, "claims": claims}
pathlib.Path(os.environ["SONODE_RESULTS_DIR"], "x.json").write_text(json.dumps(record))
"""


@pytest.fixture
def judged(book):
    """A notebook whose first claim turns with other seeds, and its record."""
    store(book, "first_seed = 0", JUDGED)
    made = run_notebook.run(*execute.task("x", None))["book/results/x.json"]
    (book / "book/results").mkdir(parents=True)
    (book / "book/results/x.json").write_text(made)
    return book


def test_a_claim_that_turns_with_other_seeds_is_named_and_nothing_of_the_book_changes(
    judged, capsys
):
    files = ("notebooks/x.ipynb", "book/results/x.json")
    before = [(judged / name).read_bytes() for name in files]
    assert verify_seeds.main(["x"]) == 0
    said = capsys.readouterr().out
    assert "P1: reproduced, then contradicted" in said and "1 claims turned" in said
    kept = json.loads((judged / "_build/other-seeds/1000/x.json").read_text())
    assert kept["claims"][0]["verdict"] == "contradicted"
    assert [(judged / name).read_bytes() for name in files] == before
    assert [p.name for p in (judged / "book/results").iterdir()] == ["x.json"]


def test_double_precision_reaches_the_notebook(book):
    store(book, "a = 1", "import torch\nprint(torch.zeros(1).dtype)")
    text, parameters = verify_seeds.variant(execute.task("x", None)[1], "double")
    made = run_notebook.run("x", text, parameters, {})["notebooks/x.ipynb"]
    assert "torch.float64" in made


def test_a_notebook_that_fails_with_other_seeds_fails_the_check(judged, capsys):
    store(judged, "first_seed = 0", "assert first_seed == 0")
    assert verify_seeds.main(["x"]) == 1
    assert "1 notebooks failed" in capsys.readouterr().out


def test_two_checks_of_one_notebook_at_once_are_refused_with_a_word(judged, capsys):
    with execute.one_at_a_time("x"):
        assert verify_seeds.main(["x"]) == 1
    assert "x is being executed by another process" in capsys.readouterr().err
    assert not (judged / "_build/other-seeds").exists()
