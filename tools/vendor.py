"""Fetch the JavaScript the book needs, so that its pages open with no network.

The packages come by name through npm, their archives checked against the hashes below.
Without npm or a network the book still builds: its pages then load MathJax
from a public CDN, and the build says so.
"""

import hashlib
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
    """True when assets/vendor is complete; False, with a word, when it cannot be had."""
    if (VENDOR / "complete").exists():
        return True
    if shutil.which("npm") is None:
        print("npm is not installed: the pages will load MathJax from a CDN")
        return False
    draft = VENDOR.with_name(f".{VENDOR.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # what a killed build left behind
    try:
        _lay_out(_fetch(*MATHJAX, _folder(draft)), draft)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"{error}\nthe pages will load MathJax from a CDN")
        shutil.rmtree(draft, ignore_errors=True)
        return False
    shutil.rmtree(VENDOR, ignore_errors=True)
    draft.rename(VENDOR)
    return True


def _folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def _fetch(name, sha256, draft):
    """One package's files, from an archive whose hash is the one we know."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(draft), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise OSError(f"npm could not fetch {name}: {done.stderr.strip()[-200:]}")
    archive = draft / done.stdout.split()[-1]
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
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
    (draft / "complete").touch()


def axe(folder):
    """The accessibility checker that the browser tests put into each page, as a path."""
    folder.mkdir(parents=True, exist_ok=True)
    package = _fetch(*AXE, folder)
    return shutil.move(package / "axe.min.js", folder / "axe.min.js")


if __name__ == "__main__":
    vendor()
