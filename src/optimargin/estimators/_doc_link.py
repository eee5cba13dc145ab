"""Where the documentation of an estimator is, for the HTML that notebooks show."""

from functools import cache
from importlib.metadata import metadata


@cache
def documentation_url():
    """Return the address under ``Documentation`` in the package's metadata, or None."""
    for entry in metadata("optimargin").get_all("Project-URL") or []:
        name, _, address = entry.partition(", ")
        if name == "Documentation":
            return address.rstrip("/")
    return None


class DocLinkMixin:
    """Link an estimator to its page; without a published documentation there is no link.

    Pages are named as estimators are imported: from the package, whatever module has the code.
    """

    _doc_link_module = "optimargin"

    @property
    def _doc_link_template(self):
        home = documentation_url()
        return f"{home}/generated/optimargin.{{estimator_name}}.html" if home else ""
