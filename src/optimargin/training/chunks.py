"""Training on data in chunks: files, or blocks on a cluster.

The first round describes the chunks: shapes, targets, weights, and whether values are fit for use.
A second one brings a sample of the rows. The problem solved on it gives the start, and for
kernels the landmarks; then the solvers ask for sums over chunks. Problems of several outputs are
solved side by side, so that every pass over the data serves all of them.
"""

from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.extmath import row_norms

from optimargin._checks import check_scale
from optimargin.designs import FeatureDesign, LandmarkDesign, RandomPivots
from optimargin.designs.features import moments, variance_of_moments
from optimargin.designs.whitening import NoWhitening, Whitening
from optimargin.kernels import PreparedKernel
from optimargin.kernels.prepared import check_values
from optimargin.kernels.widths import OF_VARIANCE, gamma_of_variance
from optimargin.problems import ChunkedProblem
from optimargin.problems.chunk_tasks import (
    ChunkReader,
    as_rows,
    columns_of,
    landmark_values,
    serve,
)
from optimargin.solvers import ChunkedNewton, Newton
from optimargin.training.models import Fit, KernelModel, LinearModel
from optimargin.training.options import Options
from optimargin.training.plan import check_approximation, plan_chunks

# Sizes of the sample: benchmarks/out_of_core.py, benchmarks/dask_cluster.py
_SAMPLE_ELEMENTS = 1 << 23  # 64 MB
_START_ELEMENTS = 1 << 22  # of a linear start, which is solved while chunks wait
_SAMPLE_SHARE = 8
_SAMPLE_FROM = 20_000  # rows
_START_TOL = 1e-3
_DOUBLE_UP_TO = 1 << 24  # kernel values
_AT_ONCE = 32  # outputs that are solved side by side


def describe(k, chunk, task_type):
    """Check chunk `k` and return what the fit needs to know about it."""
    X, y, weight = chunk
    try:
        checked = check_array(
            as_rows(X) if sp.issparse(X) else X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=0,
            input_name="X",
        )
        if y is None and task_type.needs_y:
            raise ValueError("y is missing: chunks for this estimator need one value per row.")
        X, y, weight = columns_of((checked, y, weight))
        check_consistent_length(X, y, weight)
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError("sample_weight must be finite and at least zero.")
        check_scale(X)
        about_y = task_type.describe(y, weight)
    except (ValueError, TypeError) as error:
        raise type(error)(f"Chunk {k}: {error}") from None
    return {
        "n_rows": X.shape[0],
        "n_features": X.shape[1],
        "sparse": sp.issparse(X),
        "dtype": X.dtype,
        "y": about_y,
        "weight": float(weight.sum()),
        "weighted_sum": FeatureDesign(X).represent(weight),
        "largest_norm": float(row_norms(X).max(initial=0.0)),
    }


def take_sample(k, chunk, share, seed):
    """Return about that share of the rows of chunk `k`."""
    X, y, weight = columns_of(chunk)
    chosen = np.flatnonzero(np.random.default_rng([seed, k]).random(len(y)) < share)
    return X[chosen], y[chosen], weight[chosen]


def chunk_moments(chunk, task, pivot):
    """Return the sums of `moments` over one chunk, with the weights of the task."""
    X, y, weight = columns_of(chunk)
    return moments(X, task.encode(y, weight)[0].weight, pivot)


def held_out_scores(k, chunk, task, model):
    """Return score, weight and fold of the samples of a chunk, each by the model without its fold.

    Output ``1 + fold`` of the model is the one without a fold (`optimargin.tasks.OneClass`).
    """
    X, _, weight = columns_of(chunk)
    n_rows = X.shape[0]
    if n_rows == 0:
        return np.empty(0), weight, np.empty(0, dtype=np.intp)
    fold = task.fold(n_rows)
    scores = model.scores(X).astype(np.float64)
    # Samples of no weight took no part in the model itself.
    return scores[np.arange(n_rows), np.where(weight > 0, 1 + fold, 0)], weight, fold


@dataclass(frozen=True)
class Description:
    """All chunks together."""

    n_rows: int
    n_features: int
    sparse: bool
    dtype: np.dtype
    y_parts: list
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
    total = sum(part["weight"] for part in filled)
    return Description(
        n_rows=sum(part["n_rows"] for part in filled),
        n_features=widths.pop(),
        sparse=any(part["sparse"] for part in filled),
        dtype=np.result_type(*(part["dtype"] for part in filled)),
        y_parts=[part["y"] for part in filled],
        mean=sum(part["weighted_sum"] for part in filled) / max(total, 1e-300),
        largest_norm=max(part["largest_norm"] for part in filled),
    )


@dataclass(frozen=True)
class ChunkedFit:
    """What a training on chunks found.

    Attributes
    ----------
    fit : Fit
    task : Task
    n_features : int
    """

    fit: Fit
    task: Any
    n_features: int


