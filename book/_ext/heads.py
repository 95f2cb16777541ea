"""What the head of a page tells search engines and link previews: title and description.

The description is a chapter's question and answer, or else the page's own opening: the first
sentences of its first plain paragraph, as far as they need no formula.
"""

import re
from html import escape

from docutils import nodes

LONGEST = 250


def describe(app, pagename, templatename, context, doctree):
    title, book = context.get("title", ""), context.get("docstitle", "")
    if title == book:
        context["title"] = "Introduction"  # the first page need not say the name twice
    if doctree is not None:
        words = escape(opening(doctree) or f"{title} of the book “{book}”", quote=True)
        context["metatags"] += f'\n<meta name="description" content="{words}">'


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
