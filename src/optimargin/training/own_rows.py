"""Outputs that are asked for some of the samples only: each is trained on its own rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.targets import LABELS
from optimargin.training.designs import check_square
from optimargin.training.fit import Fit
from optimargin.training.models import KernelModel, LinearModel
from optimargin.training.plan import plan_small_pairs
from optimargin.training.small_pairs import solve_small_pairs

_SIDE_BY_SIDE_UP_TO = 3000  # samples of an output: larger ones have work for all threads


def train_on_own_rows(
    train, X, targets, objective, *, kernel, start, rows, options, progress
) -> Fit:
    """Train every output on the samples that it has weights for, and join the models.

    An output keeps its weights, which sum to its share of all: on its own rows, where they sum to
    one, that is a problem with that share of the penalties.

    Parameters
    ----------
    train : callable
        Trains one output: `optimargin.training.train` with its settings.
    X : {ndarray, CSR} of shape (n_samples, n_features)
        For a precomputed kernel the Gram matrix.
    targets : list of Target
    objective : BandObjective
        With its numbers.
    kernel : KernelChoice or None
        With its gamma as a number.
    start : LinearModel or None
    rows : ndarray of shape (n_samples,)
        Indices of the samples in the data of the user.
    options : Options
    progress : Progress
    """
    places = [np.flatnonzero(target.weight) for target in targets]
    objectives = [_scaled(objective, target.weight.sum()) for target in targets]
    fits: list[Any] = [None] * len(targets)
    made_kernel = None if kernel is None else kernel.resolve(X, None)
    if plan_small_pairs(objective, made_kernel, options, [own.size for own in places]):
        solutions = solve_small_pairs(
            X, targets, objectives, made_kernel, places, options, progress
        )
        fits = [_fit_of(solution, made_kernel, X, objective) for solution in solutions]
        return _together(fits, places, X, objective, rows)
    is_square = kernel is not None and kernel.is_precomputed
    if is_square:
        check_square(X)

    def train_output(k):
        own, target = places[k], targets[k]
        begin = None
        if start is not None:
            begin = LinearModel(start.coef[k : k + 1], start.intercept[k : k + 1])
        fits[k] = train(
            X[np.ix_(own, own)] if is_square else X[own],
            [target.take(own)],
            objectives[k],
            kernel=kernel,
            start=begin,
        )

    small = max(own.size for own in places) <= _SIDE_BY_SIDE_UP_TO
    for_each(train_output, range(len(targets)), work=X.shape[0] ** 2 if small else 0)
    return _together(fits, places, X, objective, rows)


def _together(fits, places, X, objective, rows):
    """Return one fit of all outputs; its solver is that of the largest."""
    largest = int(np.argmax([own.size for own in places]))
    return Fit(
        _joined([fit.model for fit in fits], places, X, rows),
        objective,
        fits[largest].solver,
        np.concatenate([fit.n_iter for fit in fits]),
        np.concatenate([fit.objective_value for fit in fits]),
        np.concatenate([fit.dual_gap for fit in fits]),
        [LABELS] * len(fits),
    )


def _fit_of(solution, kernel, X, objective):
    support = np.flatnonzero(solution.coef)
    dual_coef = solution.coef[None, support].astype(X.dtype, copy=False)
    intercept = np.array([solution.intercept], dtype=X.dtype)
    model = KernelModel(kernel, support, None, dual_coef, intercept)  # joined by indices alone
    return Fit.of(model, objective, "dcd", [solution], [LABELS])


def _scaled(objective, share):
    return replace(objective, C1=share * objective.C1, C2=share * objective.C2)


def _joined(models, places, X, rows) -> Any:
    """Return one model of all outputs; kernel models have the union of the support vectors."""
    intercept = np.concatenate([model.intercept for model in models])
    if isinstance(models[0], LinearModel):
        return LinearModel(np.concatenate([model.coef for model in models]), intercept)
    found = [own[model.support] for model, own in zip(models, places, strict=True)]
    support = np.unique(np.concatenate(found))
    dual_coef = np.zeros((len(models), support.size), dtype=intercept.dtype)
    for row, model, own in zip(dual_coef, models, found, strict=True):
        row[np.searchsorted(support, own)] = model.dual_coef[0]
    kernel = models[0].kernel
    vectors = models[0].vectors if kernel.is_precomputed else X[support]
    return KernelModel(kernel, rows[support], vectors, dual_coef, intercept)
