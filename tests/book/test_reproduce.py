"""make reproduce: in place, whole or not at all, here or on a cluster."""

import base64
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
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

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("notebooks/*.ipynb"))
CONFIRMED = Path(__file__).parents[2] / "book/results/confirm"
SAVE = """
import json, os, pathlib
record = {{"profile": "{profile}", "cpu_seconds": 1, "seeds": seeds, "data": "synthetic"}}
pathlib.Path(os.environ["SONODE_RESULTS_DIR"], "{name}.json").write_text(json.dumps(record))
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty checkout."""
    monkeypatch.setattr(execute, "ROOT", tmp_path)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def run(name):
    return execute.execute(name, partial(execute.task, parameters={}), execute.replace)


def store(book, *sources, name="x"):
    cells = [new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), book / f"notebooks/{name}.ipynb")


def cells(book, name="x"):
    return nbformat.read(book / f"notebooks/{name}.ipynb", as_version=4).cells


def outputs(book, name="x"):
    return [[o.get("text") for o in cell.outputs] for cell in cells(book, name)]


def contents(book):
    """{file: its bytes} of all that a run may replace."""
    own = [p for p in book.rglob("*") if p.is_file() and "_build" not in p.parts]
    return {str(p.relative_to(book)): p.read_bytes() for p in own}


def files(book):
    return sorted(Path(path).name for path in contents(book))


def test_a_notebook_is_executed_in_place(book):
    store(book, "seeds = 10", "print(seeds + 1)")
    assert run("x") == 0
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


def test_its_record_is_put_in_place_with_it_and_the_two_show_that_they_agree(book):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    run("x")
    record = (book / "book/results/x.json").read_bytes()
    assert json.loads(record)["seeds"] == 10
    stamp = nbformat.read(book / "notebooks/x.ipynb", as_version=4).metadata["record_sha256"]
    assert stamp == hashlib.sha256(record).hexdigest()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_stored_notebook_is_of_the_run_that_made_its_record(path):
    """Fails when one of the two was committed without the other."""
    record = path.parents[1] / f"book/results/{path.stem}.json"
    stamp = nbformat.read(path, as_version=4).metadata["record_sha256"]
    assert stamp == hashlib.sha256(record.read_bytes()).hexdigest()


# What is replaced, and what is not


def rejected(book):
    """{name: (reason, names of the files)} of _build/rejected."""
    found = {}
    for folder in (book / "_build/rejected").glob("*"):
        inside = sorted(p.name for p in folder.rglob("*") if p.is_file())
        found[folder.name.split("-")[0]] = (folder / "reason.txt").read_text(), inside
    return found


@pytest.mark.parametrize(
    "made, why",
    [
        ({"profile": "custom"}, "ran with the profile custom"),
        ({"data": "simulated"}, "on stand-ins of the data, and the stored record on the real"),
    ],
)
def test_a_worse_record_is_rejected_with_its_notebook_and_the_reason(made, why, book, capsys):
    good = SAVE.format(profile="paper", name="x").replace("synthetic", "real")
    store(book, "seeds = 10", good)
    assert run("x") == 0
    worse = good.replace("json.dumps(record)", f"json.dumps(record | {made})")
    store(book, "seeds = 10", worse, "print('new')")
    before = contents(book)
    assert run("x") == 1
    assert why in capsys.readouterr().err and contents(book) == before
    reason, names = rejected(book)["x"]
    assert why in reason and {"x.ipynb", "x.json"} <= set(names)


def test_an_edit_made_while_the_notebook_runs_is_kept(book, capsys):
    edit = "\nwith open({path!r}, 'a') as file: file.write(' ')"
    path = book / "notebooks/x.ipynb"
    save = SAVE.format(profile="paper", name="x") + edit.format(path=str(path))
    store(book, "seeds = 10", save)
    before = path.read_text()
    assert run("x") == 1
    assert "x: the notebook was edited while it ran" in capsys.readouterr().err
    assert path.read_text() == before + " " and not (book / "book/results/x.json").exists()
    assert {"x.ipynb", "x.json"} <= set(rejected(book)["x"][1])


