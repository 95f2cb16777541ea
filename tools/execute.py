"""Execute notebooks in place: two at a time here, or as many as a Dask cluster has workers.

    python tools/execute.py [--seeds N] [--scheduler tcp://host:port] [notebook ...]

A notebook and its records are replaced together, when all of it has run. A run that is
killed, fails or finds no room on the disk leaves the old files; the next one starts clean.
"""

import argparse
import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import run_notebook
from locks import Busy, locked
from whole import write_whole

ROOT = Path(__file__).parents[1]
PATIENCE = 10  # seconds to wait for a scheduler


def main(arguments=None):
    options = parse(arguments)
    names = [find(name) for name in options.notebooks] or known()
    names = sorted(names, key=last_seconds, reverse=True)  # the longest first
    return run_all(names, lambda name: task(name, options.seeds), put, options.scheduler)


def run_all(names, job, put, scheduler=None, expected=None):
    """Run the notebooks here or on a cluster; 1 if any failed.

    job(name): the arguments of `run_notebook.run`; put(files): stores what it made;
    expected(name): how many seconds it takes.
    """
    if not scheduler:
        return here(names, lambda name: execute(job(name), put), expected or last_seconds)
    try:
        return on_cluster(scheduler, names, job, put)
    except Busy as refused:
        sys.exit(f"{refused}; nothing was changed")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="names such as 02_parity; all if none")
    parser.add_argument("--seeds", type=int, help="other number of seeds")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, tcp://host:port")
    return parser.parse_args(arguments)


def known():
    return sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def find(name):
    if Path(name).stem not in known():
        sys.exit(f"no notebook {name!r}; there are {', '.join(known())}")
    return Path(name).stem


def last_seconds(name):
    """How long it computed last time, as its record says; 0 where there is none."""
    record = ROOT / f"book/results/{name}.json"
    return json.loads(record.read_text("utf8"))["cpu_seconds"] if record.exists() else 0


def task(name, seeds):
    """The arguments of `run_notebook.run`."""
    text = (ROOT / f"notebooks/{name}.ipynb").read_text("utf8")
    results = ROOT / "book/results"  # what chapter E4 reads, and the words of every chapter
    stored = [*sorted((results / "mnist").glob("*.json")), results / f"confirm/{name}.json"]
    stored = [path for path in stored if path.exists()]
    records = {str(path.relative_to(ROOT)): path.read_text("utf8") for path in stored}
    return name, text, {"seeds": seeds} if seeds else {}, records


def one_at_a_time(name):
    message = f"{name} is being executed by another process; wait for it, or stop it"
    return locked(ROOT / f"_build/locks/{name}.lock", message)


def execute(arguments, put):
    """Run one notebook in a fresh kernel, then store what it made."""
    name = arguments[0]
    try:
        with one_at_a_time(name):
            put(run_notebook.run(*arguments))
    except (RuntimeError, Busy) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\n{name}: {error}; make room and run it again", file=sys.stderr)
        return 1
    return 0


def put(files):
    """Write all of a notebook's files or, where one cannot be written, none.

    A record of other than the paper's settings has no place in book/results.
    """
    (name,) = (Path(path).stem for path in files if path.endswith(".ipynb"))
    record = files.get(f"book/results/{name}.json")
    if record and json.loads(record)["profile"] != "paper":
        print(f"{name}: not the paper's settings, so book/results stays as it is")
        files = {path: text for path, text in files.items() if path.endswith(".ipynb")}
    with ExitStack() as together:
        for path, text in files.items():
            together.enter_context(write_whole(ROOT / path)).write_text(text, "utf8")


def here(names, run_one, expected, at_once=2):
    """Keep two kernels busy; report each notebook; 1 if any failed."""
    since, failed = {}, []

    def one(name):
        since[name] = time.time()
        return run_one(name)

    with ThreadPoolExecutor(at_once) as pool:  # each thread waits for a kernel of its own
        tasks = {pool.submit(one, name): name for name in names}
        while tasks:
            done, _ = wait(tasks, timeout=1, return_when=FIRST_COMPLETED)
            for name, result in [(tasks.pop(task), task.result()) for task in done]:
                failed += [name] if result else []
                word, seconds = "FAILED" if result else "done", time.time() - since.pop(name)
                print(f"\r{name:28} {word} in {seconds:.0f} s" + " " * 20, flush=True)
            waiting = [name for name in tasks.values() if name not in since]
            report(dict(since), expected, sum(map(expected, waiting)) / at_once)
    return summary(failed)


def report(running, expected, waiting):
    """A line on what runs, and on how long the whole will take."""
    parts, rest = [], []
    for name, since in running.items():
        elapsed = time.time() - since
        rest.append(max(0, expected(name) - elapsed))
        parts.append(
            f"{name} {elapsed:.0f} s" + f", about {rest[-1]:.0f} s left" * bool(rest[-1])
        )
    if rest:
        left = max(max(rest), sum(rest) / 2 + waiting)
        parts.append(f"all of it: about {left / 60:.0f} min left")
    if sys.stdout.isatty():
        print("\r" + " | ".join(parts) + "   ", end="", flush=True)
    elif int(time.time()) % 30 == 0:
        print(" | ".join(parts), flush=True)


def summary(failed):
    if failed:
        print(f"\nfailed, and left as they were: {', '.join(failed)}")
    return 1 if failed else 0


def on_cluster(address, names, job, put):
    """Each notebook is a task; Dask gives a lost worker's task to another one."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise Busy("a cluster needs the extra: pip install -e .[cluster]") from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise Busy(f"no Dask scheduler answers at {address} ({error})") from None
    with client, ExitStack() as ours:
        for name in names:
            ours.enter_context(one_at_a_time(name))
        client.upload_file(run_notebook.__file__)
        refuse_strangers(client.run(run_notebook.fingerprint))
        tasks = {
            client.submit(run_notebook.run, *job(name), pure=False, priority=-k): name
            for k, name in enumerate(names)
        }
        failed, started = [], time.time()
        for done in as_completed(tasks):
            failed += [tasks[done]] if not take(done, tasks[done], put) else []
            print(f"{tasks[done]:28} {time.time() - started:.0f} s", flush=True)
    return summary(failed)


def refuse_strangers(workers):
    """Records of one book come from one version of everything."""
    if not workers:
        raise Busy("the scheduler has no workers: start dask worker at its address")
    ours = run_notebook.fingerprint()
    for address, theirs in workers.items():
        other = [f"{n} {theirs[n]}, not {ours[n]}" for n in ours if theirs[n] != ours[n]]
        if other:
            raise Busy(f"worker {address} has {'; '.join(other)}: update it")


def take(done, name, put):
    """Put a task's files in place; False, with a word, where there are none."""
    try:
        put(done.result())
    except Exception as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
