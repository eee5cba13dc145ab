"""What a training starts from: checked samples of positive weight, and all numbers known."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from optimargin._checks import check_finite, check_scale, sum_of_squares
from optimargin.designs import total_variance
from optimargin.kernels import Kernel
from optimargin.targets import Target, shared_weight
from optimargin.training.plan import Plan


class NoProgress:
    """What listens to a training: nobody."""

    @contextmanager
    def problem(self):
        """Return a context around the solution of one problem: an `OnIteration`, or None."""
        yield None


@dataclass(frozen=True)
class Request:
    """What a caller wants of a training besides a model.

    Attributes
    ----------
    total_weight : float
        The sum of the weights before they were normalised; defaults depend on it.
    plan : Plan or None
        How to do it; decided by `plan_fit` when None.
    held_out_error : callable or None
        Given a target and held-out decision values, it says how bad these are (see
        `Task.held_out_error`); decides about the number of landmarks.
    calibrate : Calibrator or None
        Says what the scores of a kernel model with one output mean.
    progress : NoProgress, or what has the same method
    notify : callable
        Given facts that the user should know; see `optimargin.training.designs`.
    asked_by : str
        The name of an estimator, for error messages.
    """

    total_weight: float = 1.0
    plan: Plan | None = None
    held_out_error: Callable | None = None
    calibrate: Any = None
    progress: Any = field(default_factory=NoProgress)
    notify: Callable = lambda fact: None
    asked_by: str = ""


@dataclass(frozen=True)
class Prepared:
    """Samples of positive weight, and the numbers that they decide.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
        For a precomputed kernel the Gram matrix.
    targets : list of Target
    objective : Objective
        With its numbers.
    kernel : Kernel or None
        The same; None for a model with coefficients per feature.
    rows : ndarray of shape (n_samples,)
        Indices of the samples in the data given by the user.
    weight : ndarray of shape (n_samples,)
        Those of any output that is asked for a sample.
    square : float
        The sum of the squares of all values of X.
    """

    X: Any
    targets: list[Target]
    objective: Any
    kernel: Kernel | None
    rows: np.ndarray
    weight: np.ndarray
    square: float

    def output(self, k, rows):
        """Return output `k` on the rows that it has weights for.

        It keeps its weights, which sum to its share of all: on its own rows, where they sum to
        one, that is a problem with that share of the penalties.
        """
        is_square = self.kernel is not None and self.kernel.is_precomputed
        X = self.X[np.ix_(rows, rows)] if is_square else self.X[rows]
        target, share = self.targets[k].take(rows), self.targets[k].weight.sum()
        C1, C2 = share * self.objective.C1, share * self.objective.C2
        return Prepared(
            X,
            [target],
            replace(self.objective, C1=C1, C2=C2),
            self.kernel,
            np.arange(rows.size),
            target.weight,
            sum_of_squares(X),
        )


def prepare(X, targets, objective, kernel, request) -> Prepared:
    """Return what a training starts from; parameters are those of `train`."""
    weight = shared_weight(targets)
    used = weight > 0
    rows = np.arange(X.shape[0])
    if not used.all():
        check_finite(X, request.asked_by)
        rows = np.flatnonzero(used)
        is_square = kernel is not None and kernel.is_precomputed
        X = X[np.ix_(rows, rows)] if is_square else X[rows]
        targets = [target.take(rows, weight[rows].sum()) for target in targets]
        weight = shared_weight(targets)
    is_raw = kernel is not None and not kernel.is_prepared  # kernel values are used as they are
    square = (check_finite if is_raw else check_scale)(X, request.asked_by)
    made = None if kernel is None else kernel.resolve(X, weight)
    is_linear = made is None or made.is_linear
    objective = objective.resolve(
        lambda: penalty_unit_of(X, weight, request.total_weight, is_linear=is_linear)
    )
    return Prepared(X, targets, objective, made, rows, weight, square)


def penalty_unit_of(X, weight, total_weight, *, is_linear):
    """Return the penalty that is one per sample and free of the units of the features.

    Rows twice as long ask for coefficients half as large, which the penalty on them makes four
    times cheaper: the loss of linear models is weighted less by as much. Values of other kernels
    are meant to be of size one.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
        Positive, summing to one.
    total_weight : float
        The sum of the weights of all samples.
    is_linear : bool
        Whether the model is linear in the features.
    """
    variance = total_variance(X, weight) if is_linear else 0.0
    return total_weight / (variance or 1.0)  # constant features have no variance
