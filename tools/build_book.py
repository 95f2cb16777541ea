"""Build _build/html; a warning or a failing page is a failed build."""

import os
import subprocess
import sys
from pathlib import Path

from vendor import vendor

from sonode_utils.files import Refused, alone

ROOT = Path(__file__).parents[1]


def main(target=ROOT):
    try:
        with alone(Path(target) / "_build/book.lock", "another make book is at work here"):
            build(Path(target))
    except Refused as refused:
        sys.exit(f"{refused}: wait for it, or stop it")


def build(target):
    offline = vendor()
    page = jupyter_book(target, "html/index.html", "-W", "--keep-going")
    print(f"The book is at {page}" + ("" if offline else " (needs a network to show)"))


def jupyter_book(target, page, *options):
    """Build into target/_build -> the path of a page there, which must have come of it."""
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(ROOT)]
    command += ["--path-output", str(target), "--all", "--quiet", *options]
    environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    page = target / "_build" / page
    if done.returncode or not page.exists():
        print(done.stdout[-4000:], done.stderr[-8000:], sep="\n", file=sys.stderr)
        sys.exit("The book did not build: the first warning or error above says why.")
    return page


if __name__ == "__main__":
    main(*sys.argv[1:])
