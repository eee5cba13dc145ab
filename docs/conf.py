"""Sphinx configuration. Built pages work offline: they load nothing from elsewhere."""

import re
import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from urllib.request import urlopen

from optimargin_study import read_export
from optimargin_study.report import make_sections, write_tables

_here = Path(__file__).parent
sys.path[:0] = [str(_here / "_extensions"), str(_here.parent / "benchmarks")]

project = "optimargin"
author = "The optimargin developers"
copyright = "2026, The optimargin developers"
release = installed_version("optimargin")
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# Markdown is what benchmarks and the study write; pages include it.
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst", "**/*.md"]

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
doctest_global_setup = "import numpy as np"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _reachable(sites):
    """Return the sites whose index of objects can be fetched; without a network there are none."""
    found = {}
    for name, home in sites.items():
        try:
            with urlopen(f"{home}objects.inv", timeout=5):
                found[name] = (home, None)
        except OSError:
            break  # no network: the others would only wait, too
    return found


intersphinx_mapping = _reachable(
    {
        "sklearn": "https://scikit-learn.org/stable/",
        "numpy": "https://numpy.org/doc/stable/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "matplotlib": "https://matplotlib.org/stable/",
        "python": "https://docs.python.org/3/",
    }
)

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "doc_module": ("optimargin", "optimargin_study"),
    "reference_url": {"optimargin": None, "optimargin_study": None},
    "backreferences_dir": "generated/backreferences",
    "download_all_examples": False,
    "show_memory": False,
    "within_subsection_order": "gallery_order.Order",
    "min_reported_time": 5,
}

# Pages of cards or of wide tables, which need the room of the table of contents.
_WIDE = ["index", "study", *(f"benchmarks/{p.stem}" for p in (_here / "benchmarks").glob("*.rst"))]
html_theme = "pydata_sphinx_theme"
html_title = f"optimargin {release}"
html_theme_options = {
    "logo": {
        "alt_text": "optimargin, home",
        "image_light": "_static/logo-light.svg",
        "image_dark": "_static/logo-dark.svg",
    },
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in _WIDE}},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
html_favicon = "_static/favicon.svg"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False

# Tables that follow from results: those of the study, which `optimargin study export` writes, and
# the summary of all benchmarks.
_tables = _here / "generated" / "study"
_tables.mkdir(parents=True, exist_ok=True)
write_tables(make_sections(read_export(_here / "study" / "results.csv")), _tables)
_summary = import_module("summary").markdown()
(_here / "generated" / "summary.md").write_text(_summary, encoding="utf-8")


def _without_labels(app, what, name, obj, options, lines):
    """Show labels of scikit-learn's own pages, in inherited docstrings, as plain words."""
    if (getattr(obj, "__module__", None) or "").startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]+?)\s*<[^`]*>`", r"\1", line) for line in lines]


def setup(app):
    if "sklearn" not in intersphinx_mapping:
        app.connect("autodoc-process-docstring", _without_labels)