def test_a_damaged_record_is_named_and_replaced(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    (book / "book/results").mkdir(parents=True)
    (book / "book/results/x.json").write_text('{"data": ')
    assert run("x") == 0
    assert "book/results/x.json is damaged" in capsys.readouterr().err
    assert json.loads((book / "book/results/x.json").read_text())["seeds"] == 10


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("--seeds 0 --into out", "--seeds 0: it accepts a whole number, 1 or more"),
        ("--seeds -3 --into out", "--seeds -3: it accepts"),
        ("--seeds 3", "--seeds makes other settings .* name a folder, --into FOLDER"),
    ],
)
def test_other_settings_need_a_folder_of_their_own(arguments, words, book, capsys):
    store(book, "seeds = 10", "1 / 0")
    with pytest.raises(SystemExit):
        execute.main(arguments.split())
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize("tool", [execute, confirm])
def test_another_profile_is_refused_before_anything_runs(tool, book, monkeypatch, capsys):
    monkeypatch.setenv("SONODE_PROFILE", "quick")
    store(book, "seeds = 10", "1 / 0")
    with pytest.raises(SystemExit):
        tool.main([])
    assert "SONODE_PROFILE makes other settings than the paper's" in capsys.readouterr().err


def test_other_settings_go_to_the_folder_with_their_record(book, tmp_path_factory):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"), "print(seeds)")
    before, out = contents(book), tmp_path_factory.mktemp("out") / "three"
    assert execute.main(["x", "--seeds", "3", "--into", str(out)]) == 0
    assert contents(book) == before
    assert outputs(out)[2] == ["3\n"] and cells(out)[0].source == "seeds = 10"
    assert json.loads((out / "book/results/x.json").read_text())["seeds"] == 3
    with pytest.raises(SystemExit, match=r"x\.ipynb exists already; name another folder"):
        execute.main(["x", "--into", str(out)])


def test_a_checkout_that_cannot_be_written_is_named_before_anything_runs(book):
    store(book, "seeds = 10", "1 / 0")
    (book / "_build").write_text("a file where the folder should be")
    with pytest.raises(
        SystemExit, match=r"nothing can be written there .*\nNothing was changed"
    ):
        execute.main(["x"])


