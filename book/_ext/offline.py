"""Use the libraries in assets/vendor where they have been fetched, else the CDN."""

from pathlib import Path

VENDOR = Path(__file__).parents[2] / "assets" / "vendor"


def use_vendored(app, config):
    if (VENDOR / "complete").exists():
        config.mathjax_path = "vendor/mathjax/tex-mml-chtml.js"
        names = (
            "require.js",
            "widgets-offline.js",
            "embed-amd.js",
        )  # the order matters
        config.nb_ipywidgets_js = {f"vendor/widgets/{name}": {} for name in names}


def setup(app):
    app.connect("config-inited", use_vendored, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
