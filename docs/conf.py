"""Sphinx configuration. Pages are built and read offline: nothing is fetched from elsewhere."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from optimargin.study import read_export
from optimargin.study.report import make_sections, write_tables

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "optimargin"
author = "The optimargin developers"
copyright = "2026, The optimargin developers"
release = installed_version("optimargin")
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# Markdown is what benchmarks and the study write; pages include it.
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst", "**/*.md"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
doctest_global_setup = "import numpy as np"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "doc_module": ("optimargin",),
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 5,
}

html_theme = "pydata_sphinx_theme"
html_title = f"optimargin {release}"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["formula.css"]
html_show_sourcelink = False

# The study's tables follow from its results, which `optimargin study export` writes.
_here = Path(__file__).parent
_tables = _here / "generated" / "study"
_tables.mkdir(parents=True, exist_ok=True)
write_tables(make_sections(read_export(_here / "study" / "results.csv")), _tables)
