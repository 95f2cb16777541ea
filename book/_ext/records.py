"""Pages that read the records: tables by Jinja templates, in which every value is escaped, and
the role {quote}`02_parity excess .5f` for a number that a notebook kept with `run.quote`.
"""

import base64
import io
import json
from functools import cache
from pathlib import Path

import numpy as np
from docutils import nodes
from forest import NARROW, forest
from jinja2 import Environment, FileSystemLoader
from paper_map import paper_map
from sphinx.util.docutils import SphinxDirective, SphinxRole

from sonode_utils.evidence import scorecard
from sonode_utils.evidence.tables import counted
from sonode_utils.evidence.verdicts import headline

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
TEMPLATES.globals |= {"counted": counted, "headline": headline}
THUMBNAIL = 320  # pixels, twice what the page shows


class RecordTable(SphinxDirective):
    """{records} NAME [claim ...]: the template of that name, filled from book/results."""

    required_arguments, optional_arguments = 1, 20

    def run(self):
        folder, (name, *ids) = Path(self.env.srcdir, "book/results"), self.arguments
        home = "" if self.env.docname.startswith("book/") else "../book/"
        return [nodes.raw("", render(name, folder, ids, home), format="html")]


def judged(folder):
    """The scorecard's rows and the records, judged once for as long as no file changes."""
    files = sorted(Path(folder).rglob("*.json"))
    return judge_once(folder, tuple((path, path.stat().st_mtime_ns) for path in files))


@cache
def judge_once(folder, files):
    return scorecard.scorecard(folder), scorecard.load_results(folder)


def render(name, folder, ids=(), home="", **more):
    """One table of the pages as HTML; more: what else its template asks for."""
    rows, records = judged(folder)
    known = {"rows": rows, "counts": scorecard.counts(rows), "records": records, "home": home}
    known |= VIEWS[name](rows, records, folder, ids) | more
    return TEMPLATES.get_template(f"{name}.html").render(**known)


def groups(rows, records, folder, ids):
    names = dict.fromkeys(row["group"] for row in rows)
    return {"groups": {name: [row for row in rows if row["group"] == name] for name in names}}


def status(rows, records, folder, ids):
    """What the notebooks ran with is mostly the same: it stands once, under a letter."""
    made_with = [
        ", ".join([r["machine"], r["instructions"], *map(" ".join, r["versions"].items())])
        for r in records
    ]
    letters = dict(zip(dict.fromkeys(made_with), "abcdefghijklmnopqrstuvwxyz"))
    seconds = [record["cpu_seconds"] for record in records]
    lines = zip(records, seconds, (letters[text] for text in made_with))
    return {"lines": list(lines), "total": round(sum(seconds)), "letters": letters}


def comparison(rows, records, folder, ids):
    """What tools/compare_check.py stored: faults that are seen, re-runs that are not."""
    path = Path(folder, "comparison.json")
    return json.loads(path.read_text("utf8")) if path.exists() else {}


def simulated(rows, records, folder, ids):
    """What tools/simulate_rules.py stored: coverage of intervals, rates of the comparison."""
    path = Path(folder, "simulated.json")
    if not path.exists():
        return {}
    found = json.loads(path.read_text("utf8"))
    for name, keys in (
        ("coverage", ("interval", "shape")),
        ("comparison", ("seeds", "quantities")),
    ):
        lines = {}
        for row in found[name]:
            lines.setdefault(tuple(row[key] for key in keys), []).append(row)
        found[name] = sorted(lines.items())
    return found


def dataset(rows, records, folder, ids):
    """How much the records hold, and what their schema says of each field."""
    schema = json.loads((Path(__file__).parents[1] / "record.schema.json").read_text("utf8"))
    known = [*records, *scorecard.load_results(Path(folder, "confirm"))]
    parts = [part for r in known for claim in r["claims"] for part in claim["parts"]]
    numbers = sum(np.size(values) for r in known for values in r["values"].values())
    objects = {"": schema} | {
        f"{name}: ": schema["definitions"][name] for name in ("claim", "part")
    }
    fields = [
        (at + name, f) for at, o in objects.items() for name, f in o["properties"].items()
    ]
    return {"fields": fields, "files": len(known), "parts": len(parts), "numbers": numbers}


