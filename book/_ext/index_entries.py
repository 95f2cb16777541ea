"""The index: beside the glossary and the package, it lists claims, statements, models and data.

All entries are found in the pages themselves. A chapter is listed under the models and the
data that it names; the entry leads to the first section that does.
"""

import re

from docutils import nodes

from sonode_utils.evidence.report import CATALOGUE

CLAIM = re.compile(r'id="claim-(\w+)"')
MODELS = ["NODE", "ANODE", "SONODE", "TONODE"]
OFTEN = 5  # times that a chapter names a model in its text; once is enough for data
DATA = {
    "damped oscillators": "[Dd]amped oscillators?", "Duffing oscillator": "Duffing",
    "F-16 airplane": "F-16|[Aa]irplane", "MNIST": "MNIST", "nested spheres": "spheres",
    "noisy sine": "noisy sine", "parity": "[Pp]arity", "Silverbox": "Silverbox",
    "Van der Pol oscillator": "[Vv]an der Pol",
}  # fmt: skip


def add_entries(app, doctree):
    env = app.env
    found = [*claims(doctree), *statements(doctree)]
    if env.docname.startswith("notebooks/"):
        found += names(doctree)
    entries = env.get_domain("index").entries.setdefault(env.docname, [])
    entries += [(kind, text, target, "", None) for kind, text, target in found]


def claims(doctree):
    """Where a claim has an anchor: in the table of its chapter and on the scorecard."""
    for raw in doctree.findall(nodes.raw):
        for claim in CLAIM.findall(raw.astext()):
            statement = CATALOGUE[claim]["statement"].replace(";", ",")
            yield "single", f"claims; {claim} {statement}", f"claim-{claim}"


def statements(doctree):
    """Propositions, corollaries and theorems, under their kind and under their own title."""
    for node in doctree.findall(lambda node: "realtype" in getattr(node, "attributes", {})):
        title = re.sub(r"\s*\(.*", "", node["title"].strip(" ()"))  # not "(the paper's 5.2)"
        yield "pair", f"{node['realtype']}; {title}", node["label"]


def names(doctree):
    title = re.split("[:?]", next(doctree.findall(nodes.title)).astext())[0]
    texts = [*doctree.findall(nodes.paragraph), *doctree.findall(nodes.caption)]
    for name, pattern in (dict(zip(MODELS, MODELS)) | DATA).items():
        places = [t for t in texts for _ in re.findall(rf"\b({pattern})", t.astext())]
        if len(places) >= (OFTEN if name in MODELS else 1):
            yield "single", f"{name}; {title}", section(places[0])["ids"][0]


def section(place):
    """The innermost section around a paragraph."""
    while not isinstance(place, nodes.section):
        place = place.parent
    return place


def setup(app):
    app.connect("doctree-read", add_entries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