def train_chunks(
    chunks,
    task_type,
    task_settings,
    objective,
    *,
    kernel=None,
    options: Options,
    calibrate=None,
    progress,
    notify=lambda fact: None,
) -> ChunkedFit:
    """Train a model on chunks.

    Parameters
    ----------
    chunks : Chunks
    task_type : type
        A `Task`.
    task_settings : dict
        Given to its `from_parts`.
    objective : Objective
        Its defaults are resolved here, where the sum of the weights is known.
    kernel : KernelChoice or None
        With one, `options.n_components` landmarks stand for the data.
    options : Options
    calibrate : Calibrator, default=None
        Says what the scores of the first output mean, given those of the models without one fold.
    progress : Progress
    notify : callable
        Given facts that the user should know.

    Returns
    -------
    found : ChunkedFit
    """
    data = join(chunks.gather(describe, task_type))
    task = task_type.from_parts(data.y_parts, dtype=data.dtype, **task_settings)
    training = _ChunkedTraining(chunks, data, task, objective, kernel, options, progress)
    fit = training.linear() if kernel is None else training.landmarks(kernel)
    if calibrate is not None:
        parts = chunks.gather(held_out_scores, task, fit.model)
        fit = calibrate.of_folds(fit, *map(np.concatenate, zip(*parts, strict=True)), notify=notify)
    return ChunkedFit(fit, task, data.n_features)


