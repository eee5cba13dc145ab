"""Figures of the report: margins, times, critical differences, and the effect of D.

Each function returns SVG text, so that the report needs no other files.
"""

import io
import re
import warnings
from typing import Any

import numpy as np

from optimargin.margins import margin_distribution
from optimargin_study.methods import METHODS
from optimargin_study.protocol import Unit, make_problem

MARGIN_METHODS = ("svm", "odml", "odm")
MARGIN_KINDS = ("geometric", "functional")
TIME_METHODS = ("svm", "svm_sgd", "odml", "odm")
DS = np.arange(6) / 10
# Of Okabe and Ito's palette for colour-blind readers, each with dashes of its own, so that lines
# also differ on a black-and-white page.
LINE_STYLES: list[dict[str, Any]] = [
    {"color": "#0072B2", "linestyle": "-"},
    {"color": "#D55E00", "linestyle": "--"},
    {"color": "#009E73", "linestyle": "-."},
    {"color": "#CC79A7", "linestyle": ":"},
    {"color": "#000000", "linestyle": (0, (8, 2))},
    {"color": "#E69F00", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
]
# The SVM's line is wide, so that one that lies on it does not hide it.
_MARGIN_LOOKS: dict[str, Any] = {
    "svm": {"color": "#E69F00", "linewidth": 3.6},
    "odml": {"color": "#000000", "linewidth": 1.3, "linestyle": (0, (3, 1.5))},
    "odm": {"color": "#0072B2", "linewidth": 1.8},
}


def to_svg(figure):
    """Return a figure as SVG text that adapts to the available width."""
    from matplotlib import pyplot as plt

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(
        r'(<svg[^>]*?) height="[^"]*"', r"\1", re.sub(r' width="[\d.]+pt"', "", text, count=1)
    )


def _axes(n_columns=1, n_rows=1, size=(4.0, 3.0)):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(size[0] * n_columns, size[1] * n_rows),
        layout="constrained",
        squeeze=False,
    )
    return figure, axes.ravel()


def _draw_legend(figure):
    """Draw the legend below the axes, where it covers no data."""
    figure.legend(loc="outside lower left", ncols=3, fontsize="small", frameon=False)


def fitted_models(results, table, dataset, methods):
    """Return the problem of the first repeat that all methods have, and their fitted models.

    Parameters
    ----------
    results : list of Result
    table : int
    dataset : str
    methods : sequence of str

    Returns
    -------
    problem : Problem or None
        None if there is no such repeat.
    models : dict of str to fitted estimator
        Fitted again with the chosen parameters.
    """
    params = {
        (r.unit.repeat, r.unit.method): r.params
        for r in results
        if r.unit.table == table and r.unit.dataset == dataset and r.error is None
    }
    repeats = sorted({repeat for repeat, _ in params})
    for repeat in repeats:
        if all((repeat, m) in params for m in methods):
            problem = make_problem(Unit(table, dataset, repeat, methods[0]))
            models = {
                m: METHODS[m].build(problem, params[repeat, m]).fit(problem.X, problem.y)
                for m in methods
            }
            return problem, models
    return None, {}


def margin_claims(results, datasets, table=3, methods=MARGIN_METHODS):
    """Check the paper's claims about margins on training halves.

    Returns
    -------
    claims : list of dict
        One per set and method. For geometric and for functional margins: the share of quantiles
        that are larger than the SVM's, both smallest margins, and whether ours is smaller.
    curves : dict of str to dict of str to MarginDistribution
        The distributions of geometric margins.
    """
    claims, curves = [], {}
    for dataset in datasets:
        problem, models = fitted_models(results, table, dataset, methods)
        if problem is None:
            continue
        distributions = {
            kind: {
                m: margin_distribution(model, problem.X, problem.y, kind=kind)
                for m, model in models.items()
            }
            for kind in MARGIN_KINDS
        }
        curves[dataset] = distributions["geometric"]
        for method in methods[1:]:
            claim = {"dataset": dataset, "method": method}
            for kind, by_method in distributions.items():
                ours, svm = (np.sort(by_method[m].margins) for m in (method, methods[0]))
                claim[kind] = {
                    "right": float(np.mean(ours > svm)),
                    "minimum": float(ours[0]),
                    "svm_minimum": float(svm[0]),
                    # If the models are nearly the same, rounding must not decide.
                    "smaller": round(float(ours[0]), 4) < round(float(svm[0]), 4),
                }
            claims.append(claim)
    return claims, curves


