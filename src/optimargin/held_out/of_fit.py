"""The models without each sample of a fit: what they say about it, and about new samples.

In closed form where a factor is affordable, else by fits without each of a few folds; the plan
decides. Identical samples leave together, so that a weight of two is the same as a repetition.
Probabilities, prediction intervals and prediction sets are made of what these models say.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin._threads import blas_threads_for
from optimargin.held_out.closed_form import points_without_each
from optimargin.kernels.prepared import row_blocks
from optimargin.systems import Folds, system_of
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
        used = np.flatnonzero(weight)
        if np.unique(_marks(X)[used]).size == used.size:  # most data: no two rows are alike
            inverse = np.full(X.shape[0], -1)
            inverse[used] = np.arange(used.size)
            return cls(used, inverse, weight[used])
        places: dict[Any, int] = {}
        keys, (_, label) = list(_keys(X)), np.unique(y, axis=0, return_inverse=True)
        inverse = np.full(X.shape[0], -1)
        inverse[used] = [places.setdefault((keys[i], label[i]), len(places)) for i in used]
        first = used[np.unique(inverse[used], return_index=True)[1]]
        total = np.bincount(inverse[used], weight[used], minlength=first.size)
        return cls(first, inverse, total)


def _marks(X):
    """Return a number per row, of which identical rows have the same, to the last bit."""
    factors = np.random.default_rng(0).uniform(0.5, 1.5, size=X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if issparse(X):
            return X @ factors
        return np.concatenate([(X[rows] * factors).sum(axis=1) for rows in row_blocks(*X.shape)])


def _keys(X):
    """Yield something per row that is the same for the same values."""
    if not issparse(X):
        X = X + X.dtype.type(0)  # a negative zero is a zero
        yield from (row.tobytes() for row in X)
        return
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        part = slice(begin, end)
        yield X.indices[part].astype(np.int64).tobytes(), (X.data[part] + 0.0).tobytes()


@dataclass(frozen=True)
class TrainedOn:
    """A trained model and the data it was trained on, or those of them that support it.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
        Validated; for a precomputed kernel the Gram matrix.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
    weight : ndarray of shape (n_samples,) or None
    task : Task
        Of all samples.
    objective : Objective
        With the numbers that were used.
    model : LinearModel or KernelModel
    kernel : KernelChoice or None
    options : Options
    solver : str
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    task: Any
    objective: Any
    model: Any
    kernel: Any
    options: Any
    solver: str

    @cached_property
    def distinct(self):
        """The samples of positive weight, identical ones merged."""
        return Distinct.of(self.X, self.y, self.weight)

    @cached_property
    def rows(self):
        """The distinct samples themselves."""
        return self.part(self.X, self.distinct.first, self.distinct.first)

    @property
    def n_folds(self):
        """The number of folds to be fitted, or None for the closed form."""
        model = self.model
        is_kernel = isinstance(model, KernelModel)
        n_active = model.dual_coef.shape[1] if is_kernel else self.distinct.first.size
        return plan_held_out(self.rows, model.kernel if is_kernel else None, self.options, n_active)

    def known_kernel(self):
        """Return the kernel with the number that its gamma was resolved to."""
        return None if self.kernel is None else self.kernel.known(self.model.kernel)

    def part(self, X, rows, columns):
        """Return some rows, and of a Gram matrix some columns."""
        if self.kernel is None or not self.kernel.is_precomputed:
            return X if rows is None else X[rows]
        return X[:, columns] if rows is None else X[np.ix_(rows, columns)]


def held_out_of_fit(trained: TrainedOn):
    """Return decision values of the samples for models that they took no part in.

    Returns
    -------
    decision : ndarray of shape (n_samples, n_outputs)
        In the units of y. Samples of no weight took no part: theirs is that of the model itself.
    """
    own, inverse = left_out_models(trained).own, trained.distinct.inverse
    used = inverse >= 0
    if used.all():
        return own[inverse]
    decision = np.asarray(trained.model.scores(trained.X), dtype=np.float64)
    decision[used] = own[inverse[used]]
    return decision


def left_out_models(trained: TrainedOn):
    """Return the models without each distinct sample, or without each of a few folds."""
    return (SampleModels if trained.n_folds is None else FoldModels).of(trained)


@dataclass(frozen=True)
class LeftOutModels(ABC):
    """The models without each distinct sample.

    Attributes
    ----------
    own : ndarray of shape (n_distinct, n_outputs)
        The value of each sample for the model without it, in the units of y.
    y : ndarray of shape (n_distinct,) or (n_distinct, n_outputs)
    weight : ndarray of shape (n_distinct,)
        Numbers of repetitions.
    """

    own: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    _trained: TrainedOn

    @abstractmethod
    def values(self, X, scores):
        """Return what every model says about new samples.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n_new, n_features)
        scores : ndarray of shape (n_new, n_outputs)
            Of the model of all samples, in the units of y.

        Returns
        -------
        values : ndarray of shape (n_new, n_distinct, n_outputs)
        """


