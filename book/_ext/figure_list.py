"""{figure-list}: every numbered figure of the book with the first sentence of its caption."""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

# A full stop that ends a sentence, and not one in "Fig. 2" or "Prop. 5.1".
SENTENCE = re.compile(r".*?(?<!Fig)(?<!Eq)(?<!Prop)[.?!](?=\s|$)", re.S)


class figure_list(nodes.General, nodes.Element):
    """Stands for the list until every page has been read and numbered."""


class FigureList(SphinxDirective):
    def run(self):
        return [figure_list()]


def fill(app, doctree, docname):
    for place in list(doctree.findall(figure_list)):
        items = []
        for page in in_order(app.env):
            for figure, number in numbered(app.env, page):
                items.append(item(app.builder, docname, page, figure, number))
        place.replace_self(nodes.bullet_list("", *items, classes=["figure-list"]))
        # The captions have formulas, so the page needs MathJax.
        app.env.get_domain("math").data["has_equations"][docname] = True


def in_order(env):
    """The pages as the contents list them."""
    pages = [env.config.root_doc]
    for toctree in env.tocs[env.config.root_doc].findall(nodes.Element):
        pages += toctree.get("includefiles", [])
    return pages


def numbered(env, page):
    numbers = env.toc_fignumbers.get(page, {}).get("figure", {})
    for figure in env.get_doctree(page).findall(nodes.figure):
        if figure["ids"] and numbers.get(figure["ids"][0]):
            yield figure, ".".join(map(str, numbers[figure["ids"][0]]))


def item(builder, docname, page, figure, number):
    name = nodes.inline("", f"Fig. {number}")
    link = make_refnode(builder, docname, page, figure["ids"][0], name)
    caption = next(figure.findall(nodes.caption))
    words = nodes.paragraph("", "", link, nodes.Text(" "), *first_sentence(caption))
    return nodes.list_item("", words)


def first_sentence(caption):
    """Text and formulas up to the first full stop; links and the like as plain words."""
    kept = []
    for part in caption.children:
        if isinstance(part, nodes.math):
            kept.append(part.deepcopy())
        elif end := SENTENCE.match(part.astext()):
            return [*kept, nodes.Text(end[0])]
        else:
            kept.append(nodes.Text(part.astext()))
    return kept


def setup(app):
    app.add_node(figure_list)
    app.add_directive("figure-list", FigureList)
    app.connect("doctree-resolved", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
