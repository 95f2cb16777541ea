"""Chapters carry the number in their file's name: 0, 1, ... 8, 8b, A, E1, as in the paper.

Sphinx counts 1, 2, 3 ...; here the first figure of what it counted is replaced, in the titles,
the contents, and the numbers of figures and equations.
"""

from docutils import nodes


def number(docname):
    """notebooks/08b_silverbox_benchmark -> "8b"; None for other pages."""
    folder, _, name = docname.partition("/")
    return (name.split("_")[0].lstrip("0") or "0") if folder == "notebooks" else None


def renumber(app, env):
    for docname in env.all_docs:
        if (own := number(docname)) is None:
            continue
        swap(env.toc_secnumbers.get(docname, {}), own)
        for kind in env.toc_fignumbers.get(docname, {}).values():
            swap(kind, own)
        title, contents = env.titles[docname], env.tocs[docname]
        for node in [title, *contents.findall(nodes.reference)]:
            if "secnumber" in node:
                node["secnumber"] = (own, *node["secnumber"][1:])
    return []


def swap(numbers, own):
    for key, counted in numbers.items():
        if counted:
            numbers[key] = (own, *counted[1:])


def setup(app):
    app.connect("env-get-updated", renumber, priority=900)  # after Sphinx has counted
    return {"parallel_read_safe": True, "parallel_write_safe": True}
