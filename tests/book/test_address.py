"""One setting, the project's address, and what follows from it: all of it, or nothing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book/_ext")]
import address  # noqa: E402
import launch  # noqa: E402
import publish  # noqa: E402

SETTING = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))["repository"]
HERE = "https://github.com/Some-One/sonode"
HOME = launch.project(HERE)
CHAPTER = "notebooks/02_parity"
LEFT_OPEN = re.compile(r"\{(address|pages|binder|colab)\}")
each_file = pytest.mark.parametrize("name", address.BLOCKS)


@pytest.mark.parametrize(
    "wrong",
    ["http://github.com/a/b", "https://example.org/a/b", "https://github.com/a", "a/b", '"'],
)
def test_an_address_of_another_form_is_refused(wrong):
    with pytest.raises(ValueError, match=r"accepts https://github\.com/<owner>/<name>, or"):
        launch.project(wrong)


def test_every_door_follows_from_the_address():
    assert launch.project(HERE + "/") == HOME and HOME.address == HERE
    assert HOME.pages == "https://some-one.github.io/sonode/"
    assert launch.project("https://github.com/a/a.github.io").pages == "https://a.github.io/"
    assert launch.project("") is None and launch.project(None) is None


@each_file
def test_a_file_says_what_follows_from_the_setting(name):
    """Fails when the setting changes alone: run make address."""
    text, home = (ROOT / name).read_text("utf8"), launch.project(SETTING["url"])
    assert address.followed(name, text, home) == text


@each_file
def test_a_file_names_the_address_everywhere_or_nowhere(name):
    text = (ROOT / name).read_text("utf8")
    named, bare = (address.followed(name, text, home) for home in (HOME, None))
    assert HERE in named and HOME.pages in named and not LEFT_OPEN.search(named)
    assert HERE not in bare and "mybinder" not in bare and "badge" not in bare
    assert address.followed(name, named, None) == bare
    assert address.followed(name, named, HOME) == named


def test_the_files_can_still_be_read_with_an_address():
    named = {n: address.followed(n, (ROOT / n).read_text("utf8"), HOME) for n in address.BLOCKS}
    assert yaml.safe_load(named["CITATION.cff"])["repository-code"] == HERE
    project = tomllib.loads(named["pyproject.toml"])["project"]
    assert project["urls"]["Repository"] == HERE and project["optional-dependencies"]["data"]


def test_make_address_changes_the_setting_and_touches_nothing_else(tmp_path, monkeypatch):
    for name in ("_config.yml", *address.BLOCKS):
        (tmp_path / name).write_text((ROOT / name).read_text("utf8"), "utf8")
    monkeypatch.setattr(address, "ROOT", tmp_path)
    address.main(HERE)
    text = (tmp_path / "_config.yml").read_text("utf8")
    assert yaml.safe_load(text)["repository"] == {"url": HERE, "branch": "main"}
    assert HERE in (tmp_path / "CITATION.cff").read_text("utf8")
    address.main("none")
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in address.BLOCKS}
    address.main()
    after = {name: (tmp_path / name).stat().st_mtime_ns for name in address.BLOCKS}
    assert before == after and HERE not in (tmp_path / "_config.yml").read_text("utf8")


@pytest.fixture(scope="module", params=[HERE, ""], ids=["an address", "none"])
def small_book(request, tmp_path_factory):
    """Two pages built by Sphinx with the book's theme; the address and {page: its HTML}."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "notebooks").mkdir()
    said = "```{published}\nRead [online]({pages}), {term} apart.\n```"
    toc = "```{toctree}\nnotebooks/02_parity\n```"
    (folder / "index.md").write_text(f"# Top\n\n{said}\n\nWords.\n\n{toc}\n")
    cells = [nbformat.v4.new_markdown_cell("# Chapter"), nbformat.v4.new_code_cell("1")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    chapter = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(chapter, folder / f"{CHAPTER}.ipynb")
    options = {"repository_url": request.param, "repository_branch": SETTING["branch"]}
    settings = {
        "extensions": ["myst_nb", "sphinx_book_theme", "launch"], "nb_execution_mode": "off",
        "html_theme": "sphinx_book_theme", "html_theme_options": options,
    }  # fmt: skip
    app = Sphinx(folder, None, folder / "html", folder / "tree", "html", settings, status=None)
    app.build()
    pages = {name: (folder / f"html/{name}.html").read_text() for name in ("index", CHAPTER)}
    return request.param, pages


def test_buttons_are_there_with_an_address_and_none_without(small_book):
    given, pages = small_book
    links = set(re.findall(r'href="(https://[^"]*)"', "".join(pages.values())))
    own = {link for link in links if "theme" not in link and "sphinx" not in link}
    if not given:
        assert not own and "launch-buttons" not in "".join(pages.values())
        return
    for wanted in (
        HERE, HOME.pages, f"{HERE}/edit/main/{CHAPTER}.ipynb", f"{HERE}/edit/main/index.md",
        HOME.binder(f"{CHAPTER}.ipynb"), HOME.colab(f"{CHAPTER}.ipynb"),
        f"{HOME.pages}{CHAPTER}.html",
    ):  # fmt: skip
        assert wanted in own, wanted
    assert any(link.startswith(f"{HERE}/issues/new") for link in own)
    assert not any("colab" in link and "gh-pages" not in link for link in own)


def test_text_about_the_published_book_is_there_with_an_address_and_not_without(small_book):
    given, pages = small_book
    assert ("apart." in pages["index"]) == bool(given)
    assert not given or f'href="{HOME.pages}">online</a>, {{term}} apart.' in pages["index"]


def test_no_page_of_the_built_book_names_a_repository_it_does_not_have(pages):
    home = launch.project(SETTING["url"])
    for page in [*pages.glob("book/*.html"), *pages.glob("notebooks/*.html")]:
        text = page.read_text("utf8")
        assert ("source-repository-button" in text) == (home is not None), page.name
        assert "executablebooks/jupyter-book" not in text, page.name


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_for_colab_is_the_stored_one_behind_a_first_cell(path):
    stored = nbformat.read(path, as_version=4)
    first, *rest = publish.for_colab(nbformat.read(path, as_version=4), HOME).cells
    assert rest == stored.cells and f"git clone --quiet --depth 1 {HERE} " in first.source
    assert "SONODE_PROFILE=quick" in first.source


def test_the_first_cell_of_colab_installs_what_the_package_calls_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (named,) = re.findall(r'"\.\.\[(\w+)\]"', publish.FIRST)
    assert named in extras["optional-dependencies"]


def test_what_is_published_is_the_book_both_pdfs_and_the_notebooks(tmp_path, monkeypatch):
    (tmp_path / "html").mkdir()
    for name in ("html/index.html", "book.pdf", "report.pdf"):
        (tmp_path / name).write_text(name)
    publish.main(tmp_path)
    found = {p.name for p in (tmp_path / "site").iterdir()}
    assert found == {"index.html", "book.pdf", "report.pdf"} | (
        {"colab"} if SETTING["url"] else set()
    )
    monkeypatch.setattr(publish, "of_checkout", lambda root: HOME)
    publish.main(tmp_path)
    names = {p.name for p in (tmp_path / "site/colab").iterdir()}
    assert names == {p.name for p in ROOT.glob("notebooks/*.ipynb")}


def test_binder_runs_the_quick_profile():
    """Binder builds environment.yml and runs the file `start` before anything else."""
    command = [str(ROOT / "start"), "sh", "-c", "echo $SONODE_PROFILE"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.stdout == "quick\n"


def test_a_config_without_a_repository_shows_no_button():
    config = SimpleNamespace(html_theme_options={"a": 1}, html_baseurl="")
    launch.use_address(None, config)
    assert config.project_home is None and config.html_baseurl == ""
    assert config.html_theme_options == {"a": 1} | dict.fromkeys(launch.BUTTONS, False)
