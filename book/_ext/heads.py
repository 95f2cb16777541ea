"""What the head of a page tells search engines and link previews: title and description.

The description is what the page says of itself (`html_meta` above its text), or a chapter's
question and answer, or else the page's own opening: the first sentences of its first plain
paragraph, as far as they need no formula.
"""

import re
from html import escape

from docutils import nodes

LONGEST = 250
GENERATED = {
    "genindex": "Index of the book: terms, claims, propositions, models, data and functions.",
    "prf-prf": "All propositions, corollaries and theorems of the book, by their labels.",
    "py-modindex": "The modules of the package sonode_utils that comes with the book.",
    "search": "Search for a word in all chapters of the book and in its package.",
}


def describe(app, pagename, templatename, context, doctree):
    title, book = context.get("title", ""), context.get("docstitle", "")
    if title == book:
        context["title"] = "Introduction"  # the first page need not say the name twice
    words = GENERATED.get(pagename) or (opening(doctree) if doctree else "")
    tags = context.get("metatags", "")
    if words and 'name="description"' not in tags:
        words = escape(words, quote=True)
        context["metatags"] = f'{tags}\n<meta name="description" content="{words}">'


def opening(doctree):
    """The sentences of the box, or of the first paragraph that is not all in italics."""
    for box in doctree.findall(nodes.block_quote):
        text = " ".join(p.astext() for p in list(box.findall(nodes.paragraph))[:2])
        return _sentences(re.sub(r"\b(Question|Answer)\. ", "", text))
    for paragraph in doctree.findall(nodes.paragraph):
        plain = any(not isinstance(part, nodes.emphasis) for part in paragraph)
        if plain and isinstance(paragraph.parent, nodes.section):
            return _sentences(paragraph.astext())
    return ""


def _sentences(text):
    sentences = re.split(r"(?<=[.?!])\s+", text.replace("\n", " "))
    return _within(LONGEST, [s for s in sentences if "\\" not in s])


def _within(length, sentences):
    text = ""
    for sentence in sentences:
        if len(text) + len(sentence) > length:
            break
        text = f"{text} {sentence}".strip()
    return text


def setup(app):
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
