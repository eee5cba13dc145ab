"""How an estimator would be fitted: the machine, why it is chosen, what it takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from optimargin._checks import check_weights
from optimargin.estimators._base import BaseLearner
from optimargin.training import Request
from optimargin.training.own_rows import is_indefinite
from optimargin.training.plan import plan_fit
from optimargin.training.prepare import prepare


@dataclass(frozen=True)
class PlannedMachine:
    """A solver on a design, and what it is expected to take on two cores.

    Attributes
    ----------
    solver : str
    design : str
        What the solver works on: "features", "linear_gram" (inner products of rows), "gram",
        "rounded_gram", "panels" or "tiles" (kernel values), or "landmarks".
    seconds : float
        NaN where there is no estimate.
    n_bytes : float
        Of what is kept besides the data; NaN where there is no estimate.
    is_exact : bool
        Whether it goes on to the exact solution.
    """

    solver: str
    design: str
    seconds: float
    n_bytes: float
    is_exact: bool

    @classmethod
    def of(cls, estimate) -> "PlannedMachine":
        """Return what an `optimargin.training.plan.Estimate` says."""
        machine = estimate.machine
        numbers = estimate.seconds, estimate.n_bytes, estimate.is_exact
        return cls(machine.solver, machine.design, *numbers)

    def __str__(self):
        if np.isnan(self.seconds):
            return f"{self.solver!r} on {self.design}"
        takes = f"about {1e3 * self.seconds:.3g} ms and {self.n_bytes / 1e6:.3g} MB"
        return f"{self.solver!r} on {self.design} ({takes})"


@dataclass(frozen=True)
class PlanExplanation:
    """Which machine fits an estimator, and why. ``str()`` of it is a sentence or two.

    Attributes
    ----------
    chosen : PlannedMachine
    runner_up : PlannedMachine or None
        The next best one, where there was a choice.
    reason : str
    n_samples : int
        Of positive weight; of the largest pair where classes are told apart by pairs.
    """

    chosen: PlannedMachine
    runner_up: PlannedMachine | None
    reason: str
    n_samples: int

    def __str__(self):
        text = f"{self.chosen} for {self.n_samples} samples: {self.reason}."
        return text if self.runner_up is None else f"{text} Next: {self.runner_up}."


def explain_plan(estimator, X, y=None, sample_weight=None) -> PlanExplanation:
    """Say how an estimator would be fitted to data, without fitting it.

    Parameters
    ----------
    estimator : estimator of this package
        A classifier, regressor or novelty detector; of one that chooses its parameters
        (``...CV``) pass ``best_estimator_``.
    X, y, sample_weight
        As for its `fit`.

    Returns
    -------
    explanation : PlanExplanation

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from optimargin import ODMClassifier, explain_plan
    >>> print(explain_plan(ODMClassifier(), *make_moons(1000, random_state=0)).chosen.solver)
    dcd
    """
    if not isinstance(estimator, BaseLearner):
        best = " of a fit: pass its best_estimator_" if hasattr(estimator, "cv") else ""
        raise TypeError(
            f"explain_plan takes estimators of this package that fit once, not a "
            f"{type(estimator).__name__}{best}."
        )
    estimator._validate_params()
    prepared, options = _prepared(estimator, X, y, sample_weight), estimator._options()
    n_outputs = len(prepared.targets)
    plan = plan_fit(prepared.X, prepared.objective, prepared.kernel, options, n_outputs)
    n_samples = prepared.X.shape[0]
    if not plan.estimates:
        chosen = PlannedMachine(plan.solver, plan.design, np.nan, np.nan, False)
        return PlanExplanation(chosen, None, "it was asked for", n_samples)
    chosen, *others = (PlannedMachine.of(estimate) for estimate in plan.estimates)
    fastest = min(others, default=chosen, key=lambda machine: machine.seconds)
    if options.solver != "auto":
        reason = f"solver={options.solver!r} was asked for"
    elif fastest.seconds < chosen.seconds:
        reason = "it is exact, and takes little longer than the fastest"
    else:
        reason = "it takes the least time" + (", and is exact" if chosen.is_exact else "")
    return PlanExplanation(chosen, others[0] if others else None, reason, n_samples)


def _prepared(estimator, X, y, sample_weight) -> Any:
    """Return what a fit starts from; of outputs on rows of their own, the largest."""
    X, y, _ = estimator._validated_training(X, y, ensure_all_finite=False)
    weight = check_weights(sample_weight, X)
    task = estimator._make_task(y, weight, X.dtype)
    request = Request(task.total, asked_by=type(estimator).__name__)
    kernel, targets = estimator._kernel_choice(), task.encode(y, weight)
    prepared = prepare(X, targets, estimator._objective(), kernel, request)
    places = [np.flatnonzero(target.weight) for target in prepared.targets]
    largest = max(range(len(places)), key=lambda k: places[k].size)
    is_shared = all(own.size == prepared.X.shape[0] for own in places)
    if is_shared or is_indefinite(prepared, estimator._options()):
        return prepared  # the positive part of a kernel matrix is that of all samples
    return prepared.output(largest, places[largest])
