"""Held-out values are those of refits: every estimator that has them, on every kind of samples.

A table of estimators times samples times values, by public methods alone: what an estimator says
of samples left out is compared with what it says of them when it is fitted without them.
"""

import pickle
import warnings
from copy import copy
from functools import cache, cached_property, partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold
from sklearn.utils.extmath import row_norms

from optimargin import (
    LinearODMClassifier,
    LinearODMClassifierCV,
    LinearODMRegressor,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
    OneClassODM,
)
from tests.cases import CauchyKernel
from tests.held_out.refits import SAMPLES, TIGHT, Refits

OFTEN = ("copies of zeros", "wide, zeros")


# Estimators

BAND = {"C1": 60.0, "C2": 15.0, "D": 0.3}
NUMBERS = {"C1": 400.0, "C2": 150.0, "epsilon": 12.0}
QUADRATIC = {"C1": 40.0, "C2": 40.0}
HARD = {"C1": 1e6, "C2": 1e5, "D": 0.3}
LANDMARKS = {"approximation": "nystrom", "n_components": 8, "random_state": 0}
RBF = {"gamma": "scale"}

CLASSIFIERS = {
    "rbf": ODMClassifier(**BAND, **RBF),
    "rbf, widths": ODMClassifier(**BAND, gamma="per feature"),
    "rbf, newton_cg": ODMClassifier(**BAND, **RBF, solver="newton_cg"),
    "rbf, dcd": ODMClassifier(**BAND, **RBF, solver="dcd"),
    "rbf, no intercept": ODMClassifier(**BAND, **RBF, fit_intercept=False),
    "rbf, hard": ODMClassifier(**HARD, **RBF),
    "rbf, balanced": ODMClassifier(**BAND, **RBF, class_weight="balanced"),
    "rbf, sigmoid": ODMClassifier(**BAND, **RBF, calibration="sigmoid"),
    "rbf, isotonic": ODMClassifier(**BAND, **RBF, calibration="isotonic"),
    "rbf, quadratic": ODMClassifier(**QUADRATIC, D=0.0, **RBF, calibration="sigmoid"),
    "rbf, pairs": ODMClassifier(**BAND, **RBF, multi_class="ovo"),
    "rbf, rest": ODMClassifier(**BAND, **RBF, multi_class="ovr", calibration="temperature"),
    "linear kernel": ODMClassifier(**BAND, kernel="linear", calibration="sigmoid"),
    "poly": ODMClassifier(**BAND, kernel="poly", degree=2, coef0=1.0),
    "precomputed": ODMClassifier(**BAND, kernel="precomputed", calibration="sigmoid"),
    "indefinite": ODMClassifier(**BAND, kernel="sigmoid", gamma="scale", coef0=-0.3),
    "indefinite, pairs": ODMClassifier(
        **BAND, kernel="sigmoid", gamma="scale", coef0=-0.3, multi_class="ovo"
    ),
    "callable": ODMClassifier(**BAND, kernel=CauchyKernel()),
    "landmarks": ODMClassifier(**BAND, **RBF, **LANDMARKS, calibration="sigmoid"),
    "linear": LinearODMClassifier(**BAND),
    "linear, newton_cg": LinearODMClassifier(**BAND, solver="newton_cg"),
    "linear, no intercept": LinearODMClassifier(**BAND, fit_intercept=False),
    "linear, hard": LinearODMClassifier(**HARD),
    "linear, sigmoid": LinearODMClassifier(**BAND, calibration="sigmoid"),
    "linear, isotonic": LinearODMClassifier(**BAND, calibration="isotonic"),
    "linear, quadratic": LinearODMClassifier(**QUADRATIC, D=0.0, calibration="sigmoid"),
    "linear, pairs": LinearODMClassifier(**BAND, multi_class="ovo", calibration="sigmoid"),
    "linear, rest": LinearODMClassifier(**BAND, multi_class="ovr", class_weight="balanced"),
    "search": ODMClassifierCV(max_evals=4, relevance=False),
    "linear search": LinearODMClassifierCV(max_evals=4),
}
REGRESSORS = {
    "rbf": ODMRegressor(**NUMBERS, **RBF),
    "rbf, quadratic": ODMRegressor(**QUADRATIC, **RBF),
    "rbf, no intercept": ODMRegressor(**NUMBERS, **RBF, fit_intercept=False),
    "linear kernel": ODMRegressor(**NUMBERS, kernel="linear"),
    "precomputed": ODMRegressor(**NUMBERS, kernel="precomputed"),
    "landmarks": ODMRegressor(**NUMBERS, **RBF, **LANDMARKS),
    "linear": LinearODMRegressor(**NUMBERS),
    "linear, quadratic": LinearODMRegressor(**QUADRATIC),
    "search": ODMRegressorCV(max_evals=4),
    "linear search": LinearODMRegressorCV(max_evals=4, epsilon="scale"),
}
DETECTORS = {
    "rbf": OneClassODM(20.0, 5.0, 0.3, **RBF),
    "rbf, quadratic": OneClassODM(20.0, 20.0, 0.0, **RBF),
    "linear kernel": OneClassODM(20.0, 5.0, 0.3, kernel="linear"),
    "precomputed": OneClassODM(20.0, 5.0, 0.3, kernel="precomputed"),
    "landmarks": OneClassODM(20.0, 5.0, 0.3, **RBF, **LANDMARKS),
}

