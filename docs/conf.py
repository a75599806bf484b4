"""How the site is built: ``make docs``, offline, every warning a failure."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import holdfast

project = "Holdfast"
author = "the Holdfast authors"
project_copyright = "the Holdfast authors, MIT licence"
version = release = holdfast.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "api",
    "as_on_github",
    "figures_beside",
    "command_line",
]
root_doc = "index"
exclude_patterns = [
    "_build",
    "_ext",
    "tutorials",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
nitpicky = True
linkcheck_timeout = 20  # by hand only: `make links`
linkcheck_ignore = [r"http://127\.0\.0\.1.*"]

# -- Markdown -------------------------------------------------------------------------------------
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# -- the API --------------------------------------------------------------------------------------
autosummary_generate = True  # a page for every name, in reference/api
templates_path = ["_templates"]
autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # types stand in the docstrings, in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
default_role = None
# on a disk that does not tell small letters from large ones these would be one file
_names = [name for name in holdfast.__all__ if not name.startswith("_")]
autosummary_filename_map = {
    f"holdfast.{name}": f"holdfast.{name}-class"
    for name in _names
    if name[0].isupper() and name.lower() in _names
}

# -- tutorials ------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 10**6,
    "remove_config_comments": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}
warnings.filterwarnings("ignore", message=".*non-interactive.*")

# -- the pages ------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "Holdfast"
html_short_title = "Holdfast"
html_static_path = ["_static"]
html_css_files = ["holdfast.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "reference/glossary": []}
html_theme_options = {
    "logo": {"text": "Holdfast"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"index": [], "**": ["page-toc"]},
}
pygments_style = "tango"
