"""Say what the pinned torch fetches, and how large it is; then install it.

    python tools/install_torch.py [address of another index]

Every other pin is installed by then. On Linux the plain torch of a package index is often the
CUDA build, several gigabytes with its companions; a CPU is all that this book needs.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
ADVICE = """It is the CUDA build, and a CPU is enough here. To fetch the CPU build, stop now
and name its index, whose address PyTorch's installation page has:
    make book TORCH_INDEX=<address>"""


def main(index: str = "") -> int:
    (pin,) = re.findall(r"^torch==.*$", (ROOT / "requirements.lock").read_text("utf8"), re.M)
    wanted = [*(["--index-url", index] if index else []), pin]
    print(said(planned(wanted)), end="", flush=True)
    return subprocess.run([*PIP, *wanted]).returncode


def planned(wanted: list[str]) -> list[dict]:
    """What pip would fetch; nothing where it cannot tell, and installing then says why."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        subprocess.run([*PIP, "--dry-run", "--report", report, *wanted], capture_output=True)
        return json.loads(report.read_text("utf8"))["install"] if report.exists() else []


def said(packages: list[dict], size=None) -> str:
    """One line on what will be fetched, and the advice if it is more than a CPU needs."""
    if not packages:
        return ""
    names = {p["metadata"]["name"]: p["metadata"]["version"] for p in packages}
    sizes = [(size or bytes_of)(p["download_info"]["url"]) for p in packages]
    known = sum(n for n in sizes if n)
    amount = f"{known / 1e6:,.0f} MB" if known else "of unknown size"
    more = f" and {len(names) - 1} packages that it needs" if len(names) > 1 else ""
    least = "at least " if known and not all(sizes) else ""
    line = f"Fetching torch {names.get('torch', '')}{more}: {least}{amount}.\n"
    return line + f"{ADVICE}\n" * any(name.startswith("nvidia-") for name in names)


def bytes_of(url: str) -> int | None:
    """The size that the server, or the disk, gives for a file."""
    if url.startswith("file:"):
        return Path(urllib.request.url2pathname(url.removeprefix("file://"))).stat().st_size
    question = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(question, timeout=20) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
