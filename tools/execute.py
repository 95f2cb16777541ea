"""Execute notebooks in place: two at a time here, or as many as a Dask cluster has workers.

    python tools/execute.py [--seeds N] [--scheduler tcp://host:port] [notebook ...]

A notebook and its records are replaced together, when all of it has run. A run that is
killed, fails or finds no room on the disk leaves the old files; the next one starts clean.
"""

import argparse
import json
import multiprocessing
import sys
import time
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path

import run_notebook

from sonode_utils.files import Refused, alone, whole
from sonode_utils.scorecard import cpu_seconds

ROOT = Path(__file__).parents[1]
PATIENCE = 10  # seconds to wait for a scheduler
FORK = multiprocessing.get_context("fork")  # a child has what is imported here


def main(arguments=None):
    options = parse(arguments)
    names = [find(name) for name in options.notebooks] or known()
    names = sorted(names, key=last_seconds, reverse=True)  # the longest first
    if not options.scheduler:
        return here(names, options.seeds)
    try:
        return on_cluster(options.scheduler, names, options.seeds)
    except Refused as refused:
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
    return cpu_seconds(json.loads(record.read_text("utf8"))) if record.exists() else 0


def task(name, seeds):
    """The arguments of `run_notebook.run`."""
    text = (ROOT / f"notebooks/{name}.ipynb").read_text("utf8")
    return name, text, {"seeds": seeds} if seeds else {}


def one_at_a_time(name):
    message = f"{name} is being executed by another process; wait for it, or stop it"
    return alone(ROOT / f"_build/locks/{name}.lock", message)


def execute(name, seeds):
    """Run one notebook in a fresh kernel, then put it and its records in place."""
    try:
        with one_at_a_time(name):
            put(run_notebook.run(*task(name, seeds)))
    except (RuntimeError, Refused) as error:
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
            together.enter_context(whole(ROOT / path)).write_text(text, "utf8")


def here(waiting, seeds, at_once=2):
    """Keep two processes busy; report each; 1 if any failed."""
    running, failed = {}, []
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            process = FORK.Process(target=_child, args=(name, seeds))
            process.start()
            running[name] = process, time.time()
        for name, (process, since) in list(running.items()):
            if not process.is_alive():
                del running[name]
                failed += [name] if process.exitcode else []
                word = "FAILED" if process.exitcode else "done"
                print(f"\r{name:28} {word} in {time.time() - since:.0f} s" + " " * 20)
        report(running)
        wait([process.sentinel for process, _ in running.values()], timeout=1)
    return summary(failed)


def _child(name, seeds):
    sys.exit(execute(name, seeds))


def report(running):
    parts = []
    for name, (_, since) in running.items():
        elapsed, whole_run = time.time() - since, last_seconds(name)
        rest = f", about {max(0, whole_run - elapsed):.0f} s left" if whole_run else ""
        parts.append(f"{name} {elapsed:.0f} s{rest}")
    if sys.stdout.isatty():
        print("\r" + " | ".join(parts) + "   ", end="", flush=True)
    elif int(time.time()) % 30 == 0:
        print(" | ".join(parts), flush=True)


def summary(failed):
    if failed:
        print(f"\nfailed, and left as they were: {', '.join(failed)}")
    return 1 if failed else 0


def on_cluster(address, names, seeds):
    """Each notebook is a task; Dask gives a lost worker's task to another one."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise Refused("a cluster needs the extra: pip install -e .[cluster]") from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise Refused(f"no Dask scheduler answers at {address} ({error})") from None
    with client, ExitStack() as ours:
        for name in names:
            ours.enter_context(one_at_a_time(name))
        client.upload_file(run_notebook.__file__)
        refuse_strangers(client.run(run_notebook.fingerprint))
        tasks = {
            client.submit(run_notebook.run, *task(name, seeds), pure=False, priority=-k): name
            for k, name in enumerate(names)
        }
        failed, started = [], time.time()
        for done in as_completed(tasks):
            failed += [tasks[done]] if not take(done, tasks[done]) else []
            print(f"{tasks[done]:28} {time.time() - started:.0f} s", flush=True)
    return summary(failed)


def refuse_strangers(workers):
    """Records of one book come from one version of everything."""
    if not workers:
        raise Refused("the scheduler has no workers: start dask worker at its address")
    ours = run_notebook.fingerprint()
    for address, theirs in workers.items():
        other = [f"{n} {theirs[n]}, not {ours[n]}" for n in ours if theirs[n] != ours[n]]
        if other:
            raise Refused(f"worker {address} has {'; '.join(other)}: update it")


def take(done, name):
    """Put a task's files in place; False, with a word, where there are none."""
    try:
        put(done.result())
    except Exception as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
