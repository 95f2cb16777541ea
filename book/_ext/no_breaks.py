"""Lines never break inside a number such as 3e-15 or 5 %, or between a formula and its stop.

Browsers may break a line at the hyphen of an exponent and beside every inline formula. Both are
kept whole in the finished pages, in text only: code, scripts and tags stay as they are.
"""

import re

LEFT_ALONE = re.compile(r"(<(script|style|pre|code|svg|title)\b.*?</\2>|<[^>]+>)", re.S)
EXPONENT = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?e[-+]\d+\b[,.;:)]*")
PER_CENT = re.compile(r"(?<=\d) %")
FORMULA = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:?!)]+)')


def keep_whole(html: str) -> str:
    """The page with its numbers and formulas kept on one line."""
    html = FORMULA.sub(r'<span class="whole">\1\2</span>', html)
    pieces = LEFT_ALONE.split(html)  # text, what is left alone, its tag, text, ...
    for k in range(0, len(pieces), 3):
        text = EXPONENT.sub(r'<span class="whole">\g<0></span>', pieces[k])
        pieces[k] = PER_CENT.sub("\u00a0%", text)
    return "".join(piece for k, piece in enumerate(pieces) if k % 3 < 2)


def change_body(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = keep_whole(context["body"])


def setup(app):
    app.connect("html-page-context", change_body)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
