"""Build _build/html; a warning or a failing page is a failed build."""

import os
import re
import subprocess
import sys
from pathlib import Path

from execute import finish_all
from locks import Busy, locked
from vendor import vendor

ROOT = Path(__file__).parents[1]


def main(target=ROOT):
    try:
        with locked(Path(target) / "_build/book.lock", "another make book is at work here"):
            build(Path(target))
    except Busy as busy:
        sys.exit(f"{busy}: wait for it, or stop it")


def build(target):
    finish_all()
    missing = vendor()
    page = jupyter_book(target, "html/index.html", "-W", "--keep-going")
    if missing:
        texts = {path: path.read_text("utf8") for path in sorted(page.parent.rglob("*.html"))}
        names = [path.stem for path, text in texts.items() if 'class="math' in text]
        print(f"{missing}.\nFormulas are shown as TeX on these pages: {', '.join(names)}")
    print(f"The book is at {page}")


def jupyter_book(target, page, *options):
    """Build into target/_build -> the path of a page there, which must have come of it."""
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(ROOT)]
    command += ["--path-output", str(target), "--all", "--quiet", *options]
    environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    page = target / "_build" / page
    if done.returncode or not page.exists():
        said = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)  # no colours
        print(said[-8000:], file=sys.stderr)
        first = re.search(r"^.*\b(WARNING|ERROR|CRITICAL|\w+Error): .*$", said, re.M)
        sys.exit(f"The book did not build. First: {first[0] if first else 'see above'}")
    return page


if __name__ == "__main__":
    main(*sys.argv[1:])
