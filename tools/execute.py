"""Execute notebooks in place: two at a time here, or as many as a Dask cluster has workers.

    python tools/execute.py [--scheduler tcp://host:port] [notebook ...]
    python tools/execute.py --into FOLDER [--seeds N] [notebook ...]

A notebook and its record are replaced together, when all of it has run, and only by better
ones; what may not take their place lies in _build/rejected. A run that is killed leaves the
old files, or is finished by the next one if all of the new ones were there. Other settings
write to a folder of their own.

An open tcp port of a Dask scheduler lets everybody who reaches it run code on its workers: use
it inside a network that you trust, or with Dask's TLS settings (tls://), which are passed on.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import run_notebook
from locks import Busy, locked

from sonode_utils.evidence.records import Damaged, read_json, worse, writable, write_whole

ROOT = Path(__file__).parents[1]
PATIENCE = 10  # seconds to wait for a scheduler, and for a worker to come back


class Job(NamedTuple):
    """The arguments of `run_notebook.run`."""

    name: str
    text: str
    parameters: dict
    records: dict[str, str]  # what it may read of book/results
    replaces: bool = True


def main(arguments=None):
    options = parse(arguments)
    names = [find(name) for name in options.notebooks] or known()
    names = sorted(names, key=last_seconds, reverse=True)  # the longest first
    seeds = {"seeds": options.seeds} if options.seeds else {}
    put = replace
    if options.into:
        put = partial(put_into, new_folder(options.into, names))
    job = partial(task, parameters=seeds, replaces=not options.into)
    return run_all(names, job, put, options.scheduler)


def run_all(names, job, put, scheduler=None, expected=None):
    """Run the notebooks here or on a cluster; 1 if any failed.

    job(name): the Job of it; put(job, files): stores what it made;
    expected(name): how many seconds it takes.
    """
    try:
        writable(ROOT / "_build", "the folder for what is built")
        if scheduler:
            return on_cluster(scheduler, names, job, put)
        return here(names, lambda name: execute(name, job, put), expected or last_seconds)
    except (Busy, ValueError) as refused:
        sys.exit(f"{refused}\nNothing was changed.")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="names such as 02_parity; all if none")
    parser.add_argument("--seeds", type=int, help="other number of seeds; needs --into")
    parser.add_argument("--into", help="a folder for what is made with other settings")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, tcp://host:port")
    options = parser.parse_args(arguments)
    if options.seeds is not None and options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: it accepts a whole number, 1 or more")
    other = "--seeds" if options.seeds else "SONODE_PROFILE" if profile() != "paper" else ""
    if other and not options.into:
        words = f"{other} makes other settings than the paper's, which book/results keeps"
        parser.error(f"{words}: name a folder, --into FOLDER (make reproduce INTO=FOLDER)")
    return options


def profile():
    return os.environ.get("SONODE_PROFILE") or "paper"


def known():
    return sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def find(name):
    if Path(name).stem not in known():
        sys.exit(f"no notebook {name!r}; there are {', '.join(known())}")
    return Path(name).stem


def last_seconds(name):
    """How long it computed last time, as its record says; 0 where there is none."""
    record = stored_record(name)
    return record["cpu_seconds"] if record else 0


def stored_record(name):
    """The record in book/results; None where there is none, or a damaged one."""
    with suppress(FileNotFoundError, Damaged):
        return read_json(ROOT / f"book/results/{name}.json")
    return None


def task(name, parameters, replaces=True):
    """The job of a notebook, with what chapter E4 reads and the words of every chapter."""
    own = f"book/results/{name}.json"
    paths = [*sorted((ROOT / "book/results/mnist").glob("*.json")), ROOT / own]
    paths = [
        path for path in [*paths, ROOT / f"book/results/confirm/{name}.json"] if path.exists()
    ]
    records = {path.relative_to(ROOT).as_posix(): path.read_text("utf8") for path in paths}
    if own in records and not stored_record(name):
        print(f"{own} is damaged; a run that ends well replaces it", file=sys.stderr)
        del records[own]
    text = (ROOT / f"notebooks/{name}.ipynb").read_text("utf8")
    return Job(name, text, parameters, records, replaces)


def one_at_a_time(name):
    message = f"{name} is being executed by another process; wait for it, or stop it"
    return locked(ROOT / f"_build/locks/{name}.lock", message)


def execute(name, job, put):
    """Run one notebook in a fresh kernel, then store what it made."""
    try:
        with one_at_a_time(name):
            finish(name)
            ready = job(name)
            put(ready, run_notebook.run(*ready))
    except (RuntimeError, Busy, Damaged) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\n{name}: {error}; make room and run it again", file=sys.stderr)
        return 1
    return 0


def replace(job, files):
    """Put all of a notebook's files in the place of the old ones, or none and say why."""
    draft, record = write_draft(job, files), f"book/results/{job.name}.json"
    old, new = stored_record(job.name), json.loads(files.get(record, "null"))
    if why := new and worse(old, new):
        reject(job.name, draft, why)
    draft.rename(draft.with_name(job.name))  # from here on it takes its place, after a kill too
    finish(job.name)


def write_draft(job, files):
    """A folder with the files, and with the text of the notebook that was submitted."""
    draft = ROOT / f"_build/pending/.{job.name}"
    shutil.rmtree(draft, ignore_errors=True)  # a killed run's
    for path, text in {**files, "submitted": job.text}.items():
        (draft / path).parent.mkdir(parents=True, exist_ok=True)
        (draft / path).write_text(text, "utf8")
    return draft


