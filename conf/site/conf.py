"""Configure Sphinx for the guide site, whose pages `tools/build_site.py` stages."""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq import __version__
from tools.site_api import process_docstring

project = "pyspark_rocketmq"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]

# Anchors of headings are those of GitHub. Pages are plain Markdown: `%`, `(name)=`, `+++` and `{role}` mean nothing.
myst_heading_anchors = 6
myst_url_schemes = ["http", "https", "mailto", "source"]
myst_disable_syntax = ["myst_line_comment", "myst_target", "myst_block_break", "myst_role"]
smartquotes = False

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"pyspark_rocketmq {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_theme_options = {
    "logo": {"text": "pyspark_rocketmq"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "collapse_navigation": True,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": [],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}


def link_copies(_app: Any, page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Turn links with the scheme `source:` into links to copies of files, which lie at the top of the site."""
    if "body" in context:
        context["body"] = context["body"].replace('href="source:', 'href="' + "../" * page.count("/"))


def setup(app: Any) -> dict[str, bool]:
    """Connect the functions that rewrite docstrings and links; Sphinx calls this."""
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("html-page-context", link_copies)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
