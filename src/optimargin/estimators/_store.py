"""The one place where attributes are set on estimators."""

from typing import Any

_PRIVATE = (
    "_kernel",
    "_reference",
    "_training_data",
    "_kept",
    "_largest_norm",
    "_local",
    "_pairwise",
)


class StoreMixin:
    """Replace all fitted attributes at once."""

    def _store(self, attributes: dict[str, Any]) -> None:
        """Forget all fitted attributes and set new ones."""
        for name in fitted_names(self):
            del vars(self)[name]
        vars(self).update(attributes)


def fitted_names(estimator) -> list[str]:
    """Return the names of what a fit has set on an estimator."""
    parameters = estimator.get_params(deep=False)
    return [
        name
        for name in vars(estimator)
        if name in _PRIVATE
        or (name.endswith("_") and not name.startswith("_") and name not in parameters)
    ]


def public_attributes(estimator) -> dict[str, Any]:
    """Return the fitted attributes of an estimator that are meant for users."""
    return {name: vars(estimator)[name] for name in fitted_names(estimator) if name[0] != "_"}
