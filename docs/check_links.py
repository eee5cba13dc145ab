"""Check that links within built pages lead somewhere: to a file, and to a place in it.

python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Made by other tools from source code, without places of ours.
SKIPPED = ("_static", "_modules", "_downloads")


class Page(HTMLParser):
    """The places and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.places |= {values[key] for key in ("id", "name") if values.get(key)}
        key = {"a": "href", "link": "href", "img": "src", "script": "src"}.get(tag)
        if key and values.get(key):
            self.links.append(values[key])


def broken_links(folder):
    """Yield page and link, for each link that leads nowhere."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.html")
        if path.relative_to(folder).parts[0] not in SKIPPED
    }
    for path, page in sorted(pages.items()):
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (
                parts.fragment and known and unquote(parts.fragment) not in known.places
            ):
                yield path.relative_to(folder), link


def main():
    folder = Path(sys.argv[1]).resolve()
    found = list(broken_links(folder))
    for page, link in found:
        print(f"{page}: {link} leads nowhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
