"""The methods of the study: how each chooses its parameters, and its final model."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC, LinearSVC

from optimargin import (
    LDMClassifier,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.objectives import ODM
from optimargin_study.baselines import (
    KernelFisherDiscriminant,
    MarginDistributionGame,
    MarginDistributionOptimizer,
    MaximalAverageMargin,
)
from optimargin_study.selection import (
    SVC_MAX_ITER,
    choose,
    choose_by_refits,
    ldm_solver,
    svc_solver,
    with_widths,
)

PAPER_CS = (10.0, 50.0, 100.0)
WIDE_CS = tuple(2.0**k for k in range(-5, 16, 2))
PAPER_LAMBDAS = tuple(2.0**k for k in range(-8, -1))
PAPER_C1S = tuple(2.0**k for k in range(11))
PAPER_DS = tuple(k / 10 for k in range(6))
_LARGE = 1000  # training samples above which grids are smaller and SVMs are LIBLINEAR's
_LIBLINEAR = {"loss": "hinge", "tol": 0.1, "random_state": 0}  # its own default tolerance


@dataclass(frozen=True)
class Method:
    """One column of a table.

    Attributes
    ----------
    key, label : str
    about : str
        What it is, in one sentence.
    tables : tuple of int
        The tables it is defined for.
    select : callable
        Takes a `Problem`, returns the chosen parameters as a dict.
    build : callable
        Takes a `Problem` and parameters, returns the estimator to fit to its training half.
    paper_column : str or None
        Its column in the paper's tables.
    """

    key: str
    label: str
    about: str
    tables: tuple[int, ...]
    select: Callable
    build: Callable
    paper_column: str | None = None


def is_large(problem):
    """Return whether a problem is one of the large sets."""
    return problem.y.size > _LARGE


def has_gram(problem):
    """Return whether the Gram matrix of a problem is small enough, or smaller than its data."""
    return not is_large(problem) or problem.y.size < problem.X.shape[1]


def _kernel(problem, params):
    if problem.kernel == "linear":
        return {"kernel": "linear"}
    return {"kernel": "rbf", "gamma": problem.gamma(params["width"])}


# ---------------------------------------------------------------------- SVM and ODM^L


def _select_svm(problem):
    if is_large(problem):
        return choose_by_refits(problem, _build_svm, [{"C": C} for C in PAPER_CS])
    params = choose(problem, *ldm_solver(PAPER_CS, (0.0,), (0.0,), per_sample=True))
    return {key: value for key, value in params.items() if not key.startswith("lambda")}


def _build_svm(problem, params):
    if is_large(problem):
        return LinearSVC(C=params["C"], fit_intercept=False, **_LIBLINEAR)
    C = problem.y.size * params["C"]
    return LDMClassifier(C, 0.0, 0.0, fit_intercept=False, **_kernel(problem, params))


def _select_wide_svm(problem):
    if is_large(problem):
        return choose_by_refits(problem, _build_wide_svm, [{"C": C} for C in WIDE_CS[::2]])
    return choose(problem, *svc_solver(WIDE_CS))


def _build_wide_svm(problem, params):
    if is_large(problem):
        return LinearSVC(C=params["C"], **_LIBLINEAR)
    return SVC(C=params["C"], max_iter=SVC_MAX_ITER, **_kernel(problem, params))


def _build_sgd_svm(problem, params):
    alpha = 1.0 / (params["C"] * problem.y.size)
    return SGDClassifier(loss="hinge", alpha=alpha, fit_intercept=False, random_state=0)


def _select_sgd_svm(problem):
    return choose_by_refits(problem, _build_sgd_svm, [{"C": C} for C in PAPER_CS])


def _select_odml(problem, *, per_sample):
    lambdas = PAPER_LAMBDAS if has_gram(problem) else PAPER_LAMBDAS[::6]
    solve, points = ldm_solver(PAPER_CS, lambdas, lambdas, per_sample=per_sample)
    if has_gram(problem):
        return choose(problem, solve, points)
    return choose_by_refits(problem, partial(_build_odml, per_sample=per_sample), points)


def _build_odml(problem, params, *, per_sample):
    C = params["C"] * (problem.y.size if per_sample else 1)
    parameters = (C, params["lambda1"], params["lambda2"])
    if is_large(problem):
        return LinearLDMClassifier(*parameters, fit_intercept=False, random_state=0)
    return LDMClassifier(*parameters, fit_intercept=False, **_kernel(problem, params))


# ---------------------------------------------------------------------- ODM


def _odm_cv(problem, **options):
    if problem.kernel == "linear":
        return LinearODMClassifierCV(calibration=None, **options)
    # One width for all features, as in the paper and in the results that are kept.
    return ODMClassifierCV(calibration=None, relevance=False, **options)


def _chosen(problem, search):
    params = {"C1": search.C1_, "C2": search.C2_, "D": search.D_}
    if problem.kernel == "rbf":
        params["width"] = float((2 * search.gamma_) ** -0.5 / problem.mean_distance)
    return {key: float(f"{value:.10g}") for key, value in params.items()}


def _select_odm(problem, *, fit_intercept, per_sample=False):
    step = 2 if is_large(problem) and has_gram(problem) else 1
    penalties = np.array(PAPER_C1S[::step]) * (problem.y.size if per_sample else 1)
    search = _odm_cv(
        problem,
        C1s=penalties,
        C2s=penalties,
        Ds=PAPER_DS[::step],
        cv=problem.folds,
        fit_intercept=fit_intercept,
    )
    return _chosen(problem, search.fit(problem.X, problem.y))


def _select_odm_default(problem):
    return _chosen(problem, _odm_cv(problem).fit(problem.X, problem.y))


def _select_restricted(problem, *, share=None, no_band=False):
    """Choose by the same search as the full machine, with ``C2 / C1 = share`` or ``D = 0``."""

    class Restricted(ODM):
        """The machine with some parameters fixed: their coordinates do not matter."""

        @classmethod
        def at(cls, x, unit):
            """Return the parameters at coordinates of the search."""
            found = super().at(x, unit)
            if share is not None:
                found["C2"] = share * found["C1"]
            return {**found, "D": 0.0} if no_band else found

        @classmethod
        def chain(cls, by_loss):
            """Return derivatives by the coordinates, zero by those that do not matter."""
            by_x = super().chain(by_loss)
            by_x[1] *= share is None
            by_x[2] *= not no_band
            return by_x

    search = _odm_cv(problem)
    search.objective_type = Restricted
    return _chosen(problem, search.fit(problem.X, problem.y))


def _select_odm_widths(problem):
    search = ODMClassifierCV(calibration=None, relevance=True).fit(problem.X, problem.y)
    if np.ndim(search.gamma_) == 0:  # one width was confirmed
        return _chosen(problem, search)
    params = {"C1": search.C1_, "C2": search.C2_, "D": search.D_}
    widths = search.widths_ / problem.mean_distance
    return {
        **{key: float(f"{value:.10g}") for key, value in params.items()},
        "widths": [float(f"{width:.6g}") for width in widths],
    }


def _build_odm_widths(problem, params):
    if "width" in params:
        return _build_odm(problem, params, fit_intercept=True)
    gamma = [problem.gamma(width) for width in params["widths"]]
    return ODMClassifier(params["C1"], params["C2"], params["D"], gamma=gamma)


def _build_odm(problem, params, *, fit_intercept):
    parameters = (params["C1"], params["C2"], params["D"])
    if problem.kernel == "linear":
        return LinearODMClassifier(*parameters, fit_intercept=fit_intercept)
    gamma = problem.gamma(params["width"])
    return ODMClassifier(*parameters, gamma=gamma, fit_intercept=fit_intercept)


# ---------------------------------------------------------------------- discriminants and cited


def _build_lda(problem, params):
    if problem.kernel == "linear":
        return LinearDiscriminantAnalysis()
    return KernelFisherDiscriminant(**_kernel(problem, params))


def _select_by_width(problem, build, points=({},)):
    points = with_widths(problem, list(points))
    return points[0] if len(points) == 1 else choose_by_refits(problem, build, points)


def _build_mamc(problem, params):
    return MaximalAverageMargin(**_kernel(problem, params))


def _build_mdo(problem, params):
    return MarginDistributionOptimizer(alpha=params["alpha"], beta=params["beta"])


def _build_kmomd(problem, params):
    return MarginDistributionGame(reg=params["reg"], **_kernel(problem, params))


_MDO_POINTS = [{"alpha": a, "beta": b} for a in (1.0, 10.0, 100.0) for b in (1.0, 10.0)]
_KMOMD_POINTS = [{"reg": reg} for reg in (0.9, 0.5, 0.1, 0.01)]
_REGULAR, _ALL = (2, 3), (2, 3, 4)

METHODS = {
    method.key: method
    for method in (
        Method(
            "svm",
            "SVM",
            "The paper's SVM: C of 10, 50 or 100 per sample, no intercept.",
            _ALL,
            _select_svm,
            _build_svm,
            "SVM",
        ),
        Method(
            "lda",
            "LDA",
            "Linear discriminant analysis; with the RBF kernel the kernel Fisher discriminant.",
            _REGULAR,
            partial(_select_by_width, build=_build_lda),
            _build_lda,
            "LDA",
        ),
        Method(
            "odml",
            "ODM^L",
            "The large margin distribution machine with the paper's grid, penalty C per sample.",
            _ALL,
            partial(_select_odml, per_sample=True),
            partial(_build_odml, per_sample=True),
            "ODM^L",
        ),
        Method(
            "odml_mean",
            "ODM^L, C/m",
            "ODM^L with the penalty C/m per sample, as the paper prints it.",
            _REGULAR,
            partial(_select_odml, per_sample=False),
            partial(_build_odml, per_sample=False),
        ),
        Method(
            "odm",
            "ODM",
            "ODM with the paper's grid, no intercept.",
            _ALL,
            partial(_select_odm, fit_intercept=False),
            partial(_build_odm, fit_intercept=False),
            "ODM",
        ),
        Method(
            "odm_sum",
            "ODM, C per sample",
            "ODM with the paper's C1 and C2 as penalties per sample.",
            _ALL,
            partial(_select_odm, fit_intercept=False, per_sample=True),
            partial(_build_odm, fit_intercept=False),
        ),
        Method(
            "svm_wide",
            "SVM, wide grid",
            "SVM with an intercept and C in 2^-5, 2^-3, ..., 2^15.",
            _ALL,
            _select_wide_svm,
            _build_wide_svm,
        ),
        Method(
            "odm_intercept",
            "ODM, intercept",
            "ODM with the paper's grid and an intercept.",
            _REGULAR,
            partial(_select_odm, fit_intercept=True),
            partial(_build_odm, fit_intercept=True),
        ),
        Method(
            "odm_default",
            "ODM, no grid",
            "ODM tuned by this library's default search, with an intercept.",
            _ALL,
            _select_odm_default,
            partial(_build_odm, fit_intercept=True),
        ),
        Method(
            "odm_no_C2",
            "ODM, C2 = 0",
            "As 'ODM, no grid' without a penalty above the band: the squared hinge loss.",
            _REGULAR,
            partial(_select_restricted, share=0.0),
            partial(_build_odm, fit_intercept=True),
        ),
        Method(
            "odm_least_squares",
            "ODM, least squares",
            "As 'ODM, no grid' with C1 = C2 and D = 0: least squares of the margins.",
            _REGULAR,
            partial(_select_restricted, share=1.0, no_band=True),
            partial(_build_odm, fit_intercept=True),
        ),
        Method(
            "odm_no_band",
            "ODM, D = 0",
            "As 'ODM, no grid' without a band that costs nothing.",
            _REGULAR,
            partial(_select_restricted, no_band=True),
            partial(_build_odm, fit_intercept=True),
        ),
        Method(
            "odm_widths",
            "ODM, widths",
            "As 'ODM, no grid', with a width per feature where folds confirm it.",
            (3,),
            _select_odm_widths,
            _build_odm_widths,
        ),
        Method(
            "svm_sgd",
            "SVM, SGD",
            "The linear SVM by stochastic gradient descent, to compare times.",
            (4,),
            _select_sgd_svm,
            _build_sgd_svm,
        ),
        Method(
            "mamc",
            "MAMC",
            "Maximal average margin (Pelckmans et al. 2007).",
            _REGULAR,
            partial(_select_by_width, build=_build_mamc),
            _build_mamc,
        ),
        Method(
            "mdo",
            "MDO",
            "Margin distribution optimisation (Garg and Roth 2003), linear only.",
            (2,),
            partial(_select_by_width, build=_build_mdo, points=_MDO_POINTS),
            _build_mdo,
        ),
        Method(
            "kmomd",
            "KM-OMD",
            "Margin distribution by a game (Aiolli et al. 2008).",
            _REGULAR,
            partial(_select_by_width, build=_build_kmomd, points=_KMOMD_POINTS),
            _build_kmomd,
        ),
    )
}


def find_methods(keys=None):
    """Return methods by key.

    Parameters
    ----------
    keys : sequence of str, default=None
        All by default.

    Returns
    -------
    methods : dict of str to Method

    Raises
    ------
    ValueError
        If there is no such method; the message names similar ones.
    """
    if keys is None:
        return dict(METHODS)
    for key in keys:
        if key not in METHODS:
            similar = get_close_matches(str(key), METHODS, n=2, cutoff=0.4)
            hint = f"did you mean {' or '.join(similar)}?" if similar else ""
            raise ValueError(
                f"There is no method {key!r}: use {', '.join(METHODS)}. {hint}".strip()
            )
    return {key: METHODS[key] for key in METHODS if key in keys}


def evaluate(method, problem):
    """Choose parameters, fit and score on the held-out half.

    Parameters
    ----------
    method : Method
    problem : Problem

    Returns
    -------
    params : dict
    model : fitted estimator
    accuracy : float
    fit_seconds : float
        CPU time of the fit alone.
    """
    params = method.select(problem)
    model = method.build(problem, params)
    start = time.process_time()
    model.fit(problem.X, problem.y)
    seconds = time.process_time() - start
    accuracy = float(np.mean(model.predict(problem.X_test) == problem.y_test))
    return params, model, accuracy, seconds