def test_a_failing_notebook_is_left_as_it_was(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"), "1 / 0")
    before = (book / "notebooks/x.ipynb").read_bytes()
    assert run("x") == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert (book / "notebooks/x.ipynb").read_bytes() == before
    assert files(book) == ["x.ipynb"]


def test_a_kernel_that_dies_fails_its_notebook_alone(book, capsys):
    store(book, "seeds = 10", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run("x") == 1
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
    assert run("x") == 0
    assert outputs(book) == [[], ["10\n"]] and died


def test_a_full_disk_leaves_notebook_and_record_as_they_were(book, monkeypatch, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    run("x")
    before = contents(book)
    write = Path.write_text

    def full(path, text, *rest):
        if "ipynb" in path.name:
            write(path, text[:100], *rest)
            raise OSError(28, "No space left on device")
        return write(path, text, *rest)

    monkeypatch.setattr(Path, "write_text", full)
    assert run("x") == 1
    assert "No space left on device; make room and run it again" in capsys.readouterr().err
    assert contents(book) == before


def test_the_same_notebook_twice_at_once_is_refused(book, capsys):
    store(book, "seeds = 10")
    with execute.one_at_a_time("x"):
        assert run("x") == 1
    assert "x is being executed by another process" in capsys.readouterr().err
    assert run("x") == 0


# Killed


IN_A_CHECKOUT = """
import os, signal, sys
sys.path.insert(0, {tools!r})
import execute
from pathlib import Path
execute.ROOT = Path({book!r})
execute.stop_in_one_line()
{fault}
sys.exit(execute.main({arguments!r}))
"""
DIE_AT_THE_REPLACEMENT = """
replace, calls = {replace}, []
def killed(*arguments):
    if len(calls) == {which}:
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(1)
    replace(*arguments)
{replace} = killed
"""


def in_a_checkout(book, arguments=(), fault=""):
    tools = str(Path(execute.__file__).parent)
    script = IN_A_CHECKOUT.format(
        tools=tools, book=str(book), fault=fault, arguments=list(arguments)
    )
    return [sys.executable, "-c", script]


@pytest.mark.parametrize(
    "replace, which, finished",
    [("Path.rename", 0, False), ("os.replace", 0, True), ("os.replace", 1, True)],
    ids=["before all is there", "before the first file", "between notebook and record"],
)
def test_a_kill_leaves_both_old_files_or_the_next_run_puts_both_new_ones_in_place(
    replace, which, finished, book
):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"), "print('first')")
    run("x")
    store(book, "seeds = 11", SAVE.format(profile="paper", name="x"), "print('second')")
    before = contents(book)
    fault = DIE_AT_THE_REPLACEMENT.format(replace=replace, which=which)
    done = subprocess.run(in_a_checkout(book, ["x"], fault), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    execute.finish("x")
    record = json.loads((book / "book/results/x.json").read_text())
    assert record["seeds"] == (11 if finished else 10)
    assert outputs(book)[2] == (["second\n"] if finished else [None])[: len(outputs(book)[2])]
    assert (contents(book) == before) == (not finished)
    assert run("x") == 0 and outputs(book)[2] == ["second\n"]
    assert json.loads((book / "book/results/x.json").read_text())["seeds"] == 11


def test_what_a_killed_run_had_ready_does_not_overwrite_an_edit_made_since(book, capsys):
    store(book, "seeds = 10", SAVE.format(profile="paper", name="x"))
    fault = DIE_AT_THE_REPLACEMENT.format(replace="os.replace", which=0)
    subprocess.run(in_a_checkout(book, ["x"], fault), capture_output=True)
    store(book, "seeds = 12", "print(seeds)")
    assert run("x") == 1
    assert "the notebook was edited while it ran" in capsys.readouterr().err
    assert cells(book)[0].source == "seeds = 12" and rejected(book)
    assert run("x") == 0 and outputs(book)[1] == ["12\n"]


WAIT = """
import os, pathlib, time
pathlib.Path({sign!r}).write_text(str(os.getpid()))
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_parent_means_a_dead_kernel_and_nothing_written(number, book, tmp_path):
    sign = tmp_path / "_build/started"
    sign.parent.mkdir()
    store(
        book, "seeds = 10", WAIT.format(sign=str(sign)), SAVE.format(profile="paper", name="x")
    )
    before = contents(book)
    with subprocess.Popen(
        in_a_checkout(book, ["x"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        _until(lambda: sign.exists() and sign.read_text())
        parent.send_signal(number)
        _until(lambda: not alive(int(sign.read_text())), seconds=15)
        said = "".join(parent.communicate(timeout=15))
    assert contents(book) == before
    if number == signal.SIGKILL:
        return
    assert parent.returncode == 128 + number
    assert said.strip().splitlines()[-1].startswith("Stopped. Notebooks that had ended are")
    assert "Traceback" not in said


def alive(pid):
    """Does the process still run? One that nobody has asked after counts as gone."""
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except OSError:
        return False


def test_a_notebook_reads_the_stored_rows_of_the_book_wherever_it_runs(book):
    (book / "book/results/mnist").mkdir(parents=True)
    (book / "book/results/mnist/a.json").write_text("[1]")
    find = "from sonode_utils.evidence import records_folder"
    store(book, find, "print((records_folder() / 'mnist/a.json').read_text())")
    run("x")
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
    assert run("x") == 0
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
    run("x")
    (output,) = cells(book)[1].outputs
    assert (
        set(output.data) == {"text/html", "text/plain"}
        and '{"a":1}' in output.data["text/html"]
    )
    assert "widgets" not in nbformat.read(book / "notebooks/x.ipynb", 4).metadata


def test_progress_bars_are_not_stored_and_warnings_are(book):
    bar = "from tqdm import tqdm\nfor _ in tqdm(range(3)): pass"
    store(book, bar, "import warnings\nwarnings.warn('look here')")
    run("x")
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
    command = in_a_checkout(book, ["--scheduler", cluster.scheduler_address])
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
    assert execute.main(["--scheduler", cluster.scheduler_address]) == 1
    assert outputs(book, "good") == [[], ["1\n"]] and outputs(book, "bad") == [[], []]
    said = capsys.readouterr()
    assert "ZeroDivisionError" in said.err and "left as they were: bad" in said.out


@pytest.fixture
def doomed(monkeypatch, tmp_path_factory):
    """A scheduler and a worker in processes of their own, to be killed; little patience."""
    distributed = pytest.importorskip("distributed", reason="needs the extra: cluster")
    monkeypatch.setattr(execute, "PATIENCE", 3)
    folder = tmp_path_factory.mktemp("dask")
    shared = ["--scheduler-file", str(folder / "scheduler.json"), "--no-dashboard"]
    shared += ["--host", "127.0.0.1"]
    dask, one = str(Path(sys.executable).with_name("dask")), ["--nthreads", "1", "--no-nanny"]
    commands = {"scheduler": ["--port", "0", *shared], "worker": [*one, *shared]}
    started = {
        name: subprocess.Popen([dask, name, *options], cwd=folder, stderr=subprocess.DEVNULL)
        for name, options in commands.items()
    }
    _until((folder / "scheduler.json").exists)
    address = json.loads((folder / "scheduler.json").read_text())["address"]
    with distributed.Client(address) as client:
        client.wait_for_workers(1, timeout=60)
    yield address, started
    for process in started.values():
        process.kill()
        process.wait()


def take_down_when_a_is_stored(book, take_down):
    """In the background: wait until notebook a has run and b has begun."""

    def work():
        _until(lambda: outputs(book, "a")[1:] and outputs(book, "a")[1])
        _until((book / "_build/b").exists)
        take_down()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "lost, words",
    [("worker", "no worker has been there for 3 seconds"), ("scheduler", "is gone")],
)
def test_losing_all_workers_or_the_scheduler_is_said_and_what_was_finished_is_kept(
    lost, words, book, doomed, capsys
):
    store(book, "seeds = 1", "print('a')", name="a")
    store(book, "seeds = 1", WAIT.format(sign=str(book / "_build/b")), name="b")
    address, processes = doomed
    thread = take_down_when_a_is_stored(book, processes[lost].kill)
    assert execute.main(["--scheduler", address]) == 1
    thread.join()
    said = capsys.readouterr()
    assert words in said.err and address in said.err
    assert "left as they were: b" in said.out and outputs(book, "a")[1] == ["a\n"]


def test_results_of_a_worker_with_another_source_that_joined_late_are_refused(
    book, cluster, monkeypatch, capsys
):
    store(book, "seeds = 1", SAVE.format(profile="paper", name="x"))
    ours = run_notebook.fingerprint()

    def source_changes_now(workers):
        new = ours | {"sonode_utils": "new"}
        monkeypatch.setattr(execute.run_notebook, "fingerprint", lambda: new)

    monkeypatch.setattr(execute, "refuse_strangers", source_changes_now)
    before = contents(book)
    assert execute.main(["--scheduler", cluster.scheduler_address]) == 1
    words = f"x: the worker that ran it has sonode_utils {ours['sonode_utils']}, not new"
    assert words in capsys.readouterr().err and contents(book) == before


class Sent:
    """A task that has ended with these files."""

    def __init__(self, files):
        self.files = files

    def result(self):
        return self.files, run_notebook.fingerprint()


@pytest.mark.parametrize(
    "path",
    ["../x", "/tmp/x", "book/results/../../x", "book/results/y.json", "tools/execute.py"],
)
def test_a_worker_may_send_only_the_files_of_its_notebook(path, book, capsys):
    store(book, "seeds = 1")
    job, before = execute.task("x", {}), contents(book)
    assert not execute.take(Sent({path: "bad"}), job, execute.replace)
    assert f"x: its worker sent files of other names, {path}" in capsys.readouterr().err
    assert contents(book) == before and not (book.parent / "x").exists()


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
    with pytest.raises(SystemExit, match="strangers\nNothing was changed"):
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
        (('"synthetic"', '"simulated"'), "it ran with stand-ins of the data"),
        (('"confirm" if', '"smoke" if'), "it ran with smoke"),
    ],
)
def test_what_confirms_nothing_is_not_stored(change, why, confirming, capsys):
    store(confirming, "seeds = 10\nfirst_seed = 0", CONFIRMS.replace(*change))
    assert confirm.main(["x"]) == 1
    assert why in capsys.readouterr().err and confirmed(confirming) is None
    assert "x.json" in rejected(confirming)["x"][1]


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
