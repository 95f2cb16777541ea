"""Interactive figures in the static page: each one's own script, a small loader, no kernel.

A stored figure is its name and its data (`sonode_utils.figures`). The page gets the script of
that figure and assets/figures.js, which draws it. Without JavaScript a still picture
(tools/stills.py) stands in its place. A page that runs no code may borrow a notebook's figure.
"""

import json
import re
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst.directives import unchanged_required
from sphinx.util.docutils import SphinxDirective

from sonode_utils.figures import JS, figure, sources

FIGURE = re.compile(
    r'(<div class="sonode-data" data-figure="(\w+)" data-description="([^"]*)">)<p>.*?</p>',
    re.S,
)
LABORATORY = ("engine", "worker", "experiment", "view", "pad", "page")
STORED = re.compile(
    r'data-figure="(\w+)".*?<script type="application/json">(.*?)</script>', re.S
)
STORE = (
    '<div class="sonode-data" data-figure="laboratory" data-description="{words}"><p></p>'
    '<script type="application/json">{{}}</script></div>'
)
SCRIPT = "(window.sonodeFigures ??= {{}}).{name} = (() => {{\n{code}\n}})();\n"


def write_scripts(app):
    """One classic script per figure: pages opened from the file system load no modules."""
    folder = Path(app.outdir, "_static", "figures")
    folder.mkdir(parents=True, exist_ok=True)
    codes = {path.stem: sources(path.stem)["_esm"] for path in JS.glob("*.js")}
    codes |= {"laboratory": laboratory(Path(app.srcdir) / "assets/laboratory")}
    for name in codes.keys() - {"common"}:
        code = codes[name].replace("export default", "return")
        (folder / f"{name}.js").write_text(SCRIPT.format(name=name, code=code), "utf8")
    (folder / "figures.css").write_text(sources("parity")["_css"], "utf8")


def laboratory(folder):
    """The laboratory's script: it stays out of the package, which needs no browser."""
    paths = [JS / "common.js", *(folder / f"{name}.js" for name in LABORATORY)]
    return "\n".join(
        [*(path.read_text("utf8") for path in paths), "export default { render };"]
    )


def add_figures(app, pagename, templatename, context, doctree):
    """The scripts that this page's figures need, and a still picture for each."""
    count = iter(range(1000))

    def with_still(match):
        still = f"stills/{pagename.split('/')[-1]}-{next(count)}.png"
        return match[1] + _noscript(app, context, still, match[3])

    names = {match[2] for match in FIGURE.finditer(context.get("body", ""))}
    if names:
        context["body"] = FIGURE.sub(with_still, context["body"])
        app.add_css_file("figures/figures.css")
        for name in sorted(names):
            app.add_js_file(f"figures/{name}.js", loading_method="defer")
        app.add_js_file("figures.js", loading_method="defer")


def _noscript(app, context, still, words):
    """words: the figure's description, escaped already as the attribute it was read from."""
    if not (Path(app.srcdir) / "assets" / still).exists():
        return f"<noscript><p>This figure needs JavaScript. {words}</p></noscript>"
    source = context["pathto"](f"_static/{still}", 1)
    return f'<noscript><img class="still" src="{source}" alt="{words}"></noscript>'


class Borrowed(SphinxDirective):
    """{borrowed} 02_parity fig-parity-play: a figure that this notebook stored, and a caption.

    part: the key of the data that the page needs; alt: what the figure shows, in a sentence.
    """

    required_arguments, has_content = 2, True
    option_spec = dict.fromkeys(("part", "alt"), unchanged_required)

    def run(self):
        notebook, name = self.arguments
        path = Path(self.env.srcdir, f"notebooks/{notebook}.ipynb")
        self.env.note_dependency(str(path))
        html = borrow(path, name, self.options["part"], self.options["alt"])
        return [_with_caption(self, html, f"front-{name}")]


class Laboratory(SphinxDirective):
    """{laboratory}: the figure that trains in the page, and a caption; alt as of {borrowed}."""

    has_content, option_spec = True, {"alt": unchanged_required}

    def run(self):
        html = STORE.format(words=escape(self.options["alt"], quote=True))
        return [_with_caption(self, html, "fig-laboratory")]


def _with_caption(directive, html, label):
    words = nodes.Element()
    directive.state.nested_parse(directive.content, directive.content_offset, words)
    caption = nodes.caption("", "", *words[0].children)
    return nodes.figure("", nodes.raw("", html, format="html"), caption, ids=[label])


def borrow(path, name, part, words):
    """The stored figure of this name as HTML, with data[key][part] alone of each key's data."""
    for cell in json.loads(path.read_text("utf8"))["cells"]:
        if cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") == name:
            for output in cell["outputs"]:
                html = "".join(output.get("data", {}).get("text/html", ""))
                if stored := STORED.search(html):
                    data = json.loads(stored[2])
                    kept = {key: {part: values[part]} for key, values in data.items()}
                    return figure(stored[1], kept, words).stored()
    raise ValueError(f"{path.name} has no stored figure of the name {name}")


def setup(app):
    app.add_directive("borrowed", Borrowed)
    app.add_directive("laboratory", Laboratory)
    app.connect("builder-inited", write_scripts)
    app.connect("html-page-context", add_figures, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
