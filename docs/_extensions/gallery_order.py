"""The order of the gallery: what a new user needs comes first."""

_FIRST = [
    "tune_in_seconds",
    "mixed_table",
    "several_classes",
    "sparse_text",
    "regression",
    "probabilities",
    "intervals",
    "novelty",
    "imbalance",
    "margin_distribution",
    "decision_boundary",
    "losses",
    "selection",
    "expectiles",
    "outliers",
    "convergence",
]


class Order:
    """Sort key of sphinx-gallery; examples that are not listed come last."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        short = name.removeprefix("plot_").removesuffix(".py")
        return (_FIRST.index(short) if short in _FIRST else len(_FIRST), name)
