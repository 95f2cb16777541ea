"""What follows on the pages from the project's address, `repository: url` in _config.yml.

Buttons to the repository, to edit a page and to report a fault; buttons that launch a notebook
on Binder or in Colab; the text of {published}. While the address is empty, none is shown.
"""

import re
from pathlib import Path
from typing import NamedTuple

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FORM = re.compile(r"https://github\.com/([\w-]+)/([\w.-]+?)/?")
BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"
BUTTONS = ("use_repository_button", "use_issues_button", "use_edit_page_button")
PUBLISHED = "gh-pages"  # the branch that has the book, and the notebooks as Colab needs them


class Project(NamedTuple):
    """A repository by its owner and name -> the addresses of all its doors."""

    owner: str
    name: str

    @property
    def address(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}"

    @property
    def pages(self) -> str:
        """Where the book is read; ends in a slash."""
        own = f"{self.owner.lower()}.github.io"
        return f"https://{own}/" if self.name.lower() == own else f"https://{own}/{self.name}/"

    def binder(self, path: str) -> str:
        place = f"{self.owner}/{self.name}/main?urlpath=lab/tree/{path}"
        return f"{BINDER}/v2/gh/{place}"

    def colab(self, path: str) -> str:
        name = path.rsplit("/", 1)[-1]
        place = f"{self.owner}/{self.name}/blob/{PUBLISHED}/colab/{name}"
        return f"{COLAB}/github/{place}"

    def fill(self, text: str) -> str:
        """The text with {address}, {pages}, {binder} and {colab} replaced."""
        first = "notebooks/02_parity.ipynb"  # where {binder} and {colab} lead
        places = {"address": self.address, "pages": self.pages}
        places |= {"binder": self.binder(first), "colab": self.colab(first)}
        return re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], found[0]), text)


def of_checkout(root: Path) -> Project | None:
    """The project that _config.yml names."""
    return project(
        yaml.safe_load((root / "_config.yml").read_text("utf8"))["repository"]["url"]
    )


def project(address: str | None) -> Project | None:
    """The project at an address; None while there is none."""
    if not address:
        return None
    found = FORM.fullmatch(address)
    if not found:
        raise ValueError(
            f"repository: url in _config.yml is {address!r}; it accepts"
            " https://github.com/<owner>/<name>, or nothing"
        )
    return Project(*found.groups())


def use_address(app, config):
    """Show the buttons of a project that has an address, and none of one that has not."""
    options = config.html_theme_options
    home = project(options.pop("repository_url", ""))
    options |= dict.fromkeys(BUTTONS, home is not None)
    config.project_home = home
    if home:
        options["repository_url"], config.html_baseurl = home.address, home.pages
        launch = {"binderhub_url": BINDER, "colab_url": COLAB}
        options["launch_buttons"] = launch | {"notebook_interface": "jupyterlab"}


def lead_to_prepared(app, pagename, templatename, context, doctree):
    """Colab gets the notebooks that install the package in their first cell."""
    home = app.config.project_home
    for group in context.get("header_buttons", []) if home else []:
        for button in group.get("buttons", []):
            if button.get("text") == "Colab":
                button["url"] = home.colab(f"{pagename}.ipynb")


class Published(SphinxDirective):
    """{published}: its text, with the project's addresses; nothing while there is none."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        home = self.env.config.project_home
        if home is None:
            return []
        return self.parse_text_to_nodes(home.fill("\n".join(self.content)))


def setup(app):
    app.add_config_value("project_home", None, "", types=[Project])
    app.add_directive("published", Published)
    app.connect("config-inited", use_address, priority=1)
    app.connect("html-page-context", lead_to_prepared, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