ESTIMATORS = {
    **{f"classifier, {name}": model for name, model in CLASSIFIERS.items()},
    **{f"regressor, {name}": model for name, model in REGRESSORS.items()},
    **{f"detector, {name}": model for name, model in DETECTORS.items()},
}
FREQUENT = (
    "classifier, linear, sigmoid",
    "classifier, rbf, pairs",
    "regressor, rbf, quadratic",
    "detector, rbf, quadratic",
)


# Refits


def _prepared(model, samples):
    """Return a copy of an estimator for these samples, and its inputs."""
    model, A, B = clone(model), samples.X, samples.new
    if not hasattr(model, "max_evals"):
        model.set_params(tol=TIGHT)
    if getattr(model, "gamma", None) == "per feature":
        model.set_params(gamma=np.linspace(0.1, 1.0, A.shape[1]) / A.shape[1])
    if getattr(model, "kernel", None) == "precomputed":
        gamma = 1.0 / A.shape[1]
        A, B = rbf_kernel(A, gamma=gamma), rbf_kernel(B, samples.X, gamma=gamma)
    return model, A, B


class Case:
    """An estimator fitted to samples, and what refits say."""

    def __init__(self, name, samples):
        self.samples = samples
        model, self.A, self.B = _prepared(ESTIMATORS[name], samples)
        self.y, self.weight = samples.targets(model), samples.weights
        self.given = (self.A,) if is_outlier_detector(model) else (self.A, self.y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = model.fit(*self.given, sample_weight=samples.weight)
        self.solved = getattr(model, "best_estimator_", model)
        # Where all samples are active, and pulled to one place, nothing changes sides.
        self.is_quadratic = self.solved.C1_ == self.solved.C2_ and "quadratic" in name
        self.refits = Refits(self.solved, self.A, self.B, self.y, self.weight)
        self.digits = samples.digits
        if name == "classifier, linear, newton_cg":
            # Its fits end by their certificates, which bound how far w is from the optimum.
            distance = np.sqrt(2 * TIGHT * np.max(self.solved.objective_))
            self.digits = max(self.digits, distance * row_norms(self.A).max())

    @cached_property
    def without_each(self):
        """Values of each sample for the refit without it, and those of new ones."""
        share = np.ones(len(self.weight))
        if is_outlier_detector(self.model):  # of several equal samples one is left out
            share = 1.0 / np.maximum(self.weight, 1.0)
        found = [self.refits.without([i], share[i]) for i in range(len(share))]
        return np.array([own[i] for i, (own, _) in enumerate(found)]), np.array(
            [new for _, new in found]
        )

    @cached_property
    def without_fold(self):
        """Values of each sample for the refit without its fold."""
        groups = self.samples.groups
        of_fold = {k: self.refits.without(groups == k)[0] for k in np.unique(groups)}
        return np.array([of_fold[k][i] for i, k in enumerate(groups)])

    @cached_property
    def without_copies(self):
        """The same as `without_each` of samples of positive weight, which leave with copies."""
        X = self.A.toarray() if sp.issparse(self.A) else self.A
        rows = np.column_stack([X, np.unique(self.y, return_inverse=True)[1]])
        copy = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        used = np.flatnonzero(self.weight)
        distinct = [used[copy[used] == k] for k in np.unique(copy[used])]
        found = [self.refits.without(each) for each in distinct]
        first = [each[0] for each in distinct]
        own = np.array([own[i] for i, (own, _) in zip(first, found, strict=True)])
        total = np.array([self.weight[each].sum() for each in distinct])
        return own, np.array([new for _, new in found]), np.array(first), total


@cache
def case(name, samples):
    """Return a case, which several values share."""
    return Case(name, SAMPLES[samples])


# Values


def _held_out(case, what, *args, given=(), **kwargs):
    """Ask for held-out values: "loo" or "kfold" ones."""
    kind = "decision_function"
    if is_regressor(case.model):
        kind = "prediction"
    elif is_outlier_detector(case.model):
        kind = "score_samples"
    return getattr(case.model, f"{what}_{kind}")(*args, *given, **kwargs)


def _check_near(case, found, expected):
    size = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=case.digits * size)