@dataclass(frozen=True)
class SampleModels(LeftOutModels):
    """The models without one distinct sample each, in closed form.

    There may be further samples, outside the active set: to them the model of all samples is the
    one without them.
    """

    _rebuilt: Any
    _systems: list

    @classmethod
    def of(cls, trained) -> "SampleModels":
        """Return the models without each sample of a fit."""
        distinct, model = trained.distinct, trained.model
        y = trained.y[distinct.first]
        if isinstance(model, KernelModel) and trained.options.approximation is None:
            model = _merged(model, distinct, trained.rows)
        rebuilt = rebuild(
            trained.rows,
            trained.task.encode(y, distinct.weight),
            trained.objective,
            total_weight=trained.task.total,
            model=model,
            solved_by=trained.solver,
            kernel=trained.known_kernel(),
            options=trained.options,
        )
        systems, own = [], []
        with blas_threads_for(len(y)):
            for k, problem in enumerate(rebuilt.problems):
                start = coefficients_of(problem.design, model, problem, k, rebuilt.rows)
                systems.append(system_of(problem, problem.point(*start)))
                own.append(problem.target.scale.restored(systems[k].left_out()[:, 0]))
        return cls(np.stack(own, axis=1), y, distinct.weight, trained, rebuilt, systems)

    def values(self, X, scores):
        """Return what every model says about new samples."""
        out = np.repeat(scores[:, None], len(self.own), axis=1)
        with blas_threads_for(len(self.own)):
            for k, (problem, system) in enumerate(zip(self._problems, self._systems, strict=True)):
                scale, active = problem.target.scale, system.active
                moved = system.influence(self._coordinates(X, active)) * system.changes()[0][:, 0]
                whole = (scores[:, [k]] - scale.center) / scale.unit
                out[:, active, k] = scale.restored(whole - moved)
        return out

    def exactly(self, X):
        """Return the same, and `own`, with the samples followed that enter or leave the active set.

        A few Newton steps for each active sample.
        """
        shape = X.shape[0], len(self.own), len(self._systems)
        values, own = np.empty(shape), np.empty(shape[1:])
        for k, (problem, system) in enumerate(zip(self._problems, self._systems, strict=True)):
            new = self._coordinates(X, np.arange(problem.design.n_samples))
            scale = problem.target.scale
            values[..., k] = new @ system.coef + system.intercept
            own[:, k] = system.decision[:, 0]
            for i, point in points_without_each(problem, system):
                values[:, i, k] = new @ point.coef + point.intercept
                own[i, k] = point.decision[i] + point.intercept
            values[..., k], own[:, k] = scale.restored(values[..., k]), scale.restored(own[:, k])
        return values, own

    @property
    def _problems(self):
        return self._rebuilt.problems

    def _coordinates(self, X, active):
        """Return new samples as closed forms need them; kernel values are those of all samples."""
        return self._rebuilt.coordinates(
            self._trained.part(X, None, self._trained.distinct.first), active
        )


def _merged(model, distinct, X):
    """Return a model whose support vectors are distinct samples."""
    places = distinct.inverse[model.support]
    support, inverse = np.unique(places, return_inverse=True)
    dual_coef = np.zeros((model.dual_coef.shape[0], support.size))
    np.add.at(dual_coef.T, inverse, model.dual_coef.T)
    vectors = model.vectors if model.kernel.is_precomputed else X[support]
    return replace(model, support=support, vectors=vectors, dual_coef=dual_coef)


@dataclass(frozen=True)
class FoldModels(LeftOutModels):
    """The models without one fold each, which stand for those without one of its samples."""

    _fold: np.ndarray
    _models: list

    @classmethod
    def of(cls, trained) -> "FoldModels":
        """Return the models of fits to all folds but one."""
        distinct, task, X, n_folds = trained.distinct, trained.task, trained.rows, trained.n_folds
        y = trained.y[distinct.first]
        # In an order that does not depend on that of the samples.
        order = np.array(sorted(range(X.shape[0]), key=list(_keys(X)).__getitem__))
        fold = np.empty(X.shape[0], dtype=np.intp)
        random_state = np.random.RandomState(trained.options.seed)
        fold[order] = Folds.stratified(task.strata(y)[order], n_folds, 1, random_state).fold[0]
        own = np.empty((X.shape[0], task.n_outputs))
        start = None if isinstance(trained.model, KernelModel) else trained.model
        objective, models = trained.objective, []
        for k in range(n_folds):
            kept, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            weight = distinct.weight[kept]
            part = task.part(y[kept], weight)
            share = part.total / task.total  # of the weights, which are kept
            model = train(
                trained.part(X, kept, kept),
                part.encode(y[kept], weight),
                replace(objective, C1=share * objective.C1, C2=share * objective.C2),
                start=start,
                kernel=trained.known_kernel(),
                options=trained.options,
            ).model
            own[test] = model.scores(trained.part(X, test, kept))
            models.append(model)
        return cls(own, y, distinct.weight, trained, fold, models)

    def values(self, X, scores):
        """Return what the model without each sample's fold says about new samples."""
        first = self._trained.distinct.first
        by_fold = [
            model.scores(self._trained.part(X, None, first[self._fold != k]))
            for k, model in enumerate(self._models)
        ]
        return np.stack(by_fold, axis=1)[:, self._fold]
