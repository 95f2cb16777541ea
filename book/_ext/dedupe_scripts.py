"""Emit each inline script once: the theme repeats one, and the console complains."""


def keep_first(app, pagename, templatename, context, doctree):
    seen, kept = set(), []
    for script in context.get("script_files", []):
        body = getattr(script, "attributes", {}).get("body")
        if body is None or body not in seen:
            kept.append(script)
        seen.add(body)
    context["script_files"] = kept


def setup(app):
    app.connect("html-page-context", keep_first, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
