"""In every chapter the first use of each word of the glossary leads to its explanation.

The notebooks stay plain: JupyterLab shows their words without any markup of Sphinx.
"""

import re
from pathlib import Path

from docutils import nodes

PAGE = "book/glossary"
PLAIN = (nodes.reference, nodes.literal, nodes.title, nodes.caption, nodes.math, nodes.raw)


def words(srcdir):
    """{word: its explanation}, from the glossary's own source."""
    text = Path(srcdir, f"{PAGE}.md").read_text("utf8")
    body = re.search(r"```\{glossary\}\n(.*?)```", text, re.S)[1]
    return dict(re.findall(r"^(\S.*)\n  (.*)$", body, re.M))


def link_first_uses(app, doctree):
    if not app.env.docname.startswith("notebooks/"):
        return
    waiting = words(app.srcdir)
    for paragraph in doctree.findall(nodes.paragraph):
        for text in [t for t in paragraph.findall(nodes.Text) if plain(t, paragraph)]:
            link_in(text, waiting)


def plain(text, paragraph):
    """Is it running text, and not inside a link, code or formula?"""
    above = text.parent
    while above is not paragraph:
        if isinstance(above, PLAIN):
            return False
        above = above.parent
    return not isinstance(paragraph.parent, nodes.block_quote)


def link_in(text, waiting):
    """Turn the first word of the text that is still waiting into a link."""
    found = [
        (match.start(), word, match[0])
        for word in waiting
        if (match := re.search(rf"\b{re.escape(word)}s?\b", text, re.I))
    ]
    if not found:
        return
    start, word, shown = min(found, key=lambda one: (one[0], -len(one[1])))
    anchor = "term-" + re.sub(r"[^a-z0-9]+", "-", word.lower())
    link = nodes.reference(
        "", shown, internal=True, refuri=f"../{PAGE}.html#{anchor}", reftitle=waiting.pop(word)
    )
    link["classes"] = ["term"]
    rest = nodes.Text(text[start + len(shown) :])
    text.parent.replace(text, [nodes.Text(text[:start]), link, rest])
    link_in(rest, waiting)


def setup(app):
    app.connect("doctree-read", link_first_uses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
