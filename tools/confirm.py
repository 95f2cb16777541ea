"""Run the notebooks on the seeds that were kept for confirming claims; store the values.

    python tools/confirm.py [--scheduler tcp://host:port] [--again] [notebook ...]

A notebook's values are stored whole in book/results/confirm when all of it has run; notebooks
and book/results stay as they are. A chapter that is stored already, and whose own record has
not changed since, is not run again: an interrupted run is taken up where it stopped. A chapter
whose own record judges no claim has nothing to confirm.
"""

import argparse
import hashlib
import json
import sys
from contextlib import suppress

import execute

from sonode_utils.evidence.parameters import CONFIRM, LIMITS
from sonode_utils.evidence.records import Damaged, read_json, write_json
from sonode_utils.evidence.verdicts import groups_of


def main(arguments=None):
    options = parse(arguments)
    names = [execute.find(name) for name in options.notebooks] or execute.known()
    names = [name for name in names if "first_seed" in LIMITS[name] and judges(name)]
    waiting = [name for name in names if options.again or not is_done(name)]
    for name in [name for name in names if name not in waiting]:
        print(f"{name:28} is stored already")
    waiting.sort(key=expected, reverse=True)  # the longest first
    return execute.run_all(waiting, job, put, options.scheduler, expected)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="names such as 02_parity; all if none")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, tcp://host:port")
    parser.add_argument("--again", action="store_true", help="run what is stored already, too")
    if execute.profile() != "paper":
        parser.error("SONODE_PROFILE makes other settings than the paper's: unset it")
    return parser.parse_args(arguments)


def place(name):
    return execute.ROOT / f"book/results/confirm/{name}.json"


def is_done(name):
    """Is it stored, for the experiment that the chapter's own record has now?"""
    with suppress(FileNotFoundError, Damaged):
        return read_json(place(name)).get("experiment") == experiment(name)
    return False


def judges(name):
    """Does the chapter judge a claim? Before its first run nobody knows, so it may."""
    record = execute.stored_record(name)
    return record is None or bool(record["claims"])


def experiment(name):
    """A hash of the rules and of the values behind them in the chapter's own record.

    A chapter may be rewritten. As long as its own seeds give the same values, to six digits,
    the experiment is the same, and what its confirming seeds gave stays true.
    """
    record = execute.stored_record(name) or {"claims": []}
    parts = [
        (
            claim["id"],
            group,
            name,
            part.rule,
            part.options,
            side,
            [f"{x:.6g}" for x in row.flat],
        )
        for claim in record["claims"]
        for group, own in groups_of(record, claim).items()
        for name, part in own.items()
        for side, row in part.rows.items()
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def expected(name):
    """Seconds, from the chapter's own record and its number of seeds."""
    seeds = LIMITS[name]["seeds"]["paper"]
    return execute.last_seconds(name) * CONFIRM["seeds"] / seeds


def job(name):
    return execute.task(name, CONFIRM)


def put(job, files):
    """Keep the record, if it is that of a confirming run on the data it should be on."""
    record = json.loads(files[f"book/results/{job.name}.json"])
    if record["profile"] != "confirm" or record["data"] == "simulated":
        kind = "stand-ins of the data" if record["data"] == "simulated" else record["profile"]
        draft = execute.write_draft(job, files)
        execute.reject(job.name, draft, f"it ran with {kind}, so it confirms nothing")
    write_json(place(job.name), record | {"experiment": experiment(job.name)})


if __name__ == "__main__":
    execute.stop_in_one_line()
    sys.exit(main())
