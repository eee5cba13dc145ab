"""What `select` and `auto` share: a search for parameters, and what it says."""

from dataclasses import dataclass
from typing import Any

from optimargin.cli import _options as opt


@dataclass(frozen=True)
class Found:
    """The end of a search.

    Attributes
    ----------
    search : estimator
        The fitted search.
    model : estimator
        What is saved: the chosen estimator, after the preparation of its data.
    chosen : dict of float
        The chosen parameters by name.
    X : {ndarray, CSR matrix}
        The samples, prepared.
    by : str
        What the search looked at.
    """

    search: Any
    model: Any
    chosen: dict[str, float]
    X: Any
    by: str

    @property
    def name(self):
        """The class of the chosen estimator."""
        return type(self.search.best_estimator_).__name__

    @property
    def shown(self):
        """The chosen estimator as text."""
        from optimargin.margins import unwrap

        landmarks = getattr(unwrap(self.model), "approximation", None) is not None
        more = ", approximation='nystrom'" if landmarks else ""
        return f"{self.name}({_listed(self.chosen)}{more})"

    def objective_line(self):
        """Return what the report says about the search: name, text and facts."""
        score = float(self.search.best_score_)
        n_points = len(self.search.cv_results_["mean_test_score"])
        return (
            "search objective",
            f"{score:.4f} ({self.by}), chosen of {n_points} points",
            {"score": score, "n_points": n_points},
        )

    def notes(self):
        """Return what is saved with the model."""
        return {
            "selected": self.chosen,
            "selection_score": float(self.search.best_score_),
            "n_points": len(self.search.cv_results_["mean_test_score"]),
        }


def search_parameters(job, machine, *, scoring=None, grid=None, tell, landmarks=None, **options):
    """Search for parameters and fit with them.

    Parameters
    ----------
    job : Job
        Its data are read.
    machine : Machine
    scoring : str, default=None
    grid : "paper", default=None
    tell : bool
        Whether to show progress.
    landmarks : int, default=None
        Choose with so many samples, and fit a kernel model of landmarks to all of them.
    **options
        Of the search.

    Returns
    -------
    found : Found
    """
    import numpy as np
    from sklearn.base import clone

    from optimargin.cli._preparation import prepared

    kind = job.task.estimator_class(machine, search=True)
    parameters = opt.given(kind, **machine.parameters(), scoring=scoring, **options)
    if grid is not None:
        parameters["Cs" if machine.ldm else "C1s"] = grid
    steps = job.steps()
    X = prepared(steps, job.samples.X)
    search = job.make(kind, machine, **parameters, verbose=int(tell))
    y = job.samples.y
    rows = np.arange(len(y)) if landmarks is None else job.task.sample(y, landmarks)
    try:
        with job.report.working("selecting"):
            search.fit(X, y) if landmarks is None else search.fit(X[rows], y[rows])
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(search)) from None
    chosen, best = best_parameters(search), search.best_estimator_
    if landmarks is not None:
        factor = len(y) / rows.size  # penalties are per sample
        chosen |= {name: chosen[name] * factor for name in ("C1", "C2") if name in chosen}
        best = clone(best).set_params(**chosen, approximation="nystrom")
        with job.report.working("training", best):
            best.fit(X, y)
    if scoring is not None:
        by = scoring
    elif grid is not None:
        by = "accuracy" if job.task.name == "classification" else "held-out score"
    else:
        by = "what the search followed, "
        is_classes = job.task.name == "classification"
        by += "not an accuracy" if is_classes else "minus the mean absolute error"
    return Found(search, job.with_steps(steps, best), chosen, X, by)


def best_parameters(search):
    """Return the chosen parameters of a search by name."""
    return {
        name.removeprefix("param_"): float(values[search.best_index_])
        for name, values in search.cv_results_.items()
        if name.startswith("param_")
    }


def _kept(search):
    """Return what is known after an interrupt, as text."""
    if not hasattr(search, "cv_results_"):
        return "no model was written"
    n_points = len(search.cv_results_["mean_test_score"])
    return (
        f"no model was written. The best of {n_points} points so far: "
        f"{_listed(best_parameters(search))}; optimargin train takes these as options"
    )


def _listed(parameters):
    return ", ".join(f"{name}={value:.4g}" for name, value in parameters.items())
