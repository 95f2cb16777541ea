"""Sections, equations, figures, tables and statements of the paper, numbered as LaTeX would.

python tools/paper_labels.py ../shared/paper/paper.tex writes book/paper.json
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEVELS = ("section", "subsection", "subsubsection")
KINDS = {"wrapfigure": "figure", "abstract": "section"}
BEGIN = re.compile(
    r"\\(?P<appendix>appendix)\b|\\(?P<level>(?:sub)*section)(?P<star>\*?)\{(?P<title>[^}]*)\}"
    r"|\\begin\{(?P<kind>abstract|equation|figure|wrapfigure|table|proposition|corollary|lemma)\}"
)
WORDS = 4  # of a caption: enough to recognise it


def entries(tex):
    """Everything that the paper numbers, and its unnumbered sections, in the paper's order."""
    count, letters, found = dict.fromkeys((*LEVELS, "theorem"), 0), False, []
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    for begin in BEGIN.finditer(tex):
        if begin["appendix"]:
            count, letters = {**count, **dict.fromkeys(LEVELS, 0)}, True
        elif begin["level"]:
            title, rest = begin["title"], tex[begin.end() :]
            number = "" if begin["star"] else section_number(count, begin["level"], letters)
            label = re.match(r"\s*\\label\{([^}]*)\}", rest)
            found.append(entry("section", number, title, label))
        else:
            kind = KINDS.get(begin["kind"], begin["kind"])
            body = tex[begin.end() : tex.index(rf"\end{{{begin['kind']}}}", begin.end())]
            label = re.search(r"\\label\{([^}]*)\}", body.split(r"\begin{equation}")[0])
            title = "Abstract" if begin["kind"] == "abstract" else caption(body)
            found.append(entry(kind, number_of(kind, count, letters), title, label))
    return found


def entry(kind, number, title, label):
    found = {"kind": kind, "number": number, "title": title, "label": label and label[1]}
    return {name: value for name, value in found.items() if value}


def section_number(count, level, letters):
    """Count one more section of this level; deeper levels and the theorems begin again."""
    depth = LEVELS.index(level)
    count[level] += 1
    count |= dict.fromkeys(LEVELS[depth + 1 :], 0)
    count |= {"theorem": 0} if depth == 0 else {}
    first, *deeper = (count[name] for name in LEVELS[: depth + 1])
    return ".".join([top(first, letters), *map(str, deeper)])


def number_of(kind, count, letters):
    """Lemmas and propositions share a count per section; corollaries count within that."""
    if kind == "section":  # the abstract
        return ""
    if kind in ("lemma", "proposition"):
        count |= {"theorem": count["theorem"] + 1, "corollary": 0}
        return f"{top(count['section'], letters)}.{count['theorem']}"
    count[kind] = count.get(kind, 0) + 1
    if kind == "corollary":
        return f"{top(count['section'], letters)}.{count['theorem']}.{count[kind]}"
    return str(count[kind])


def top(section, letters):
    return chr(ord("A") + section - 1) if letters else str(section)


def caption(body):
    """The first words of a caption, without its formulas and citations."""
    words = re.search(r"\\caption\{([^$\\]*)", body)
    return " ".join(words[1].split()[:WORDS]) if words else ""


def main(source):
    lines = ",\n".join(json.dumps(row) for row in entries(Path(source).read_text("utf8")))
    (ROOT / "book/paper.json").write_text(f"[\n{lines}\n]\n", "utf8")


if __name__ == "__main__":
    main(*sys.argv[1:])