def forest_plot(rows, records, folder, ids):
    plots = {"wide": forest(rows, ids), "narrow": forest(rows, ids, NARROW)}
    return {"plots": plots}


def card(rows, records, folder, ids):
    """A chapter's claims and its computing time; ids: the notebook's name."""
    record = next(
        (r for r in records if r["notebook"] in ids), {"claims": [], "cpu_seconds": 0}
    )
    own = [claim["id"] for claim in record["claims"]]
    shown = [row for row in rows if row["id"] in own]
    return {"shown": shown, "minutes": max(1, round(record["cpu_seconds"] / 60))}


def add_card(app, doctree):
    """Below the question and the answer of a chapter: the word of each claim, and the times."""
    place, _, name = app.env.docname.partition("/")
    quotes = list(doctree.findall(nodes.block_quote))
    if place == "notebooks" and quotes:
        prose = [p for p in doctree.findall(nodes.paragraph) if p.parent.tagname != "container"]
        reading = max(1, round(sum(len(p.astext().split()) for p in prose) / 200))
        html = render("card", Path(app.srcdir, "book/results"), [name], reading=reading)
        quotes[0]["classes"].append("chapter-box")
        quotes[0].append(nodes.raw("", html, format="html"))


VIEWS = {"card": card, "counts": lambda *_: {}, "scorecard": groups, "status": status}
VIEWS |= {"comparison": comparison, "forest": forest_plot, "results": groups}
VIEWS |= {"simulated": simulated, "map": paper_map, "dataset": dataset}


def make_thumbnails(app, error):
    """Small copies of the figures that the scorecard shows, from the stored notebooks."""
    if error or app.builder.format != "html":
        return
    from PIL import Image

    wanted = {row.get("figure") for row in scorecard.CATALOGUE.values()}
    folder = Path(app.outdir, "_static/thumbs")
    folder.mkdir(parents=True, exist_ok=True)
    for path in Path(app.srcdir, "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf8"))["cells"]:
            name = cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")
            shown = [output.get("data", {}) for output in cell.get("outputs", [])]
            images = [data["image/png"] for data in shown if "image/png" in data]
            if name in wanted and images:
                picture = Image.open(io.BytesIO(base64.b64decode(images[0])))
                picture.thumbnail((THUMBNAIL, THUMBNAIL))
                picture.save(folder / f"{name}.png", optimize=True)


class Quote(SphinxRole):
    """{quote}`notebook name format`: a number that a notebook kept, or one of its settings."""

    def run(self):
        notebook, name, *form = self.text.split()
        path = Path(self.env.srcdir, f"book/results/{notebook}.json")
        record = json.loads(path.read_text("utf8"))
        value = (record["settings"] | record["quotes"])[name]
        return [nodes.Text(format(value, form[0] if form else ""))], []


class Version1(SphinxRole):
    """{version1}`date` or {version1}`commit`: when the words of version 1 were frozen."""

    def run(self):
        path = Path(self.env.srcdir, "book/results/version1.json")
        frozen = json.loads(path.read_text("utf8"))
        known = {"commit": frozen["commit"][:7], "date": max(frozen["dates"].values())}
        return [nodes.Text(known[self.text])], []


class Judged(SphinxRole):
    """{word}`P4`, {effect}`P4` or {found}`P4`: what the scorecard says of a claim."""

    def run(self):
        rows, _ = judged(Path(self.env.srcdir, "book/results"))
        row = next(row for row in rows if row["id"] == self.text)
        if self.name == "word":
            html = TEMPLATES.get_template("macros.html").module.verdict(row["word"])
            return [nodes.raw("", str(html), format="html")], []
        return [nodes.Text(headline(row) if self.name == "effect" else row["ours"])], []


def setup(app):
    app.add_directive("records", RecordTable)
    app.add_role("quote", Quote())
    app.add_role("version1", Version1())
    for name in ("word", "effect", "found"):
        app.add_role(name, Judged())
    app.connect("doctree-read", add_card)
    app.connect("build-finished", make_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
