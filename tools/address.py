"""Write the project's address, `repository: url` in _config.yml, wherever a file has to say it.

    python tools/address.py [https://github.com/<owner>/<name> | none]

With an address, or with "none", the setting itself is changed first. What follows from it
stands between two marks in README.md, CITATION.cff and pyproject.toml.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "book/_ext"))
from launch import BINDER, COLAB, Project, of_checkout, project  # noqa: E402

START, END = "what follows from the address, written by tools/address.py", "end of that"
SETTING = re.compile(r'(?<=^repository:\n  url: )".*"$', re.M)
CHECK = "actions/workflows/check.yml"
BLOCKS = {
    "README.md": f"""\
[![what the last check said]({{address}}/{CHECK}/badge.svg)]({{address}}/{CHECK})
[![run it on Binder]({BINDER}/badge_logo.svg)]({{binder}})
[![run it in Colab]({COLAB}/assets/colab-badge.svg)]({{colab}})

**[Read the book]({{pages}})**, or print it: [the book]({{pages}}book.pdf),
[the report on four pages]({{pages}}report.pdf).
""",
    "CITATION.cff": """\
repository-code: "{address}"
url: "{pages}"
""",
    "pyproject.toml": """\
[project.urls]
Homepage = "{pages}"
Repository = "{address}"
Issues = "{address}/issues"
""",
}


def main(to: str = "") -> None:
    config = ROOT / "_config.yml"
    if to:
        home = project("" if to == "none" else to)
        text = config.read_text("utf8")
        change(config, SETTING.sub(f'"{home.address if home else ""}"', text))
    home = of_checkout(ROOT)
    for name in BLOCKS:
        change(ROOT / name, followed(name, (ROOT / name).read_text("utf8"), home))
    print(f"The project's address is {home.address}." if home else "There is no address.")


def change(path: Path, text: str) -> None:
    """Leave a file that has this text alone: make looks at its date."""
    if path.read_text("utf8") != text:
        path.write_text(text, "utf8")


def followed(name: str, text: str, home: Project | None) -> str:
    """The text of a file with what follows from the address between its two marks."""
    left, right = ("<!-- ", " -->") if name.endswith(".md") else ("# ", "")
    start, end = f"{left}{START}{right}\n", f"{left}{END}{right}\n"
    block = home.fill(BLOCKS[name]) if home else ""
    before, rest = text.split(start)
    return before + start + block + end + rest.split(end)[1]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as wrong:
        sys.exit(str(wrong))
