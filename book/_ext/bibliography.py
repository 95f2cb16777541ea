"""The list of references stands under the names that the text uses: [Chen et al., 2018]."""

from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle


class AuthorYear(BaseLabelStyle):
    def format_labels(self, entries):
        return [label(entry) for entry in entries]


def label(entry):
    """The family names of one or two authors, or the first of more; then the year."""
    family = [" ".join(map(str, p.rich_last_names)) for p in entry.persons["author"]]
    names = " and ".join(family) if len(family) < 3 else f"{family[0]} et al."
    return f"{names}, {entry.fields['year']}"


class ByName(Style):
    default_label_style = AuthorYear


def setup(app):
    register_plugin("pybtex.style.formatting", "by-name", ByName)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
