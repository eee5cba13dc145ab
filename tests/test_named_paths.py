"""Workflows, the Makefile, CONTRIBUTING.md and the docs name only what is there."""

import os
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "src", "tests")
PAGES = sorted(
    page
    for pattern in (
        *(".ci/*", ".github/**/*.yml", ".pre-commit-config.yaml", "pyproject.toml", "Makefile"),
        *("README.md", "CONTRIBUTING.md", "docs/*.rst", "docs/[a-z]*/*.rst"),
        *("meson.build", "src/**/meson.build"),
    )
    for page in ROOT.glob(pattern)
)
SOURCE = re.compile(r"\w\.(py|pyx|pyi|h|rst|md|toml|ya?ml|build)$")
# What make and Sphinx write is not there in a fresh clone.
WRITTEN = tuple(
    line for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split() if "/" in line
)
PAGES = [page for page in PAGES if not f"{page.relative_to(ROOT)}".startswith(WRITTEN)]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(scope="module")
def ends():
    """Every path of the project: in full, from each of its folders on, and its name alone."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    parts = [path.relative_to(ROOT).parts for path in [*paths, *ROOT.glob("*.*")]]
    return {"/".join(names[k:]) for names in parts for k in range(len(names))}


def named_paths(page):
    """Yield the words of a page that can only be paths of this project."""
    text = page.read_text(encoding="utf-8")
    # A link to the page of an example has the name of its file in it.
    text = text.replace("sphx_glr_auto_examples_", "")
    for match in re.findall(r"(?<![\w./:*-])[\w.*-]+(?:/[\w.*-]+)*", text):
        word = match.rstrip(".")
        if word.startswith("../shared"):
            continue  # data beside the project, which nobody needs
        in_folder = "/" in word and word.startswith(("../", *FOLDERS))
        if in_folder or ("*" not in word and SOURCE.search(word)):
            yield word


def is_there(word, page, ends):
    if word in ends or any(ROOT.glob(word) if "../" not in word else ()):
        return True
    # Pages of the docs link to others by names without .rst, from where they are.
    places = [ROOT / word, page.parent / word, page.parent / f"{word}.rst"]
    written = [os.path.relpath(place, ROOT) + "/" for place in places]
    return any(place.exists() for place in places) or any(w.startswith(WRITTEN) for w in written)


@each_page
def test_named_paths_exist(page, ends):
    assert not {word for word in named_paths(page) if not is_there(word, page, ends)}


@each_page
def test_named_commands_of_make_exist(page):
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"(?:`|run: |^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.M)
    for command in commands:
        assert re.search(rf"^{command}:", rules, re.MULTILINE), command