def check_each(case, *, exact):
    """Leave every sample out."""
    _check_near(case, _held_out(case, "loo", exact=exact), case.without_each[0])


def check_folds(case, *, exact):
    """Leave folds out."""
    found = _held_out(case, "kfold", GroupKFold(5), groups=case.samples.groups, exact=exact)
    _check_near(case, found, case.without_fold)


def check_given_again(case):
    """Leave samples out of a model that was pickled."""
    loaded = copy(case)
    loaded.model = pickle.loads(pickle.dumps(case.model))
    given = (*case.given, case.samples.weight)
    _check_near(case, _held_out(loaded, "loo", given=given, exact=True), case.without_each[0])
    splits = GroupKFold(5), *given
    found = _held_out(loaded, "kfold", *splits, groups=case.samples.groups, exact=True)
    _check_near(case, found, case.without_fold)


def check_values_of_probabilities(case):
    """Values that probabilities come from: identical samples leave together."""
    own, _, first, _ = case.without_copies
    used = case.weight[first] > 0
    _check_near(case, case.model.oob_decision_function_[first[used]], own[used])


LEVELS = np.array([0.5, 0.8, 0.9])


def _quantile(values, weight, level):
    """Return the smallest value that a share `level` of the weight, and one, does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) >= level * (weight.sum() + 1) * (1 - 1e-9)
    return values[order][np.argmax(reached)] if reached.any() else np.inf


def check_intervals(case, *, exact):
    """The jackknife+ of refits."""
    own, new, first, weight = case.without_copies
    residual = np.abs(case.y[first] - own)
    expected = [
        [
            [-_quantile(residual - values, weight, level) for level in LEVELS],
            [_quantile(residual + values, weight, level) for level in LEVELS],
        ]
        for values in new.T
    ]
    found = case.model.predict_interval(case.B, LEVELS, exact=exact)[1]
    is_finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), is_finite)
    _check_near(case, found[is_finite], np.array(expected)[is_finite])


def check_sets(case, *, exact):
    """Sets of classes that conform by refits; what is equal but for rounding may be either."""
    own, new, first, weight = case.without_copies
    y = case.y[first]
    classes = case.model.classes_
    of_new = _conformities(new)
    of_own = _conformities(own)[np.arange(len(y)), np.searchsorted(classes, y)]
    found = case.model.predict_set(case.B, LEVELS, exact=exact)[1]
    slack = case.digits * max(np.abs(new).max(), 1.0)
    for k, label in enumerate(classes):
        rows = y == label
        enough = LEVELS * (weight[rows].sum() + 1) * (1 - 1e-9)
        for is_larger, few in ((slack, np.less_equal), (-slack, np.greater_equal)):
            above = weight[rows] @ (of_own[rows, None] > of_new[rows, :, k] + is_larger)
            assert few(above[:, None] >= enough, ~found[:, k]).all()


def _conformities(values):
    """Return how far values speak for each class: what they are above those of all others."""
    if values.ndim == 1 or values.shape[-1] != 3:
        return np.stack([-values, values], axis=-1)
    others = [np.delete(values, k, axis=-1).max(axis=-1) for k in range(3)]
    return values - np.stack(others, axis=-1)


def check_p_values(case):
    """The ranks of new scores, by the refits without each sample."""
    own, new = case.without_each
    used = case.weight > 0
    tie = case.digits
    found = case.model.p_values(case.B) * (1 + case.weight.sum()) - 1
    for is_larger, ends in ((tie, np.less_equal), (-tie, np.greater_equal)):
        reached = own[used, None] <= new[used] - is_larger
        assert ends(case.weight[used] @ reached, found + np.sign(is_larger) * 1e-6).all()


def check_threshold(case):
    """The quantile of scores of refits that the rate asks for."""
    own, used = case.without_each[0], case.weight > 0
    order = np.argsort(own[used])
    reached = np.cumsum(case.weight[used][order])
    wanted = np.floor(case.model.false_alarm_rate * (reached[-1] + 1) * (1 + 1e-9))
    place = np.searchsorted(reached, wanted - 1e-9 * reached[-1])
    _check_near(case, case.model.offset_, own[used][order[place]])


def check_own_scores(case):
    """What the samples of the fit themselves are judged by."""
    own = clone(case.model).set_params(novelty=False)
    labels = own.fit_predict(case.A, sample_weight=case.samples.weight)
    _check_near(case, own.held_out_scores_, case.without_each[0])
    np.testing.assert_array_equal(labels == -1, own.held_out_scores_ < own.offset_)


VALUES = {
    "each, exactly": partial(check_each, exact=True),
    "each": partial(check_each, exact=False),
    "folds, exactly": partial(check_folds, exact=True),
    "folds": partial(check_folds, exact=False),
    "given again": check_given_again,
    "probabilities": check_values_of_probabilities,
    "intervals, exactly": partial(check_intervals, exact=True),
    "intervals": partial(check_intervals, exact=False),
    "sets, exactly": partial(check_sets, exact=True),
    "sets": partial(check_sets, exact=False),
    "p-values": check_p_values,
    "threshold": check_threshold,
    "own scores": check_own_scores,
}
# Without Newton steps they are exact where all samples are active, and pulled to one place.
CLOSED_FORMS = (
    "each",
    "folds",
    "probabilities",
    "intervals",
    "sets",
    "p-values",
    "threshold",
    "own scores",
)
OF_A_KIND = {
    "probabilities": "classifier",
    "sets": "classifier",
    "intervals": "regressor",
    "p-values": "detector",
    "threshold": "detector",
    "own scores": "detector",
}


def _has(estimator, value):
    """Return whether an estimator has such values, and they are exact."""
    kind = OF_A_KIND.get(value.removesuffix(", exactly"))
    if kind is not None and not estimator.startswith(kind):
        return False
    if value == "probabilities" and "search" in estimator:
        return False  # theirs come from the search
    if value == "probabilities" and getattr(ESTIMATORS[estimator], "calibration", None) is None:
        return False
    return "quadratic" in estimator or value not in CLOSED_FORMS


def _cells():
    """Return all cells; those that say little which others do not are slow tests."""
    cells = []
    for estimator, samples, value in product(ESTIMATORS, SAMPLES, VALUES):
        if _has(estimator, value):
            often = samples in OFTEN or estimator in FREQUENT
            marks = () if often else pytest.mark.slow
            name = f"{estimator}-{samples}-{value}"
            cells.append(pytest.param(estimator, samples, value, id=name, marks=marks))
    return cells


@pytest.mark.filterwarnings("ignore:false_alarm_rate:UserWarning", "ignore:No sample:UserWarning")
@pytest.mark.parametrize(("estimator", "samples", "value"), _cells())
def test_held_out_values_are_those_of_refits(estimator, samples, value):
    VALUES[value](case(estimator, samples))


@pytest.mark.parametrize("samples", ["zeros among weights", "wide, zeros"])
@pytest.mark.parametrize("model", [REGRESSORS["rbf"], REGRESSORS["linear"]], ids=["rbf", "linear"])
def test_values_of_several_targets_are_those_of_each_alone(model, samples):
    samples = SAMPLES[samples]
    y = samples.targets(model)
    both = (
        clone(model)
        .set_params(tol=TIGHT)
        .fit(samples.X, np.column_stack([y, -3 * y]), samples.weight)
    )
    one = clone(model).set_params(tol=TIGHT).fit(samples.X, y, samples.weight)
    splits = {"cv": GroupKFold(5), "groups": samples.groups}
    for method, arguments in (("loo_prediction", {}), ("kfold_prediction", splits)):
        found = getattr(both, method)(**arguments, exact=True)
        expected = getattr(one, method)(**arguments, exact=True)
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9)
