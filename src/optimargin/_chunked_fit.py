"""Fits of the plain estimators to data in chunks: files, or blocks on a cluster.

The first round describes the chunks: shapes, labels, weights, and whether values are fit for use.
A second one brings a sample of the rows. The problem solved on it gives the start, and for
kernels the landmarks; then the solver asks for sums over chunks.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.extmath import row_norms
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from optimargin._base import check_scale, check_two_classes
from optimargin.kernels import PreparedKernel
from optimargin.landmarks import RandomPivots
from optimargin.problems import (
    ChunkedProblem,
    FeatureDesign,
    LandmarkDesign,
    MarginProblem,
)
from optimargin.problems.chunk_tasks import ChunkPlan, LandmarkFeatures, as_rows
from optimargin.problems.whitening import NoWhitening, Whitening
from optimargin.solvers import ChunkedNewton, Newton

_FACTORISE_UP_TO = 2000  # features, past which a Hessian is worth more rounds than it saves
_SAMPLE_ELEMENTS = 1 << 23  # 64 MB
_START_ELEMENTS = 1 << 22  # of a linear start, which is solved while chunks wait
_SAMPLE_SHARE = 8
_SAMPLE_FROM = 20_000  # rows
_START_TOL = 1e-3


def describe(k, chunk):
    """Check chunk `k` and return what the fit needs to know about it."""
    X, y, weight = chunk
    try:
        X = check_array(
            as_rows(X) if sp.issparse(X) else X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=0,
            input_name="X",
        )
        y = column_or_1d(y)
        check_consistent_length(X, y)
        if X.shape[0]:
            check_classification_targets(y)
        weight = np.ones(len(y)) if weight is None else weight
        weight = np.ascontiguousarray(weight, dtype=np.float64)
        check_consistent_length(y, weight)
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError("sample_weight must be finite and at least zero.")
        X = as_rows(X)
        check_scale(X)
    except (ValueError, TypeError) as error:
        raise type(error)(f"Chunk {k}: {error}") from None
    labels, encoded = np.unique(y, return_inverse=True)
    return {
        "n_rows": X.shape[0],
        "n_features": X.shape[1],
        "sparse": sp.issparse(X),
        "dtype": X.dtype,
        "labels": labels,
        "label_weight": np.bincount(encoded, weights=weight, minlength=labels.size),
        "weighted_sum": FeatureDesign(X).represent(weight),
        "largest_norm": float(row_norms(X).max(initial=0.0)),
    }


def take_sample(k, chunk, share, seed):
    """Return about that share of the rows of chunk `k`."""
    X, y, weight = chunk
    X, y = as_rows(X), np.asarray(y)
    chosen = np.flatnonzero(np.random.default_rng([seed, k]).random(len(y)) < share)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    return X[chosen], y[chosen], weight[chosen]


def moments(chunk, classes, class_factor, center):
    """Return weighted sums over all values of ``x - center`` and of its square."""
    X, y, weight = chunk
    X = as_rows(X)
    scale = class_factor[np.searchsorted(classes, np.asarray(y))]
    if weight is not None:
        scale = scale * np.asarray(weight, dtype=np.float64)
    if sp.issparse(X):
        first, square = (scale @ X).sum(), (scale @ X.multiply(X)).sum()
        count = X.shape[1] * scale.sum()
        return first - center * count, square - 2 * center * first + center**2 * count
    deviation = X - center
    return float((scale @ deviation).sum()), float((scale @ np.square(deviation)).sum())


@dataclass(frozen=True)
class Description:
    """All chunks together."""

    n_rows: int
    n_features: int
    sparse: bool
    dtype: np.dtype
    classes: np.ndarray
    class_totals: np.ndarray
    mean: np.ndarray
    largest_norm: float


def join(parts):
    """Return the description of all chunks, given that of each."""
    if not parts:
        raise ValueError("There are no chunks: the data are empty.")
    filled = [part for part in parts if part["n_rows"]]
    if not filled:
        raise ValueError("All chunks are empty: there must be at least two rows.")
    widths = {part["n_features"] for part in filled}
    if len(widths) > 1:
        raise ValueError(f"Chunks have different numbers of features: {sorted(widths)}.")
    classes = np.unique(np.concatenate([part["labels"] for part in filled]))
    check_two_classes(classes)
    totals = np.zeros(classes.size)
    for part in filled:
        totals[np.searchsorted(classes, part["labels"])] += part["label_weight"]
    return Description(
        n_rows=sum(part["n_rows"] for part in filled),
        n_features=widths.pop(),
        sparse=any(part["sparse"] for part in filled),
        dtype=np.result_type(*(part["dtype"] for part in filled)),
        classes=classes,
        class_totals=totals,
        mean=sum(part["weighted_sum"] for part in filled) / max(totals.sum(), 1e-300),
        largest_norm=max(part["largest_norm"] for part in filled),
    )


class ChunkedFit:
    """One fit of an estimator to chunks.

    Parameters
    ----------
    estimator : LinearODMClassifier or ODMClassifier
    chunks : Chunks
    """

    def __init__(self, estimator, chunks):
        self.estimator = estimator
        self.chunks = chunks
        self.seed = check_random_state(estimator.random_state).randint(2**31 - 1)
        self.data = join(chunks.gather(describe))
        estimator.classes_ = self.data.classes
        estimator.n_features_in_ = self.data.n_features
        for stale in ("feature_names_in_", "support_", "t_", "_training_data"):
            estimator.__dict__.pop(stale, None)
        if chunks.feature_names is not None:
            estimator.feature_names_in_ = np.asarray(chunks.feature_names, dtype=object)
        factor = estimator._checked_class_factors(self.data.class_totals)
        self.class_weight = factor * self.data.class_totals
        estimator._resolve_prices(float(self.class_weight.sum()))
        self.class_factor = factor / self.class_weight.sum()
        self.class_weight = self.class_weight / self.class_weight.sum()
        n_classes = self.data.classes.size
        self.positives = [1] if n_classes == 2 else list(range(n_classes))

    def sample(self, n_wanted):
        """Return about `n_wanted` rows with their labels and weights."""
        share = min(n_wanted / self.data.n_rows, 1.0)
        parts = self.chunks.gather(take_sample, share, self.seed)
        stack = sp.vstack if self.data.sparse else np.concatenate
        X = stack([X for X, y, _ in parts if len(y)]) if any(len(p[1]) for p in parts) else None
        if X is None:
            return None
        y = np.concatenate([y for _, y, _ in parts])
        encoded = np.searchsorted(self.data.classes, y)
        weight = np.concatenate([w for *_, w in parts]) * self.class_factor[encoded]
        kept = np.flatnonzero(weight)
        return as_rows(X)[kept], encoded[kept], weight[kept]

    def solve(self, plan, whitening, *, largest_norm, factorise, start):
        """Solve one problem a class.

        Parameters
        ----------
        plan : callable
            Returns the `ChunkPlan` of a positive class.
        start : callable
            Returns coefficients and intercept to begin with for a positive class.

        Returns
        -------
        solutions : list of Solution
        """
        estimator = self.estimator
        solver = ChunkedNewton(tol=estimator.tol, max_iter=estimator.max_iter, seed=self.seed)
        solutions = []
        for positive in self.positives:
            share = float(self.class_weight[positive])
            problem = ChunkedProblem(
                estimator._make_loss(),
                self.chunks,
                plan(positive),
                whitening,
                largest_norm=largest_norm,
                class_weight=(share, 1 - share),
                fit_intercept=estimator.fit_intercept,
                factorise=factorise,
            )
            solutions.append(solver.solve(problem, *start(positive)))
        estimator.solver_ = "newton" if factorise else "newton_cg"
        estimator._store_diagnostics(solutions)
        return solutions

    def plan(self, positive, **features):
        """Return the plan of a positive class."""
        return ChunkPlan(self.data.classes, self.class_factor, positive, **features)

    def start(self, sample, design, positive):
        """Return the solution of the problem on a sample."""
        nothing = np.zeros(design.n_coef if design else self.data.n_features), 0.0
        if design is None:
            return nothing
        _, encoded, weight = sample
        y = np.where(encoded == positive, 1.0, -1.0)
        if np.ptp(y) == 0:
            return nothing
        problem = MarginProblem(
            self.estimator._make_loss(),
            design,
            y,
            weight / weight.sum(),
            fit_intercept=self.estimator.fit_intercept,
        )
        solver = Newton(tol=_START_TOL, max_iter=self.estimator.max_iter, exact_up_to=0)
        solution = solver.solve(problem, np.zeros(design.n_coef), 0.0)
        return solution.coef, solution.intercept


def fit_linear(estimator, chunks):
    """Fit a `LinearODMClassifier` to chunks."""
    fit = ChunkedFit(estimator, chunks)
    data = fit.data
    factorise = data.n_features <= _FACTORISE_UP_TO
    if estimator.solver in ("newton", "newton_cg"):
        factorise = estimator.solver == "newton"
    elif estimator.solver != "auto":
        raise ValueError(
            f"solver={estimator.solver!r} does not work on chunks: use 'auto', 'newton' or "
            "'newton_cg'."
        )
    center = data.mean if estimator.fit_intercept and not data.sparse else None
    sample = design = None
    if data.n_rows >= _SAMPLE_FROM and factorise:
        enough = max(_START_ELEMENTS // data.n_features, 8 * data.n_features)
        n_wanted = min(data.n_rows // _SAMPLE_SHARE, enough)
        sample = fit.sample(n_wanted)
        design = None if sample is None else FeatureDesign(sample[0], center)
    norm = data.largest_norm + (0.0 if center is None else float(np.linalg.norm(center)))
    solutions = fit.solve(
        lambda positive: fit.plan(positive, center=center),
        NoWhitening(data.n_features),
        largest_norm=norm,
        factorise=factorise,
        start=lambda positive: fit.start(sample, design, positive),
    )
    coef = np.array([solution.coef for solution in solutions])
    shift = 0.0 if center is None else -(coef @ center)
    intercept = np.array([solution.intercept for solution in solutions]) + shift
    estimator.coef_ = coef.astype(data.dtype, copy=False)
    estimator.intercept_ = intercept.astype(data.dtype, copy=False)
    return estimator


def fit_landmarks(estimator, chunks, n_components):
    """Fit an `ODMClassifier` with landmarks to chunks."""
    fit = ChunkedFit(estimator, chunks)
    data = fit.data
    kernel = estimator._fixed_kernel(_chunked_gamma(estimator.gamma, fit))
    n_components = min(n_components, data.n_rows)
    n_wanted = max(_SAMPLE_ELEMENTS // max(n_components, data.n_features), 4 * n_components)
    X, encoded, weight = fit.sample(n_wanted)
    PreparedKernel(kernel, X).check_finite()
    dtype = np.dtype(np.float64 if data.n_rows * n_components < 1 << 24 else np.float32)
    chosen = RandomPivots(kernel, X, weight, n_components, dtype=dtype, seed=fit.seed).first(
        n_components
    )
    landmarks = X[chosen.rows]
    design = LandmarkDesign(
        kernel, X, landmarks, chosen.factor, dtype=dtype, max_bytes=estimator.cache_size * 1e6
    )
    whitening = Whitening(chosen.factor)
    features = LandmarkFeatures(kernel, landmarks, dtype)
    largest = 1.0 if kernel.name == "rbf" else _largest_kernel_norm(kernel, data.largest_norm)
    solutions = fit.solve(
        lambda positive: fit.plan(positive, features=features),
        whitening,
        largest_norm=largest,
        factorise=True,
        start=lambda positive: fit.start((X, encoded, weight), design, positive),
    )
    estimator.support_vectors_ = landmarks.astype(data.dtype, copy=False)
    coef = np.array([whitening.for_rows(solution.coef) for solution in solutions])
    estimator.dual_coef_ = coef.astype(data.dtype, copy=False)
    estimator.intercept_ = np.array([s.intercept for s in solutions]).astype(data.dtype)
    return estimator


def _largest_kernel_norm(kernel, norm):
    """Return a bound on ``k(x, x)**0.5`` for rows of at most that norm."""
    values = PreparedKernel(kernel, np.array([[norm]])).diagonal()
    return float(np.sqrt(values[0]))


def _chunked_gamma(gamma, fit):
    if gamma == "mean_distance":
        raise ValueError(
            "gamma='mean_distance' needs all pairs of samples: on chunks pass a number, for "
            "example that of optimargin.kernels.resolve_gamma on a part of the data."
        )
    n_features = fit.data.n_features
    if gamma == "auto":
        return 1.0 / n_features
    if gamma != "scale":
        return float(gamma)
    weighing = fit.data.classes, fit.class_factor
    mean = fit.chunks.reduce(moments, *weighing, 0.0)[0] / n_features
    variance = fit.chunks.reduce(moments, *weighing, mean)[1] / n_features
    return 1.0 if variance <= (1e-14 * mean) ** 2 else 1.0 / (n_features * variance)
