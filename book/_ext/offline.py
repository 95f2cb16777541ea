"""Use the MathJax in assets/vendor where it has been fetched, else the CDN's."""

from pathlib import Path

VENDOR = Path(__file__).parents[2] / "assets" / "vendor"


def use_vendored(app, config):
    if (VENDOR / "complete").exists():
        config.mathjax_path = "vendor/mathjax/tex-mml-chtml.js"


def setup(app):
    app.connect("config-inited", use_vendored, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