def finish_all():
    """Finish what killed runs had ready, where no other process is doing so."""
    for place in sorted((ROOT / "_build/pending").glob("[!.]*")):
        with suppress(Busy), one_at_a_time(place.name):
            finish(place.name)


def finish(name):
    """Put the files of a run that has ended in their places, the notebook first."""
    place, notebook = ROOT / f"_build/pending/{name}", f"notebooks/{name}.ipynb"
    if not place.exists():
        return
    if (place / notebook).exists():
        if (ROOT / notebook).read_text("utf8") != (place / "submitted").read_text("utf8"):
            reject(name, place, "the notebook was edited while it ran")
        os.replace(place / notebook, ROOT / notebook)
    for path in sorted(place.rglob("*.json")):
        (ROOT / path.relative_to(place)).parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, ROOT / path.relative_to(place))
    shutil.rmtree(place)


def reject(name, files, why):
    """Move the files aside and raise Busy with the reason."""
    (files / "reason.txt").write_text(f"{name}: {why}\n", "utf8")
    aside = ROOT / f"_build/rejected/{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    aside.parent.mkdir(parents=True, exist_ok=True)
    files.rename(aside)
    raise Busy(f"{name}: {why}. The old files stay; the new ones are in {aside}")


def new_folder(folder, names):
    """The folder that the user named; refused where it has one of the notebooks."""
    folder = writable(Path(folder).resolve(), "--into")
    for path in [folder / f for name in names for f in own_files(name)]:
        if path.exists():
            sys.exit(f"--into: {path} exists already; name another folder, or remove it")
    return folder


def put_into(folder, job, files):
    for path, text in files.items():
        with write_whole(folder / path) as draft:
            draft.write_text(text, "utf8")


def own_files(name):
    """The files that a notebook may make, in a checkout."""
    return [f"notebooks/{name}.ipynb", *(f"book/results/{k}{name}.json" for k in ("", "play/"))]


def here(names, run_one, expected, at_once=2):
    """Keep two kernels busy; report each notebook; 1 if any failed."""
    since, failed, lasts = {}, [], {name: expected(name) for name in names}

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
            report(dict(since), lasts, sum(lasts[name] for name in waiting) / at_once)
    return summary(failed)


def report(running, lasts, waiting):
    """A line on what runs, and on how long the whole will take."""
    parts, rest = [], []
    for name, since in running.items():
        elapsed = time.time() - since
        rest.append(max(0, lasts[name] - elapsed))
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
        from distributed import Client
    except ImportError:
        raise Busy("a cluster needs the extra: pip install -e .[cluster]") from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise Busy(f"no Dask scheduler answers at {address} ({error})") from None
    with client, ExitStack() as ours:
        for name in names:
            ours.enter_context(one_at_a_time(name))
            finish(name)
        client.upload_file(str(Path(__file__).with_name("run_notebook.py")))
        refuse_strangers(client.run(run_notebook.fingerprint))
        jobs = [job(name) for name in names]
        tasks = {
            client.submit(run_notebook.signed, *one, pure=False, priority=-k): one
            for k, one in enumerate(jobs)
        }
        failed, started = [], time.time()
        try:
            for done in arriving(client, set(tasks)):
                one = tasks.pop(done)
                failed += [] if take(done, one, put) else [one.name]
                print(f"{one.name:28} {time.time() - started:.0f} s", flush=True)
        except Busy as lost:
            print(f"{lost} at {address}", file=sys.stderr)
    return summary(failed + [one.name for one in tasks.values()])


def arriving(client, waiting):
    """The tasks as they end; Busy where nobody has been there to run them for a while."""
    seen = time.time()
    while waiting:
        time.sleep(0.5)
        workers = client.scheduler_info().get("workers")
        gone = client.status not in ("running", "connecting")
        if gone or any(task.cancelled() for task in waiting):
            raise Busy("the scheduler is gone")
        seen = time.time() if workers else seen
        if time.time() - seen > PATIENCE:
            raise Busy(f"no worker has been there for {PATIENCE} seconds")
        for done in [task for task in waiting if task.done()]:
            waiting.remove(done)
            yield done


def refuse_strangers(workers):
    """Records of one book come from one version of everything."""
    if not workers:
        raise Busy("the scheduler has no workers: start dask worker at its address")
    for address, theirs in workers.items():
        refuse_stranger(f"worker {address}", theirs)


def refuse_stranger(who, theirs):
    ours = run_notebook.fingerprint()
    other = [f"{n} {theirs.get(n)}, not {ours[n]}" for n in ours if theirs.get(n) != ours[n]]
    if other:
        raise Busy(f"{who} has {'; '.join(other)}: update it")


def take(done, job, put):
    """Put a task's files in place; False, with a word, where there are none to be trusted."""
    try:
        files, fingerprint = done.result()
        refuse_stranger("the worker that ran it", fingerprint)
        if strange := sorted(files.keys() - set(own_files(job.name))):
            raise Busy(f"its worker sent files of other names, {', '.join(strange)}")
        put(job, files)
    except Exception as error:
        print(f"{job.name}: {error}", file=sys.stderr)
        return False
    return True


def stop_in_one_line():
    """On Ctrl-C or a polite kill; the kernels see within a second that this process is gone."""

    def stop(number, frame):
        print("\nStopped. Notebooks that had ended are stored; the others are as they were.")
        sys.stdout.flush()
        os._exit(128 + number)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


if __name__ == "__main__":
    stop_in_one_line()
    sys.exit(main())
