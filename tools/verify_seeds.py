"""Judge every claim again with other seeds, or in double precision, and say what turned.

    python tools/verify_seeds.py [--first 1000] [--double] [notebook ...]

Neither notebooks nor book/results are touched: the record goes to _build/other-seeds.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import execute
import run_notebook
from locks import Busy

from sonode_utils.evidence.report import write_json

DOUBLE = "\n\n__import__('torch').set_default_dtype(__import__('torch').float64)"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="names such as 02_parity; all if none")
    parser.add_argument("--first", type=int, default=1000, help="the first of the other seeds")
    parser.add_argument("--double", action="store_true", help="the same seeds, in float64")
    options = parser.parse_args(arguments)
    names = [execute.find(name) for name in options.notebooks] or execute.known()
    names = sorted(names, key=execute.last_seconds, reverse=True)
    kind = "double" if options.double else str(options.first)
    with ThreadPoolExecutor(2) as pool:  # each waits for a kernel of its own
        told = list(pool.map(lambda name: verify(name, kind), names))
    failed = told.count(None)
    print(f"\n{sum(filter(None, told))} claims turned, {failed} notebooks failed")
    return 1 if failed else 0


def verify(name, kind):
    """Run one notebook again; the number of its claims that turned, None if it failed."""
    name, text, _, records = execute.task(name, None)
    before = json.loads((execute.ROOT / f"book/results/{name}.json").read_text("utf8"))
    try:
        with execute.one_at_a_time(name):
            return judge_again(name, kind, before, *variant(text, kind), records)
    except (RuntimeError, Busy) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None


def judge_again(name, kind, before, text, parameters, records):
    """Run it, keep its record, say which verdicts turned, and how many."""
    files = run_notebook.run(name, text, parameters, records, replaces=False)
    after = json.loads(files[f"book/results/{name}.json"])
    write_json(execute.ROOT / f"_build/other-seeds/{kind}/{name}.json", after)
    verdicts = {claim["id"]: claim["verdict"] for claim in after["claims"]}
    turned = changed(before["claims"], verdicts)
    print("\n".join([f"{name}: {len(verdicts)} claims judged again", *turned]), flush=True)
    return len(turned)


def variant(text, kind):
    """The notebook's text and the parameters to run it with."""
    if kind != "double":
        return text, {"first_seed": int(kind)} if "first_seed" in text else {}
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = "".join(cell["source"]) + DOUBLE
    return json.dumps(notebook), {}


def changed(claims, verdicts):
    """Which claims turned, in words."""
    return [
        f"  {c['id']}: {c['verdict']}, then {verdicts[c['id']]}"
        for c in claims
        if verdicts[c["id"]] != c["verdict"]
    ]


if __name__ == "__main__":
    sys.exit(main())
