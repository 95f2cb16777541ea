"""Without JavaScript, show a still picture where an interactive figure would stand.

The pictures are made by tools/stills.py; a figure that has none yet says what it would show.
"""

import json
import re
from html import escape
from pathlib import Path

VIEW = re.compile(
    r'<script type="application/vnd\.jupyter\.widget-view\+json">(\{.*?\})</script>'
)


def add_stills(app, pagename, templatename, context, doctree):
    states = {}
    for script in context.get("script_files", []):
        attributes = getattr(script, "attributes", {})
        if "widget-state" in attributes.get("type", ""):
            states.update(json.loads(attributes["body"])["state"])
    count = iter(range(1000))

    def with_still(match):
        state = states.get(json.loads(match[1])["model_id"], {}).get("state", {})
        name = f"stills/{pagename.split('/')[-1]}-{next(count)}.png"
        return match[0] + _noscript(app, context, name, state.get("description", ""))

    if "body" in context:
        context["body"] = VIEW.sub(with_still, context["body"])


def _noscript(app, context, name, description):
    words = escape(description, quote=True)
    if not (Path(app.srcdir) / "assets" / name).exists():
        return f"<noscript><p>This figure needs JavaScript. {words}</p></noscript>"
    source = context["pathto"](f"_static/{name}", 1)
    return f'<noscript><img class="still" src="{source}" alt="{words}"></noscript>'


def setup(app):
    app.connect("html-page-context", add_stills, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
