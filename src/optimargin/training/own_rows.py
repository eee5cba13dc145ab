"""Outputs that are asked for some of the samples only: each is trained on its own rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.kernels.gram import gram_matrix, is_decomposable
from optimargin.targets import LABELS
from optimargin.training.designs import check_square
from optimargin.training.models import Fit, KernelModel, LinearModel
from optimargin.training.plan import plan_small_pairs, was_cut_short
from optimargin.training.small_pairs import solve_small_pairs

_SIDE_BY_SIDE_UP_TO = 3000  # samples of an output: larger ones have work for all threads


def is_indefinite(prepared, options) -> bool:
    """Return whether the kernel matrix of all samples has a negative part, if it fits in memory.

    Parameters
    ----------
    prepared : Prepared
    options : Options
    """
    X, kernel = prepared.X, prepared.kernel
    if kernel is None or options.approximation is not None:
        return False
    if not is_decomposable(kernel, X.shape[0], options.max_bytes):
        return False
    if kernel.is_precomputed:
        check_square(X)
    return gram_matrix(kernel, X, prepared.weight, options.max_bytes).projector is not None


def fit_own_rows(fit_together, prepared, options, start, request) -> Fit:
    """Train every output on the samples that it has weights for, and join the models.

    Parameters
    ----------
    fit_together : callable
        Trains outputs that share their rows: `optimargin.training.train.fit_together`.
    prepared : Prepared
    options : Options
    start : LinearModel or None
    request : Request
    """
    X, targets, kernel = prepared.X, prepared.targets, prepared.kernel
    places = [np.flatnonzero(target.weight) for target in targets]
    if plan_small_pairs(prepared, places, options):
        solutions = solve_small_pairs(prepared, places, options, request.progress)
        pairs: list[Fit] = [_fit_of(each, prepared) for each in solutions]

        def go_on(k):
            found = solutions[k]
            left = replace(options, solver="newton", max_iter=options.max_iter - found.n_iter)
            fit = fit_together(prepared.output(k, places[k]), left, None, request)
            if fit.dual_gap[0] <= found.dual_gap:
                pairs[k] = replace(fit, solver="dcd", n_iter=fit.n_iter + found.n_iter)

        missed = [
            k
            for k, found in enumerate(solutions)
            if found.dual_gap > options.tol and not was_cut_short(found, options)
        ]
        for_each(go_on, missed, work=X.shape[0] ** 2)
        return _joined(pairs, places, prepared)
    if kernel is not None and kernel.is_precomputed:
        check_square(X)
    fits: list[Any] = [None] * len(targets)

    def fit_output(k):
        begin = None
        if start is not None:
            begin = LinearModel(start.coef[k : k + 1], start.intercept[k : k + 1])
        fits[k] = fit_together(prepared.output(k, places[k]), options, begin, request)

    small = max(own.size for own in places) <= _SIDE_BY_SIDE_UP_TO
    for_each(fit_output, range(len(targets)), work=X.shape[0] ** 2 if small else 0)
    return _joined(fits, places, prepared)


def _fit_of(solution, prepared):
    dtype, support = prepared.X.dtype, np.flatnonzero(solution.coef)
    dual_coef = solution.coef[None, support].astype(dtype, copy=False)
    intercept = np.array([solution.intercept], dtype=dtype)
    # Models are joined by indices alone.
    model = KernelModel(prepared.kernel, support, None, dual_coef, intercept)
    return Fit.of(model, prepared.objective, "dcd", [solution], [LABELS])


def _joined(fits, places, prepared) -> Fit:
    """Return one fit of all outputs; kernel models have the union of the support vectors.

    The solver is that of the largest output.
    """
    models: list[Any] = [fit.model for fit in fits]
    intercept = np.concatenate([model.intercept for model in models])
    model: Any
    if isinstance(models[0], LinearModel):
        model = LinearModel(np.concatenate([model.coef for model in models]), intercept)
    else:
        found = [own[model.support] for model, own in zip(models, places, strict=True)]
        support = np.unique(np.concatenate(found))
        dual_coef = np.zeros((len(models), support.size), dtype=intercept.dtype)
        for row, each, own in zip(dual_coef, models, found, strict=True):
            row[np.searchsorted(support, own)] = each.dual_coef[0]
        kernel = models[0].kernel
        vectors = models[0].vectors if kernel.is_precomputed else prepared.X[support]
        model = KernelModel(kernel, prepared.rows[support], vectors, dual_coef, intercept)
    return Fit(
        model,
        prepared.objective,
        fits[int(np.argmax([own.size for own in places]))].solver,
        np.concatenate([fit.n_iter for fit in fits]),
        np.concatenate([fit.objective_value for fit in fits]),
        np.concatenate([fit.dual_gap for fit in fits]),
        [LABELS] * len(fits),
    )