class _ChunkedTraining:
    """One training on chunks that were described."""

    def __init__(self, chunks, data, task, objective, kernel, options, progress):
        self.chunks, self.data, self.task = chunks, data, task
        self.options, self.progress = options, progress
        is_linear = kernel is None or kernel.kind.is_linear
        self.objective = objective.resolve(
            # as `penalty_unit_of` for data in memory
            lambda: task.total / ((self._total_variance if is_linear else 0.0) or 1.0)
        )

    def linear(self):
        """Train a linear model."""
        data, options = self.data, self.options
        solver = plan_chunks(data.n_features, options)
        center = data.mean if options.fit_intercept and not data.sparse else None
        starts = [(None, 0.0)] * self.task.n_outputs
        if data.n_rows >= _SAMPLE_FROM and solver == "newton":
            enough = max(_START_ELEMENTS // data.n_features, 8 * data.n_features)
            sample = self._sample(min(data.n_rows // _SAMPLE_SHARE, enough))
            if sample is not None:
                X, targets = sample
                starts = self._starts(FeatureDesign(X, center), targets)
        norm = data.largest_norm + (0.0 if center is None else float(np.linalg.norm(center)))
        solutions = self._solve(
            ChunkReader(self.task, center=center),
            NoWhitening(data.n_features),
            solver,
            starts,
            largest_norm=norm,
        )
        no_rows = FeatureDesign(np.empty((0, data.n_features)), center)
        model = LinearModel.of(no_rows, solutions, data.dtype)
        return Fit.of(model, self.objective, solver, solutions, self.task.scales)

    def landmarks(self, choice):
        """Train a kernel model of landmarks."""
        data, options = self.data, self.options
        check_approximation(choice.at(1.0), options)
        choice.check(self.data.n_features)
        kernel = choice.at(self._gamma(choice.gamma_rule) if choice.has_gamma else 1.0)
        n_components = min(options.n_components, data.n_rows)
        n_wanted = max(_SAMPLE_ELEMENTS // max(n_components, data.n_features), 4 * n_components)
        X, targets = self._sample(n_wanted)
        check_values(kernel, X)
        is_small = data.n_rows * n_components < _DOUBLE_UP_TO
        dtype = np.dtype(np.float64 if is_small else np.float32)
        pivots = RandomPivots(
            kernel, X, targets[0].weight, n_components, dtype=dtype, seed=options.seed
        )
        chosen = pivots.first(n_components)
        landmarks = X[chosen.rows]
        design = LandmarkDesign(
            kernel, X, landmarks, chosen.factor, dtype=dtype, max_bytes=options.max_bytes
        )
        # The largest kernel value of a row with itself, given the largest norm of a row.
        longest = PreparedKernel(kernel, np.array([[data.largest_norm]])).diagonal()
        solutions = self._solve(
            ChunkReader(self.task, partial(landmark_values, kernel, landmarks, dtype)),
            Whitening(chosen.factor),
            "newton",
            self._starts(design, targets),
            largest_norm=float(np.sqrt(longest[0])),
        )
        X, rows = X.astype(data.dtype, copy=False), np.arange(X.shape[0])
        model = KernelModel.of_landmarks(kernel, design, chosen.rows, solutions, X, rows)
        model = replace(model, support=None)  # landmarks have no index in one array
        return Fit.of(model, self.objective, "newton", solutions, self.task.scales)

    def _sample(self, n_wanted):
        """Return about `n_wanted` rows and their targets, or None where there are none."""
        share = min(n_wanted / self.data.n_rows, 1.0)
        parts = self.chunks.gather(take_sample, share, self.options.seed)
        filled = [part for part in parts if len(part[1])]
        if not filled:
            return None
        stack = sp.vstack if self.data.sparse else np.concatenate
        X = as_rows(stack([X for X, _, _ in filled]))
        y = np.concatenate([y for _, y, _ in filled])
        targets = self.task.encode(y, np.concatenate([weight for *_, weight in filled]))
        kept = np.flatnonzero(targets[0].weight)
        if kept.size == 0:
            return None
        return X[kept], [target.take(kept) for target in targets]

    def _starts(self, design, targets):
        """Return the solutions of the problems on a sample."""
        solver = Newton(tol=_START_TOL, max_iter=self.options.max_iter, exact_up_to=0)
        starts = []
        for target in targets:
            problem = self.objective.problem(
                design, target, fit_intercept=self.options.fit_intercept
            )
            solution = solver.solve(problem, np.zeros(design.n_coef), 0.0)
            starts.append((solution.coef, solution.intercept))
        return starts

    def _solve(self, reader, whitening, solver_name, starts, *, largest_norm):
        """Return one solution per output, in the units of y."""
        options, scales = self.options, self.task.scales

        def solve(output, ask):
            problem = ChunkedProblem(
                self.objective.loss(scales[output]),
                output,
                ask,
                whitening,
                largest_norm=largest_norm,
                largest_target=self.task.largest_target,
                scale=scales[output],
                fit_intercept=options.fit_intercept,
                factorise=solver_name == "newton",
            )
            with self.progress.problem() as on_iteration:
                solver = ChunkedNewton(
                    tol=options.tol,
                    max_iter=options.max_iter,
                    seed=options.seed,
                    on_iteration=on_iteration,
                )
                return solver.solve(problem, *starts[output]).in_units_of_y(scales[output])

        solutions: list = []
        for first in range(0, self.task.n_outputs, _AT_ONCE):
            outputs = range(first, min(first + _AT_ONCE, self.task.n_outputs))
            solutions += Rounds(self.chunks, reader).run(solve, outputs)
        return solutions

    def _gamma(self, gamma):
        """Return the number of gamma, by passes over the chunks where it depends on the data."""
        n_features = self.data.n_features
        if gamma == "mean_distance":
            raise ValueError(
                "gamma='mean_distance' needs all pairs of samples: on chunks pass a number, for "
                "example that of optimargin.kernels.resolve_gamma on a part of the data."
            )
        if gamma in OF_VARIANCE:
            return gamma_of_variance(self._total_variance, gamma)
        if gamma == "auto":
            return 1.0 / n_features
        if gamma != "scale":
            return gamma
        first, second = self._moments
        mean = self._pivot + first
        variance = variance_of_moments(first, second) + np.square(mean - mean.mean()).sum()
        is_constant = variance <= n_features * (1e-14 * mean.mean()) ** 2
        return 1.0 if is_constant else 1.0 / variance

    @property
    def _pivot(self):
        """What dense rows are shifted by, so that nothing cancels."""
        return self.data.mean * (not self.data.sparse)

    @cached_property
    def _moments(self):
        return self.chunks.reduce(chunk_moments, self.task, self._pivot)

    @property
    def _total_variance(self):
        return variance_of_moments(*self._moments)


class Rounds:
    """Passes over the chunks that serve several solvers at a time.

    Each solver runs in a thread of its own and waits for the sums it asked for. When all of them
    wait, one pass over the data answers all. Passes are made by the thread that called `run`.

    Parameters
    ----------
    chunks : Chunks
    reader : ChunkReader
    """

    def __init__(self, chunks, reader):
        self._chunks, self._reader = chunks, reader

    def _pass(self, requests):
        """Return the answers to requests, by one pass over the chunks."""
        return self._chunks.reduce(serve, self._reader, requests)

    def run(self, solve, outputs):
        """Return ``solve(output, ask)`` of all outputs."""
        if len(outputs) == 1:
            return [solve(outputs[0], lambda request: self._pass([request])[0])]
        told: SimpleQueue = SimpleQueue()  # (output, request), or (None, future) of a solver
        answers: dict = {output: SimpleQueue() for output in outputs}

        def ask(output, request):
            told.put((output, request))
            answer = answers[output].get()
            if answer is None:  # another solver, or a pass, has failed
                raise CancelledError
            return answer

        with ThreadPoolExecutor(len(outputs)) as pool:
            try:
                futures = [pool.submit(solve, output, partial(ask, output)) for output in outputs]
                for future in futures:
                    future.add_done_callback(lambda done: told.put((None, done)))
                n_running = len(outputs)
                while n_running:
                    asked: dict = {}
                    while len(asked) < n_running:
                        output, message = told.get()
                        if output is None:
                            message.result()  # raises the error of a solver that failed
                            n_running -= 1
                        else:
                            asked[output] = message
                    answered = self._pass(list(asked.values())) if asked else ()
                    for output, answer in zip(asked, answered, strict=True):
                        answers[output].put(answer)
            finally:
                for waiting in answers.values():
                    waiting.put(None)
        return [future.result() for future in futures]
