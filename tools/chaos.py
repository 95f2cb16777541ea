"""Random faults against a copy of the checkout, on the smoke profile: is anything ever lost?

    python tools/chaos.py [faults] [seed]

In each round two notebooks are executed and one or two faults strike. Then every notebook and
its record must be the old pair or the new one, every edit must be there, and no kernel may
have outlived its parent. The first round that breaks this ends in an error and keeps the
copy. Needs a Unix system and the extra: cluster.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import execute
import psutil
from tqdm import tqdm

ROOT = Path(__file__).parents[1]
NAMES = ["00_models", "A_phase_space"]  # seconds each on this profile
DRIVER = f"""
import resource, sys
from functools import partial
from pathlib import Path
sys.path.insert(0, {str(ROOT / "tools")!r})
import execute
from sonode_utils.evidence import records
execute.ROOT, records.KEPT = Path(sys.argv[1]), ("smoke",)
execute.stop_in_one_line()
def put(job, files):
    if room := int(sys.argv[2]):  # how many bytes a file may have
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    execute.replace(job, files)
job = partial(execute.task, parameters={{}})
sys.exit(execute.run_all({NAMES!r}, job, put, *sys.argv[3:]))
"""


def main(faults=200, seed=None):
    seed = seed or time.time_ns() % 10**6
    copy, struck, started = (
        Path(tempfile.mkdtemp(prefix="sonode-chaos-")),
        Counter(),
        time.time(),
    )
    chaos = Chaos(copy / "book", random.Random(seed))
    try:
        with tqdm(desc=f"faults, seed {seed}", total=faults) as bar:
            while sum(struck.values()) < faults:
                names = chaos.strike()
                chaos.check()
                struck.update(names)
                bar.update(len(names))
    except (AssertionError, subprocess.TimeoutExpired) as lost:
        sys.exit(f"\nseed {seed}, after {dict(struck)} and then {names}: {lost}; see {copy}")
    finally:
        chaos.end()
    shutil.rmtree(copy)
    words = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in struck.most_common())
    print(f"{faults} faults in {(time.time() - started) / 60:.0f} min, nothing lost: {words}")


class Chaos:
    """A copy of the checkout, the faults that strike it, and what must be true after each."""

    def __init__(self, book, dice):
        self.book, self.dice, self.dask = book, dice, {}
        self.notes, self.damaged = {name: [] for name in NAMES}, {}
        ignored = shutil.ignore_patterns(".*", "_build", "assets", "*.egg-info")
        shutil.copytree(ROOT, book, ignore=ignored)
        for path in (book / "book/results").glob("*.json"):
            path.unlink()  # of the paper's settings; this is a book of the smoke profile
        (book / "_build/runtime").mkdir(parents=True)
        execute.ROOT = book
        assert self.start().wait() == 0, f"the notebooks do not run, see {book}/_build/log.txt"

    def start(self, room=0, *scheduler):
        return self.process(sys.executable, "-c", DRIVER, str(self.book), str(room), *scheduler)

    def process(self, *command):
        places = {"JUPYTER_RUNTIME_DIR": str(self.book / "_build/runtime")}
        environment = {**os.environ, **places, "SONODE_PROFILE": "smoke"}
        with open(self.book / "_build/log.txt", "a") as log:
            streams = {"stdout": log, "stderr": log, "cwd": self.book / "_build"}
            return subprocess.Popen(command, env=environment, **streams)

    def strike(self):
        """A run, and one or two faults that strike it; their names."""
        faults = [self.kill, self.edit, self.damage, self.second_run, self.full_disk]
        chosen = self.dice.sample([*faults, self.lose_worker], self.dice.choice([1, 2]))
        room = self.dice.randrange(1, 200_000) if self.full_disk in chosen else 0
        running = self.start(room, *(self.cluster() if self.lose_worker in chosen else []))
        for fault in chosen:
            time.sleep(self.dice.random() * 10 / len(chosen))  # a run takes about ten seconds
            fault(running)
        running.wait(timeout=300)
        return [fault.__name__ for fault in chosen]

    def kill(self, running):
        running.send_signal(self.dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))

    def edit(self, running):
        name, note = self.dice.choice(NAMES), f"Note {self.dice.random()}"
        path = self.book / f"notebooks/{name}.ipynb"
        notebook = json.loads(path.read_text("utf8"))
        cell = {"cell_type": "markdown", "id": f"{self.dice.getrandbits(32):08x}"}
        notebook["cells"].append(cell | {"metadata": {}, "source": [note]})
        with execute.write_whole(path) as draft:
            draft.write_text(json.dumps(notebook, indent=1) + "\n", "utf8")
        self.notes[name].append(note)

    def damage(self, running):
        name = self.dice.choice(NAMES)
        path = self.book / f"book/results/{name}.json"
        self.damaged[name] = path.read_bytes()[: self.dice.randrange(path.stat().st_size)]
        path.write_bytes(self.damaged[name])

    def second_run(self, running):
        self.start().wait(timeout=300)

    def full_disk(self, running):
        """It was full from the start."""

    def lose_worker(self, running):
        self.dask["worker"].kill()

    def cluster(self):
        """The address of a scheduler with one worker."""
        file = self.book / "_build/scheduler.json"
        shared = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
        dask = str(Path(sys.executable).with_name("dask"))
        if "scheduler" not in self.dask:
            self.dask["scheduler"] = self.process(dask, "scheduler", "--port", "0", *shared)
        wait_for(file.exists, "no scheduler")
        one = ["--nthreads", "1", "--no-nanny", *shared]
        self.dask["worker"] = self.process(dask, "worker", *one)
        return [json.loads(file.read_text())["address"]]

    def check(self):
        """Raise AssertionError where something was lost, or goes on that should have ended."""
        if worker := self.dask.pop("worker", None):
            worker.kill()
            worker.wait()
        wait_for(lambda: not self.kernels(), "a kernel has outlived its parent")
        execute.finish_all()
        for name in NAMES:
            notebook = json.loads((self.book / f"notebooks/{name}.ipynb").read_text("utf8"))
            text = "".join("".join(cell["source"]) for cell in notebook["cells"])
            assert all(note in text for note in self.notes[name]), f"an edit of {name} is lost"
            record = (self.book / f"book/results/{name}.json").read_bytes()
            stamp = notebook["metadata"]["record_sha256"]
            agree = stamp == hashlib.sha256(record).hexdigest()
            assert agree or record == self.damaged.get(name), f"{name} is not of its record"

    def kernels(self):
        folder = str(self.book / "_build/runtime")
        found = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
        return [command for command in found if any(folder in word for word in command)]

    def end(self):
        for process in self.dask.values():
            process.kill()


def wait_for(true, words):
    deadline = time.time() + 30
    while not true():
        assert time.time() < deadline, words
        time.sleep(0.1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