def margins_figures(curves):
    """Draw Figure 1, cumulative margins of the training halves: one plot per set."""
    plots = []
    for dataset, distributions in curves.items():
        figure, (ax,) = _axes(size=(3.6, 3.2))
        for method, distribution in distributions.items():
            margins, shares = distribution.cumulative()
            look = _MARGIN_LOOKS.get(method, {})
            ax.step(margins, shares, where="post", label=METHODS[method].label, **look)
        ax.axvline(0, color="0.7", linewidth=0.8)
        ax.set(title=dataset, xlabel="distance to the boundary", ylabel="share of samples")
        _draw_legend(figure)
        plots.append(to_svg(figure))
    return plots


def times_figure(results):
    """Draw Figure 2: CPU seconds of one fit on the large sets; None without results."""
    seconds: dict = {}
    for r in results:
        if r.unit.table == 4 and r.unit.method in TIME_METHODS and r.fit_seconds is not None:
            seconds.setdefault(r.unit.dataset, {}).setdefault(r.unit.method, []).append(
                r.fit_seconds
            )
    if not seconds:
        return None
    figure, (ax,) = _axes(size=(8.0, 3.6))
    for k, (method, style) in enumerate(zip(TIME_METHODS, LINE_STYLES, strict=False)):
        heights = [np.mean(by_method.get(method, [np.nan])) for by_method in seconds.values()]
        positions = np.arange(len(seconds)) + (k - 1.5) * 0.2
        label = {"svm": "SVM, LIBLINEAR"}.get(method, METHODS[method].label)
        ax.bar(positions, heights, width=0.18, color=style["color"], label=label)
    ax.set_yscale("log")
    ax.set_xticks(range(len(seconds)), list(seconds))
    ax.set_ylabel("CPU seconds of a fit")
    ax.legend(frameon=False, ncols=2)
    return to_svg(figure)


def critical_differences_figure(comparison):
    """Draw mean ranks with Nemenyi's critical differences; None if there are too few sets."""
    if comparison.friedman() is None or len(comparison.datasets) < 5:
        return None
    import pandas as pd
    import scikit_posthocs

    scores = pd.DataFrame(
        [[comparison.cells[d, m].mean for m in comparison.methods] for d in comparison.datasets],
        columns=[METHODS[m].label for m in comparison.methods],
    )
    ranks = pd.Series(
        {METHODS[m].label: rank for m, rank in comparison.ranks().items()}, name="rank"
    )
    figure, (ax,) = _axes(size=(8.0, 2.6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p_values = scikit_posthocs.posthoc_nemenyi_friedman(scores)
        scikit_posthocs.critical_difference_diagram(ranks, p_values, ax=ax)
    return to_svg(figure)


def band_effect(results, datasets, table=3):
    """Return the share of support vectors and the accuracy of ODM against D, a list of dicts.

    C1, C2 and the width keep their chosen values.
    """
    rows = []
    for dataset in datasets:
        problem, models = fitted_models(results, table, dataset, ("odm",))
        if problem is None:
            continue
        for D in DS:
            model = models["odm"].set_params(D=float(D)).fit(problem.X, problem.y)
            margins = margin_distribution(model, problem.X, problem.y).margins
            outside = (margins < 1 - D - 1e-9) | (margins > 1 + D + 1e-9)
            rows.append(
                {
                    "dataset": dataset,
                    "D": float(D),
                    "support": float(outside.mean()),
                    "accuracy": float(model.score(problem.X_test, problem.y_test)),
                }
            )
    return rows


def band_figures(rows):
    """Draw support vectors and accuracy against D, one plot each."""
    plots = []
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    for key, label in (("support", "share of support vectors"), ("accuracy", "held-out accuracy")):
        figure, (ax,) = _axes(size=(4.6, 3.3))
        for name, style in zip(names, LINE_STYLES, strict=False):
            own = [row for row in rows if row["dataset"] == name]
            ax.plot([row["D"] for row in own], [row[key] for row in own], label=name, **style)
        ax.set(xlabel="D, half-width of the band", ylabel=label)
        _draw_legend(figure)
        plots.append(to_svg(figure))
    return plots
