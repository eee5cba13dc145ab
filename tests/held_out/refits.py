"""Samples of many kinds, and fits of a problem again without some of them."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.metrics.pairwise import rbf_kernel, sigmoid_kernel

TIGHT = 1e-13
"""The tolerance of fits."""


@dataclass(frozen=True)
class Samples:
    """Rows, their weights and groups, and new rows.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    score : ndarray of shape (n_samples,)
        What targets are made of.
    weight : ndarray of shape (n_samples,) or None
    groups : ndarray of shape (n_samples,)
        Rows that are left out together by folds.
    new : {ndarray, CSR} of shape (n_new, n_features)
    digits : float
        How closely values agree.
    """

    X: Any
    score: np.ndarray
    weight: Any
    groups: np.ndarray
    new: Any
    digits: float = 1e-7

    @property
    def weights(self):
        """The weights as an array."""
        return np.ones(self.X.shape[0]) if self.weight is None else self.weight

    def targets(self, model):
        """Return what `model` is asked for on these rows."""
        if is_outlier_detector(model):
            return None
        if is_regressor(model):
            return 1e3 + 50.0 * self.score
        ends = np.quantile(self.score, [0.75] if _n_classes(model) == 2 else [0.4, 0.75])
        return np.array(["a", "b", "c"])[np.digitize(self.score, ends)]


def _n_classes(model):
    return 3 if getattr(model, "multi_class", "auto") != "auto" else 2


def _rows(n_samples=26, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n_samples, n_features)), rng.normal(size=(7, n_features))
    score = X[:, 0] - X[:, 1] ** 2 / 2 + 0.4 * rng.normal(size=n_samples)
    return Samples(X, score, None, np.arange(n_samples) % 5, new)


def _wide(n_samples=16, n_features=45, seed=1):
    return _rows(n_samples, n_features, seed)


def _weighted(samples):
    weight = np.random.default_rng(2).uniform(0.3, 3.0, samples.X.shape[0])
    return replace(samples, weight=weight)


def _counted(samples):
    return replace(samples, weight=1.0 + np.arange(samples.X.shape[0]) % 3)


def _with_zeros(samples):
    weight = samples.weights.copy()
    weight[1::4] = 0.0
    return replace(samples, weight=weight)


def _with_copies(samples):
    """Rows that occur two or three times, with the same target, or with another one."""
    times = 1 + np.arange(samples.X.shape[0]) % 3
    rows = np.repeat(np.arange(times.size), times)
    rows = np.random.default_rng(3).permutation(rows)[:32]
    score = samples.score[rows]
    score[::9] += 1.0
    weight = None if samples.weight is None else samples.weight[rows]
    groups = rows % 5  # copies leave together
    return replace(samples, X=samples.X[rows], score=score, weight=weight, groups=groups)


def _single(samples):
    X, new = samples.X.astype(np.float32), samples.new.astype(np.float32)
    return replace(samples, X=X, new=new, digits=3e-4)


def _sparse(samples):
    X, new = (np.where(np.abs(A) > 0.5, A, 0.0) for A in (samples.X, samples.new))
    return replace(samples, X=sp.csr_array(X), new=sp.csr_array(new))


def _far(samples):
    """Columns far from zero, of different sizes, and one that is constant."""
    factors = 10.0 ** np.linspace(-1, 1, samples.X.shape[1])
    X, new = (
        np.column_stack([A * factors + 30.0, np.ones(len(A))]) for A in (samples.X, samples.new)
    )
    return replace(samples, X=X, new=new, digits=1e-6)


SAMPLES = {
    "plain": _rows(),
    "weights": _weighted(_rows()),
    "counts": _counted(_rows()),
    "zeros": _with_zeros(_rows()),
    "zeros among weights": _with_zeros(_weighted(_rows())),
    "copies": _with_copies(_rows()),
    "copies of zeros": _with_copies(_with_zeros(_counted(_rows()))),
    "wide": _wide(),
    "wide, zeros": _with_zeros(_weighted(_wide())),
    "wide, copies": _with_copies(_wide()),
    "wide, float32": _single(_wide()),
    "float32": _single(_with_zeros(_rows())),
    "sparse": _sparse(_with_zeros(_rows())),
    "wide, sparse": _sparse(_with_zeros(_wide())),
    "far": _far(_with_zeros(_rows())),
}


def _as_double(A):
    return A.astype(np.float64)


class Refits:
    """Fits of the problem that a fitted model solved, without some of its samples.

    Parameters
    ----------
    model : estimator
        Fitted.
    A, B : ndarray of shape (n_samples, n_features) and (n_new, n_features)
        What it was fitted to, and new rows; of a precomputed kernel its values.
    y, weight : ndarray of shape (n_samples,)
    """

    def __init__(self, model, A, B, y, weight):
        self.y, self.A, self.B = y, _as_double(A), _as_double(B)
        self.is_square = getattr(model, "kernel", None) == "precomputed"
        fixed = {"tol": TIGHT, "C1": model.C1_, "C2": model.C2_}
        fixed |= {
            f"{n}": getattr(model, f"{n}_") for n in ("gamma", "epsilon") if hasattr(model, f"{n}_")
        }
        if "solver" in model.get_params() and model.solver != "newton":
            fixed["solver"] = "newton"
        self.count = weight  # how many samples each stands for
        self.weight = weight
        if getattr(model, "class_weight", None) == "balanced":
            total = {k: weight[y == k].sum() for k in model.classes_}
            self.weight = weight * [weight.sum() / (len(total) * total[k]) for k in y]
            fixed["class_weight"] = None
        if "calibration" in model.get_params():
            fixed["calibration"] = None
        if getattr(model, "kernel", None) == "sigmoid":
            self._project(model)
            fixed["kernel"] = "precomputed"
        if getattr(model, "approximation", None) is not None:
            self._into_landmarks(model)
            fixed |= {"kernel": "linear", "approximation": None}
        self.plain = clone(model).set_params(**fixed)
        self.shift = 0.0
        if getattr(model, "calibration", None) is not None and len(model.classes_) == 2:
            whole = self._fitted(self.weight)
            self.shift = model.intercept_ - whole.intercept_

    def _project(self, model):
        """Replace the kernel by its positive part under the weighted measure."""
        K, new = (
            sigmoid_kernel(C, self.A, gamma=model.gamma_, coef0=model.coef0)
            for C in (self.A, self.B)
        )
        used = np.flatnonzero(self.weight)
        root = np.sqrt(self.weight[used])
        values, vectors = np.linalg.eigh(root[:, None] * K[np.ix_(used, used)] * root)
        kept = vectors[:, values > 0]
        projector = np.zeros_like(K)
        projector[np.ix_(used, used)] = root[:, None] * (kept @ kept.T) / root
        self.A, self.B, self.is_square = K @ projector, new @ projector, True
        symmetric = self.A[np.ix_(used, used)]
        self.A[np.ix_(used, used)] = (symmetric + symmetric.T) / 2

    def _into_landmarks(self, model):
        """Replace rows by their coordinates in the span of the landmarks."""
        Z = _as_double(model.support_vectors_)
        values, vectors = np.linalg.eigh(rbf_kernel(Z, gamma=model.gamma_))
        to_features = vectors[:, values > 1e-13] / np.sqrt(values[values > 1e-13])
        self.A, self.B = (
            rbf_kernel(C, Z, gamma=model.gamma_) @ to_features for C in (self.A, self.B)
        )

    def _fitted(self, left):
        rows = np.flatnonzero(left)
        share = left.sum() / self.weight.sum()
        plain = clone(self.plain)
        plain.set_params(C1=share * plain.C1, C2=share * plain.C2)
        given = self.A[np.ix_(rows, rows)] if self.is_square else self.A[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few samples
            if is_outlier_detector(plain):
                return plain.fit(given, sample_weight=left[rows])
            return plain.fit(given, self.y[rows], left[rows])

    def without(self, gone, share=1.0):
        """Return the values of all samples, and of new ones, without a share of some samples."""
        left = self.weight.copy()
        left[gone] -= share * left[gone]
        refit, rows = self._fitted(left), np.flatnonzero(left)
        values = (
            values_of(refit, C[:, rows] if self.is_square else C) + self.shift
            for C in (self.A, self.B)
        )
        return tuple(values)


def values_of(model, X):
    """Return the numbers that a fitted model computes."""
    if is_regressor(model):
        return model.predict(X)
    return model.score_samples(X) if is_outlier_detector(model) else model.decision_function(X)
