"""Pages that read the records: tables by Jinja templates, in which every value is escaped, and
the role {quote}`02_parity excess .5f` for a number that a notebook kept with `run.quote`.
"""

import json
from pathlib import Path

from docutils import nodes
from jinja2 import Environment, FileSystemLoader
from sphinx.util.docutils import SphinxDirective, SphinxRole

from sonode_utils.evidence import scorecard
from sonode_utils.evidence.tables import counted

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
TEMPLATES.globals["counted"] = counted


class RecordTable(SphinxDirective):
    """{records} NAME: the template of that name, filled from book/results."""

    required_arguments = 1

    def run(self):
        folder = Path(self.env.srcdir, "book/results")
        html = render(self.arguments[0], folder)
        return [nodes.raw("", html, format="html")]


def render(name, folder):
    """One table of the pages as HTML."""
    rows, records = scorecard.scorecard(folder), scorecard.load_results(folder)
    known = {"rows": rows, "counts": scorecard.counts(rows), "records": records}
    known |= VIEWS[name](rows, records, folder)
    return TEMPLATES.get_template(f"{name}.html").render(**known)


def groups(rows, records, folder):
    names = dict.fromkeys(row["group"] for row in rows)
    return {"groups": {name: [row for row in rows if row["group"] == name] for name in names}}


def status(rows, records, folder):
    """What the notebooks ran with is mostly the same: it stands once, under a letter."""
    made_with = [
        ", ".join([r["machine"], r["instructions"], *map(" ".join, r["versions"].items())])
        for r in records
    ]
    letters = dict(zip(dict.fromkeys(made_with), "abcdefghijklmnopqrstuvwxyz"))
    seconds = [record["cpu_seconds"] for record in records]
    lines = zip(records, seconds, (letters[text] for text in made_with))
    return {"lines": list(lines), "total": round(sum(seconds)), "letters": letters}


def comparison(rows, records, folder):
    """What tools/compare_check.py stored: faults that are seen, re-runs that are not."""
    path = Path(folder, "comparison.json")
    return json.loads(path.read_text("utf8")) if path.exists() else {}


VIEWS = {"counts": lambda *_: {}, "scorecard": groups, "status": status}
VIEWS["comparison"] = comparison


class Quote(SphinxRole):
    """{quote}`notebook name format`: a number from that notebook's record."""

    def run(self):
        notebook, name, *form = self.text.split()
        path = Path(self.env.srcdir, f"book/results/{notebook}.json")
        value = json.loads(path.read_text("utf8"))["quotes"][name]
        return [nodes.Text(format(value, form[0] if form else ""))], []


def setup(app):
    app.add_directive("records", RecordTable)
    app.add_role("quote", Quote())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
