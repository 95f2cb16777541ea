"""Use the MathJax in assets/vendor; where it could not be fetched, say so on the page.

Formulas then stay as they are written in TeX. No page ever asks another server for anything.
"""

from pathlib import Path

VENDOR = Path(__file__).parents[2] / "assets" / "vendor"


def use_vendored(app, config):
    fetched = (VENDOR / "complete").exists()
    config.mathjax_path = "vendor/mathjax/tex-mml-chtml.js" if fetched else "no_mathjax.js"
    if not fetched:
        config.mathjax3_config = None


def setup(app):
    app.connect("config-inited", use_vendored, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
