"""Held-out decision values of the samples that a model was just fitted to.

In closed form where a factor is affordable, else by fits without each of a few folds; the plan
decides. Identical samples leave together, so that a weight of two is the same as a repetition.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin.held_out.closed_form import active_system
from optimargin.held_out.refitter import Folds
from optimargin.training.models import KernelModel, coefficients_of
from optimargin.training.plan import plan_held_out
from optimargin.training.rebuild import rebuild
from optimargin.training.train import train


@dataclass(frozen=True)
class Distinct:
    """The samples of positive weight, identical ones merged.

    Attributes
    ----------
    first : ndarray of shape (n_distinct,)
        Where each occurs first.
    inverse : ndarray of shape (n_samples,)
        Which of them each sample is; -1 for samples of no weight.
    weight : ndarray of shape (n_distinct,)
        Their weights, added.
    """

    first: np.ndarray
    inverse: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, X, y, weight) -> "Distinct":
        """Return the distinct samples of data.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n_samples, n_features)
            Canonical; two samples of a Gram matrix are the same if their rows are.
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        weight : ndarray of shape (n_samples,) or None
        """
        weight = np.ones(X.shape[0]) if weight is None else weight
        places: dict[Any, int] = {}
        first: list[int] = []
        inverse = np.full(X.shape[0], -1)
        _, label = np.unique(y, axis=0, return_inverse=True)
        for i, key in enumerate(_keys(X)):
            if weight[i] > 0:
                inverse[i] = places.setdefault((key, label[i]), len(places))
                if inverse[i] == len(first):
                    first.append(i)
        used = inverse >= 0
        total = np.bincount(inverse[used], weight[used], minlength=len(first))
        return cls(np.array(first, dtype=np.intp), inverse, total)


def _keys(X):
    """Yield something per row that is the same for the same values."""
    if not issparse(X):
        X = X + X.dtype.type(0)  # a negative zero is a zero
        yield from (row.tobytes() for row in X)
        return
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        part = slice(begin, end)
        yield X.indices[part].astype(np.int64).tobytes(), (X.data[part] + 0.0).tobytes()


def held_out_of_fit(X, y, weight, task, fit, *, kernel, options):
    """Return decision values of the samples for models that they took no part in.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
        The training data.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
    weight : ndarray of shape (n_samples,) or None
    task : Task
        Of all samples.
    fit : Fit
    kernel : KernelChoice or None
    options : Options

    Returns
    -------
    decision : ndarray of shape (n_samples, n_outputs)
        In the units of y. Samples of no weight took no part: theirs is that of the model itself.
    """
    distinct = Distinct.of(X, y, weight)
    is_square = kernel is not None and kernel.is_precomputed
    rows = distinct.first
    X_rows = X[np.ix_(rows, rows)] if is_square else X[rows]
    model = fit.model
    n_active = model.dual_coef.shape[1] if isinstance(model, KernelModel) else rows.size
    made = None if kernel is None else model.kernel
    if kernel is not None and kernel.has_gamma:
        kernel = replace(kernel, gamma=made.gamma)
    n_folds = plan_held_out(X_rows, made, options, n_active)
    settings = {"kernel": kernel, "options": options}
    if n_folds is None:
        own = _closed_form(X_rows, y[rows], distinct, task, fit, is_square, settings)
    else:
        own = _by_folds(X_rows, y[rows], distinct, task, fit, n_folds, is_square, settings)
    if (distinct.inverse >= 0).all():
        return own[distinct.inverse]
    decision = np.asarray(model.scores(X), dtype=np.float64)
    used = distinct.inverse >= 0
    decision[used] = own[distinct.inverse[used]]
    return decision


def _closed_form(X, y, distinct, task, fit, is_square, settings):
    model = fit.model
    if isinstance(model, KernelModel) and settings["options"].approximation is None:
        model = _merged(model, distinct, X)
    rebuilt = rebuild(
        X,
        task.encode(y, distinct.weight),
        fit.objective,
        total_weight=task.total,
        model=model,
        solved_by=fit.solver,
        **settings,
    )
    out = np.empty((X.shape[0], len(rebuilt.problems)))
    for k, problem in enumerate(rebuilt.problems):
        start = coefficients_of(problem.design, model, problem, k, rebuilt.rows)
        system = active_system(problem, problem.point(*start))
        out[:, k] = problem.target.scale.restored(system.leave_one_out())
    return out


def _merged(model, distinct, X):
    """Return a model whose support vectors are distinct samples."""
    places = distinct.inverse[model.support]
    support, inverse = np.unique(places, return_inverse=True)
    dual_coef = np.zeros((model.dual_coef.shape[0], support.size))
    np.add.at(dual_coef.T, inverse, model.dual_coef.T)
    vectors = model.vectors if model.kernel.is_precomputed else X[support]
    return replace(model, support=support, vectors=vectors, dual_coef=dual_coef)


def _by_folds(X, y, distinct, task, fit, n_folds, is_square, settings):
    # In an order that does not depend on that of the samples.
    order = np.array(sorted(range(X.shape[0]), key=list(_keys(X)).__getitem__))
    fold = np.empty(X.shape[0], dtype=np.intp)
    random_state = np.random.RandomState(settings["options"].seed)
    strata = task.strata(y)
    fold[order] = Folds.stratified(strata[order], n_folds, 1, random_state).fold[0]
    out = np.empty((X.shape[0], task.n_outputs))
    start = None if isinstance(fit.model, KernelModel) else fit.model
    for k in range(n_folds):
        train_rows, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        weight = distinct.weight[train_rows]
        part = task.part(y[train_rows], weight)
        share = part.total / task.total  # of the weights, which are kept
        without = train(
            X[np.ix_(train_rows, train_rows)] if is_square else X[train_rows],
            part.encode(y[train_rows], weight),
            replace(fit.objective, C1=share * fit.objective.C1, C2=share * fit.objective.C2),
            start=start,
            **settings,
        ).model
        out[test] = without.scores(X[np.ix_(test, train_rows)] if is_square else X[test])
    return out
