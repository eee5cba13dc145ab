"""What `select` and `auto` share: a search for parameters, and what it says."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from optimargin.cli import _options as opt
from optimargin.cli._preparation import prepared
from optimargin.cli._tasks import number_or_range
from optimargin.margins import unwrap


@dataclass(frozen=True)
class Found:
    """The end of a search.

    Attributes
    ----------
    search : estimator
        The fitted search.
    model : estimator
        What is saved: the chosen estimator, after the preparation of its data.
    X : {ndarray, CSR matrix}
        The samples, prepared.
    by : str
        What the search maximised.
    """

    search: Any
    model: Any
    X: Any
    by: str

    @property
    def name(self):
        """The class of the chosen estimator."""
        return type(self.search.best_estimator_).__name__

    @property
    def chosen(self):
        """The chosen parameters by name; lists of one number per feature among them."""
        return {k: np.asarray(v).tolist() for k, v in self.search.best_params_.items()}

    @property
    def shown(self):
        """The chosen estimator as text."""
        landmarks = getattr(unwrap(self.model), "approximation", None) is not None
        more = ", approximation='nystrom'" if landmarks else ""
        return f"{self.name}({_listed(self.search)}{more})"

    def notes(self):
        """Return what is saved with the model."""
        return {
            "selected": self.chosen,
            "selection_score": float(self.search.best_score_),
            "n_points": len(self.search.cv_results_["params"]),
        }

    def objective_line(self):
        """Return what the report says about the search: name, text and facts."""
        facts = {"score": float(self.search.best_score_), "n_points": self.notes()["n_points"]}
        text = f"{facts['score']:.4f} ({self.by}), chosen of {facts['n_points']} points"
        return "search objective", text, facts


def search_parameters(job, machine, *, scoring=None, grid=None, tell, **options):
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
    **options
        Of the search.

    Returns
    -------
    found : Found
    """
    kind = job.task.estimator_class(machine, search=True)
    parameters = opt.given(kind, **machine.parameters(), scoring=scoring, **options)
    if grid is not None:
        parameters["Cs" if machine.ldm else "C1s"] = grid
    steps = job.steps()
    X = prepared(steps, job.samples.X)
    search = job.make(kind, machine, **parameters, verbose=int(tell))
    try:
        with job.report.working("selecting"):
            search.fit(X, job.samples.y)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(search)) from None
    is_classes = job.task.name == "classification"
    if scoring is not None:
        by = scoring
    elif grid is not None:
        by = "accuracy" if is_classes else "held-out score"
    else:
        by = "the smooth score, not an accuracy" if is_classes else "minus the mean absolute error"
    return Found(search, job.with_steps(steps, search.best_estimator_), X, by)


def _kept(search):
    """Return what is known after an interrupt, as text."""
    if not hasattr(search, "cv_results_"):
        return "no model was written"
    return (
        f"no model was written. The best of {len(search.cv_results_['params'])} points so far: "
        f"{_listed(search)}; optimargin train takes these as options"
    )


def _listed(search):
    return ", ".join(f"{k}={number_or_range(v, 4)}" for k, v in search.best_params_.items())
