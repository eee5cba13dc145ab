"""One training set, and refitters of its parts for any kernel parameter."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse

from optimargin._checks import check_scale
from optimargin.designs import FeatureDesign
from optimargin.held_out.engine import FoldedData, KernelData, LinearData, make_refitter
from optimargin.held_out.search_designs import PlainFeatures
from optimargin.kernels import (
    KernelChoice,
    gamma_of_width,
    gram_matrix,
    make_kernel,
    mean_distance,
    resolve_gamma,
    squared_distances,
)
from optimargin.objectives import Objective
from optimargin.selection.criteria import Truth
from optimargin.selection.widths import Widths
from optimargin.targets import Target, shared_weight
from optimargin.tasks import Classification, Task
from optimargin.training.plan import plan_folds, plan_search_samples
from optimargin.training.prepare import penalty_unit_of

_MEAN_OF = 4000  # samples whose mean distance is the unit of widths: it only has to be one


@dataclass(frozen=True, eq=False)
class SelectionData:
    """Validated data, and what is to be fitted to them.

    Distances, or inner products, are computed once and shared by all refitters.

    Parameters
    ----------
    objective_type : type
        An `Objective`.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : ndarray of shape (n_samples,) or None
    kernel : KernelChoice
        Its gamma is ignored.
    fit_intercept : bool
    task : Task, default=None
        What y means; labels, without class weights, when not given.
    fixed : dict
        Parameters of the objective that are not chosen.
    score_params : dict
        What to pass to scorers.
    refit : callable, default=make_refitter
        Given `KernelData` or `LinearData`, the objective's type, targets and whether to fit an
        intercept, it returns a refitter.
    rows : ndarray of shape (n_samples,), default=None
        Indices of the samples in the data that they were drawn from; all of them, in order.
    width_unit : float, default=None
        What widths are measured in; the mean distance of these samples when not given.

    Attributes
    ----------
    n_samples : int
    strata : ndarray of shape (n_samples,)
        What samples drawn, and folds, have equal shares of.
    targets : list of Target
        Of each output.
    weight : ndarray of shape (n_samples,)
        Of each sample in any output.
    n_asked : list of int
        How many samples each output is asked for.
    are_pairs : bool
        Whether outputs are asked for some of the samples only, as pairs of classes are.
    """

    objective_type: type[Objective]
    X: Any
    y: np.ndarray
    sample_weight: np.ndarray | None
    _: KW_ONLY
    kernel: KernelChoice
    fit_intercept: bool
    task: Task = None  # type: ignore[assignment]
    fixed: dict[str, Any] = field(default_factory=dict)
    score_params: dict[str, Any] = field(default_factory=dict)
    refit: Callable = make_refitter
    rows: np.ndarray = None  # type: ignore[assignment]
    width_unit: float | None = None
    n_samples: int = field(init=False)
    strata: np.ndarray = field(init=False)
    targets: list[Target] = field(init=False)
    weight: np.ndarray = field(init=False)
    n_asked: list[int] = field(init=False)
    are_pairs: bool = field(init=False)

    def __post_init__(self):
        y, weight, n_samples = self.y, self.sample_weight, self.X.shape[0]
        task = Classification.from_labels(y, weight) if self.task is None else self.task
        targets = task.encode(y, weight)
        of_any = shared_weight(targets)
        n_used = np.count_nonzero(of_any)
        n_asked = [np.count_nonzero(target.weight) for target in targets]
        n_asked = [n_samples if n == n_used else n for n in n_asked]
        vars(self).update(  # as nobody else can
            task=task,
            rows=np.arange(n_samples) if self.rows is None else self.rows,
            n_samples=n_samples,
            strata=task.strata(y),
            targets=targets,
            weight=of_any,
            n_asked=n_asked,
            are_pairs=min(n_asked) < n_samples,
        )

    def objective_at(self, point):
        """Return the objective of a point, fixed parameters included, and its gamma or None."""
        gamma = point.get("gamma")
        chosen = {name: value for name, value in point.items() if name != "gamma"}
        return self.objective_type(**{**self.fixed, **chosen}), gamma

    def sample(self, max_samples, random_state):
        """Return data of at most `max_samples`, with the same shares of the classes."""
        n_samples = self.n_samples
        if max_samples is None or n_samples <= max_samples:
            return self
        rows = np.flatnonzero(self.weight)
        if rows.size > max_samples:
            strata = self.strata[rows]
            some = _stratified(strata, max_samples, random_state)
            lacking = np.setdiff1d(strata, strata[some])
            if lacking.size:  # every class keeps a sample
                largest = np.flatnonzero(strata[some] == np.bincount(strata[some]).argmax())
                first = [np.flatnonzero(strata == k)[0] for k in lacking]
                some = np.sort(np.append(np.delete(some, largest[: lacking.size]), first))
            rows = rows[some]
        y, weight = self._part(rows)
        return replace(
            self,
            X=self.X[np.ix_(rows, rows)] if self.kernel.is_precomputed else self.X[rows],
            y=y,
            sample_weight=weight,
            task=self.task.part(y, weight),
            rows=self.rows[rows],
            width_unit=None,
        )

    def lacks_a_class(self, rows):
        """Return whether some samples lack a class that others have."""
        return np.unique(self.strata[rows]).size < np.unique(self.strata[self.weight > 0]).size

    def scaled(self, factors):
        """Return the same data with each feature multiplied by a factor."""
        if issparse(self.X):
            X = (self.X @ diags_array(factors)).tocsr()
        else:
            X = self.X * factors.astype(self.X.dtype)
        return replace(self, X=X, width_unit=None)

    def searched(self, max_samples, random_state):
        """Return the samples that a search looks at: all, up to the limit of user and plan."""
        limit = plan_search_samples(self.objective_type, self.X, self.n_asked, self.kernel.kind)
        limit = min(limit, self.n_samples if max_samples is None else max_samples)
        return self.sample(int(limit), random_state)

    def looks(self, n_samples):
        """Return some of the samples, with the same units of the search."""
        drawn = self.sample(n_samples, np.random.RandomState(0))
        unit = self.mean_distance if self.kernel.kind.has_width else None
        return replace(drawn, width_unit=unit)

    def _part(self, rows):
        """Return y and weights of some samples."""
        return self.y[rows], None if self.sample_weight is None else self.sample_weight[rows]

    def truth(self, rows, what="The samples scored"):
        """Return what decision values of `rows` are compared with."""
        weight = np.ones(self.n_samples) if self.sample_weight is None else self.sample_weight
        weight = weight[rows]
        if not weight.any():
            raise ValueError(f"{what} have zero weight: nothing can be scored.")
        return Truth(
            self.task,
            self.y[rows],
            weight / weight.sum(),
            self.sample_weight is not None,
            self.rows[rows],
            self.score_params,
        )

    @cached_property
    def mean_distance(self):
        """The width that `gamma="mean_distance"` stands for, by at most so many samples."""
        if self.width_unit is not None:
            return self.width_unit
        rows = np.flatnonzero(self.weight)
        if rows.size > _MEAN_OF:
            rows = rows[_stratified(self.strata[rows], _MEAN_OF, np.random.RandomState(0))]
        return float(mean_distance(self.X[rows], self.weight[rows])) or 1.0

    def gamma_at(self, log2_width):
        """Return gamma at the binary logarithm of a width in units of the mean distance."""
        return float(gamma_of_width(self.mean_distance * 2.0**log2_width))

    def log2_width(self, gamma):
        """Return the binary logarithm of the width, in units of the mean distance."""
        return 0.5 * np.log2(gamma_of_width(self.mean_distance) / gamma)

    @cached_property
    def unit(self):
        """The penalty that is one per sample and free of the units of the features."""
        rows = np.flatnonzero(self.weight)
        return penalty_unit_of(
            self.X[rows],
            self.weight[rows],
            self.task.total,
            is_linear=self.kernel.kind.is_linear,
        )

    def default_gamma(self):
        """Return the number of `gamma="scale"`."""
        rows = np.flatnonzero(self.weight)
        return resolve_gamma("scale", self.X[rows], self.weight[rows])

    @cached_property
    def distances(self):
        """Squared distances between all samples, float64."""
        check_scale(self.X)
        return np.ascontiguousarray(squared_distances(self.X), dtype=np.float64)

    def part_targets(self, train=None):
        """Return samples of positive weight, and their targets with weights of their own.

        Parameters
        ----------
        train : ndarray of shape (n_train,), default=None
            All samples when not given. Class weights are applied anew to a part.
        """
        if train is None:
            train, targets = np.arange(self.n_samples), self.targets
        else:
            y, weight = self._part(train)
            targets = self.task.part(y, weight).encode(y, weight)
        every = shared_weight(targets)
        used = np.flatnonzero(every)
        return train[used], [target.take(used, every[used].sum()) for target in targets]

    def refitter(self, gamma=None, train=None, test=None):
        """Return the refitter of some of the samples.

        Parameters
        ----------
        gamma : float or None
            For kernels that have one.
        train : ndarray of shape (n_train,), default=None
            All samples when not given; those of zero weight are left out.
        test : ndarray of shape (n_test,), default=None
            Samples to be predicted.
        """
        train, targets = self.part_targets(train)
        weight = shared_weight(targets)
        data: KernelData | LinearData
        if self.kernel.kind.is_linear:
            check_scale(self.X)
            X = self.X[train]
            center = None
            if self.fit_intercept and not issparse(X):
                center = FeatureDesign(X).represent(weight)
            data = LinearData(X, center, None if test is None else self.X[test])
        else:
            data = KernelData(*self._gram(gamma, train, weight, test))
        return self.refit(data, self.objective_type, targets, self.fit_intercept)

    def folds_refitter(self, gamma, folds, random_state):
        """Return the refitter of all samples that leaves folds out, as the plan says.

        Parameters
        ----------
        gamma : float or None
            For kernels that have one.
        folds : Folds
            Of the samples of positive weight.
        random_state : RandomState
            Draws landmarks.

        Returns
        -------
        refitter : Refitter
        widths : Widths or None
            Where kernel values depend on one.
        """
        plan = plan_folds(self.objective_type, self.X, self.n_asked, self.kernel.kind)
        if not plan.in_few_dimensions:
            return self.refitter(gamma), self.widths()
        check_scale(self.X)
        used, targets = self.part_targets()
        X = self.X[used]
        widths = design = None
        if self.kernel.kind.is_linear:
            center = X.T @ targets[0].weight if self.fit_intercept else 0.0
            design = PlainFeatures.of((X - center).astype(plan.dtype))
        else:
            landmarks = X[_stratified(self.strata[used], plan.n_landmarks, random_state)]
            distances = {
                "landmarks": squared_distances(X, landmarks).astype(plan.dtype),
                "between": squared_distances(landmarks).astype(np.float64),
            }
            widths = Widths(self.kernel, distances)
        data = FoldedData(design, folds, plan.dtype)
        return self.refit(data, self.objective_type, targets, self.fit_intercept), widths

    def _gram(self, gamma, train, weight, test=None):
        """Return the positive semi-definite Gram matrix, and the kernel of test and train.

        Where an indefinite kernel was replaced by its positive part, the second matrix is
        changed with it.
        """
        if self.kernel.kind.has_width:
            values = self.widths(train, test).values(gamma)
            return values["samples"], values.get("test")
        kernel = self.kernel.at(gamma)
        raw = np.asarray(kernel(self.X), dtype=np.float64)
        if not np.isfinite(raw).all():
            raise ValueError(
                f"Kernel {kernel.name!r} overflows on X: scale the features, for example with "
                "StandardScaler."
            )
        part = np.ascontiguousarray(raw[np.ix_(train, train)])
        K_test = None if test is None else raw[np.ix_(test, train)]
        if kernel.is_positive_semidefinite:
            return part, K_test
        gram = gram_matrix(make_kernel("precomputed"), part, weight)
        if gram.projector is not None and test is not None:
            K_test = K_test @ gram.projector
        return gram.K, K_test

    def widths(self, train=None, test=None, per_feature=False):
        """Return what changes the kernel values of the refitter of some samples, or None.

        Parameters
        ----------
        train, test
            As in `refitter`.
        per_feature : bool
            Whether there will be a width per feature.
        """
        if not self.kernel.kind.has_width:
            return None
        train = np.arange(self.n_samples) if train is None else train
        train = train[self.weight[train] > 0]
        if per_feature:
            return Widths.per_feature(
                self.kernel, self.X[train], None if test is None else self.X[test]
            )
        is_whole = train.size == self.n_samples  # then without a copy
        distances = {
            "samples": self.distances if is_whole else self.distances[np.ix_(train, train)]
        }
        if test is not None:
            distances["test"] = self.distances[np.ix_(test, train)]
        return Widths(self.kernel, distances)


def _stratified(strata, n_drawn, random_state):
    """Return some samples, in order, with the same shares of the strata."""
    shuffled = random_state.permutation(strata.size)
    in_strata = shuffled[np.argsort(strata[shuffled], kind="stable")]
    return np.sort(in_strata[np.arange(n_drawn) * strata.size // n_drawn])
