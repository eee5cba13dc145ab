"""Outputs that are asked for some of the samples only: each is trained on its own rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from optimargin.targets import LABELS
from optimargin.training.fit import Fit
from optimargin.training.models import KernelModel, LinearModel


def train_on_own_rows(train, X, targets, objective, *, kernel, start, rows) -> Fit:
    """Train every output on the samples that it has weights for, and join the models.

    An output keeps its weights, which sum to its share of all: on its own rows, where they sum to
    one, that is a problem with that share of the penalties.

    Parameters
    ----------
    train : callable
        Trains one output: `optimargin.training.train` with its options.
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
    """
    is_square = kernel is not None and kernel.is_precomputed
    fits, places = [], []
    for k, target in enumerate(targets):
        own = np.flatnonzero(target.weight)
        share = target.weight.sum()
        begin = None
        if start is not None:
            begin = LinearModel(start.coef[k : k + 1], start.intercept[k : k + 1])
        fits.append(
            train(
                X[np.ix_(own, own)] if is_square else X[own],
                [target.take(own)],
                replace(objective, C1=share * objective.C1, C2=share * objective.C2),
                kernel=kernel,
                start=begin,
            )
        )
        places.append(own)
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
