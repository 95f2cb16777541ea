"""Fetch the JavaScript the book needs, so that its pages open with no network.

The packages come by name through npm, their archives checked against the hashes below, and
the files that were kept against the hashes they had. Without npm or a network the book still
builds: its formulas then stay TeX, and the build says on which pages.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENDOR = ROOT / "assets" / "vendor"
MATHJAX = (
    "mathjax@3.2.2",
    "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09",
)
AXE = (
    "axe-core@4.14.0",
    "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af",
)
# Python 3.11.0 to 3.11.3 has no filter; the archives are those we pinned all the same.
SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def vendor():
    """ "" when assets/vendor is complete, or else the reason why it cannot be had."""
    if (VENDOR / "complete").exists():
        damaged = [name for name, known in _kept().items() if _sha256(VENDOR / name) != known]
        if not damaged:
            return ""
        aside = VENDOR.with_name(f".{VENDOR.name}.damaged")
        shutil.rmtree(aside, ignore_errors=True)
        VENDOR.rename(aside)
        print(f"{VENDOR / damaged[0]} is damaged: {aside.name} has it now; fetching it again")
    if shutil.which("npm") is None:
        return "npm is not installed"
    draft = VENDOR.with_name(f".{VENDOR.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # what a killed build left behind
    try:
        _lay_out(_fetch(*MATHJAX, _folder(draft)), draft)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        return str(error)
    shutil.rmtree(VENDOR, ignore_errors=True)
    draft.rename(VENDOR)
    return ""


def _kept():
    """{name: sha256} of the files that were kept; nothing of that where it cannot be read."""
    try:
        return json.loads((VENDOR / "complete").read_text("utf8"))
    except ValueError:
        return {"complete": ""}


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def _fetch(name, sha256, draft):
    """One package's files, from an archive whose hash is the one we know."""
    command = ["npm", "pack", "--loglevel=error", "--pack-destination", str(draft), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        lines = [line.removeprefix("npm error ") for line in done.stderr.splitlines()]
        said = [line for line in lines if " " in line and "complete log" not in line]
        raise OSError(f"npm could not fetch {name}: {'; '.join(said[:2]) or 'no reason given'}")
    archive = draft / done.stdout.split()[-1]
    found = _sha256(archive)
    if found != sha256:
        raise ValueError(f"{name} has sha256 {found}, not {sha256}: not used")
    target = _folder(draft / archive.stem)
    with tarfile.open(archive) as tar:
        tar.extractall(target, **SAFELY)
    archive.unlink()
    return target / "package"


def _lay_out(mathjax, draft):
    """Keep what the pages load, under the names that _ext/offline.py knows."""
    es5, maths = mathjax / "es5", _folder(draft / "mathjax")
    shutil.copy(es5 / "tex-mml-chtml.js", maths)
    shutil.copytree(es5 / "output/chtml/fonts", maths / "output/chtml/fonts")
    shutil.copytree(es5 / "input/tex/extensions", maths / "input/tex/extensions")
    shutil.rmtree(mathjax.parent)
    kept = {str(p.relative_to(draft)): _sha256(p) for p in maths.rglob("*") if p.is_file()}
    (draft / "complete").write_text(json.dumps(kept), "utf8")


def axe(folder):
    """The accessibility checker that the browser tests put into each page, as a path."""
    folder.mkdir(parents=True, exist_ok=True)
    package = _fetch(*AXE, folder)
    return shutil.move(package / "axe.min.js", folder / "axe.min.js")


if __name__ == "__main__":
    vendor()
