"""What the classifiers that choose their own parameters share."""

from abc import ABCMeta
from copy import copy
from functools import wraps
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._checks import check_columns, check_weights
from optimargin._warnings import warn_user
from optimargin.designs import canonical
from optimargin.estimators._callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from optimargin.estimators._classifier import CLASS_WEIGHT, Classifier
from optimargin.estimators._doc_link import DocLinkMixin
from optimargin.estimators._forms import KERNEL_CONSTRAINTS
from optimargin.estimators._store import StoreMixin, public_attributes
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.selection.criteria import CRITERIA, Criterion, describe_point, make_criterion
from optimargin.selection.data import SelectionData
from optimargin.selection.grid import make_grid, run_grid, single_threaded
from optimargin.selection.progress import Progress
from optimargin.selection.search import N_FINALISTS, HeldOutLoss, StopSearch, search

GRID = ["array-like", StrOptions({"paper"}), None]


def forwarded(method):
    """Return a method that asks the refitted estimator, documented as the estimator's own."""

    @wraps(method)
    def ask(self, *args, **kwargs):
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, method.__name__)(*args, **kwargs)

    return ask


class BaseSelectionCV(
    StoreMixin,
    DocLinkMixin,
    CallbackSupportMixin,
    ClassifierMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """Choose parameters by held-out scores, then fit with them.

    A subclass says which objective is tuned and by which estimator it is fitted. For every
    parameter ``p`` of the objective it has a parameter ``ps``, the grid.
    """

    _objective_type: type[Objective]
    _tuned: type[Classifier]

    _parameter_constraints: dict = {
        "fit_intercept": ["boolean"],
        "cv": ["cv_object"],
        "scoring": [str, callable, Criterion, None],
        "max_evals": [Interval(Integral, 1, None, closed="left")],
        "max_samples": [Interval(Integral, 2, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": CLASS_WEIGHT,
        "random_state": ["random_state"],
    }

    def _make_estimator(self, **point):
        """Return the estimator that is tuned, with the parameters of `point`."""
        own = self.get_params(deep=False)
        shared = [name for name in self._tuned._get_param_names() if name in own]
        return self._tuned(**{name: own[name] for name in shared}, **point)

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Choose the parameters and fit with them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. For a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for fitting and for scoring.
        **params : dict
            ``groups`` for the splitter; with scikit-learn's metadata routing enabled,
            whatever the splitter and the scorer request.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        checks = self._make_estimator()._input_checks()
        # A copy is told about features: the estimator changes when there are results to store.
        X_checked, y_checked = validate_data(copy(self), X, y, **checks)
        X_checked = check_columns(canonical(X_checked))
        check_classification_targets(y_checked)
        routed = self._route(sample_weight, params)
        weight = check_weights(sample_weight, X_checked)
        data = SelectionData(
            self._objective_type,
            X_checked,
            y_checked,
            weight,
            kernel=self._kernel_choice(),
            fit_intercept=self.fit_intercept,
            class_weight=self.class_weight,
            score_params=routed.scorer.score,
        )
        grid = self._make_grid(data)
        with FitTasks(self, None) as tasks:
            if grid is None:
                results = self._search(data, routed.splitter.split, tasks)
            else:
                results = self._search_grid(data, routed.splitter.split, grid, tasks)
            point = results["cv_results_"]["params"][results["best_index_"]]
            try:
                best = self._make_estimator(**point).fit(X, y, sample_weight)
            except KeyboardInterrupt:
                self._store(results)
                raise
        self._store({**public_attributes(best), **results, "best_estimator_": best})
        return self

    def _kernel_choice(self):
        return KernelChoice("linear")

    def _make_grid(self, data):
        """Return the grid to be searched, or None to search without one."""
        names = self._objective_type.paper
        given = {name: getattr(self, f"{name}s") for name in names}
        gammas, widths = getattr(self, "gammas", None), getattr(self, "widths", None)
        if all(values is None for values in [*given.values(), gammas, widths]):
            return None
        allowed = {name: self._tuned._parameter_constraints[name][0] for name in names}
        return make_grid(data, given, gammas, widths, allowed)

    def _splits(self, data, split_params):
        """Return the folds to be fitted, or None where the closed form makes do without."""
        if self.cv is None and split_params:
            warn_user(
                f"{sorted(split_params)} are ignored without cv: give a splitter that uses them, "
                "for example cv=GroupKFold(5).",
            )
            split_params = {}
        if self.cv is None and self._objective_type.has_closed_form:
            return None
        cv = check_cv(self.cv, data.y, classifier=True)
        splits = list(cv.split(data.X, data.y, **split_params))
        for s, (train, _) in enumerate(splits):
            if np.unique(data.encoded[train]).size < 2:
                raise ValueError(
                    f"The training samples of split {s} have one class only: use a stratified "
                    "splitter or fewer folds."
                )
        return splits

    def _search_grid(self, data, split_params, grid, tasks):
        """Score all grid points and return the results."""
        splits = self._splits(data, split_params)
        criterion = make_criterion(self.scoring, default="accuracy")
        n_splits = 1 if splits is None else len(splits)
        scores = np.full((n_splits, len(grid)), np.nan)
        used = np.flatnonzero(data.weight)
        progress = Progress(type(self).__name__, scores.size, "fits", self.verbose > 0)

        def visit(s, refitter, places, objectives):
            if splits is None:
                decisions = np.array([refitter.solve(o).leave_one_out() for o in objectives])
            else:
                decisions = refitter.predict_path(objectives)
            rows = used if splits is None else splits[s][1]
            where = f"split {s}" if splits is not None else "the grid"
            truth = data.truth(rows, f"The samples scored at {where}")
            points = [grid.points[place] for place in places]
            scores[s, places] = _scored(criterion, decisions, truth, points)
            progress.step(n_steps=len(places))
            if tasks.tick("points"):
                raise StopSearch

        def results():
            mean = np.ascontiguousarray(scores.T).mean(axis=1)
            if np.isnan(mean).all():  # stopped so early that no point has been through all splits
                n_scored = np.isfinite(scores).sum(axis=0)
                mean = np.where(n_scored, np.nansum(scores, axis=0) / np.maximum(n_scored, 1), mean)
            table = _table(grid.points, mean)
            if splits is not None:
                table["std_test_score"] = scores.std(axis=0)
                for s in range(n_splits):
                    table[f"split{s}_test_score"] = scores[s]
            return {"cv_results_": table, **_choice(table, grid.smoothest_best(mean))}

        try:
            run_grid(data, grid, splits, visit, self.n_jobs)
        except StopSearch:
            pass
        except KeyboardInterrupt:
            if np.isfinite(scores).any():
                self._store(results())
            raise
        return results()

    def _search(self, data, split_params, tasks):
        """Search without a grid and return the results."""
        random_state = check_random_state(self.random_state)
        if self.cv is None:
            data = data.sample(self.max_samples, random_state)
        splits = self._splits(data, split_params)
        criterion = make_criterion(self.scoring, default="smooth")
        guide = criterion.guide
        loss = HeldOutLoss(data, splits, random_state, guide)
        n_judged = min(N_FINALISTS, self.max_evals // 2)
        progress = Progress(type(self).__name__, self.max_evals, "evaluations", self.verbose > 0)
        points: list[dict] = []
        scores: list[float] = []
        is_finalist: list[bool] = []

        def visit(evaluation, judge=None):
            point = loss.parameters(evaluation.x)
            value = 1.0 - evaluation.loss
            if criterion is not guide:
                truth = (judge or loss).truth
                value = _scored(criterion, evaluation.decision[None], truth, [point])[0]
            points.append(point)
            scores.append(value)
            is_finalist.append(judge is not None)
            progress.step(f", best score {max(scores):.4f}")
            if tasks.tick("evaluation"):
                raise StopSearch

        def results():
            table = _table(points[: len(scores)], np.array(scores), np.array(is_finalist))
            return {"cv_results_": table, **_choice(table, table["rank_test_score"].argmin())}

        try:
            with single_threaded(data.n_samples):
                evaluations = search(loss, self.max_evals - n_judged, random_state, visit)
                judge = loss.judge()
                for x in loss.finalists(evaluations, scores)[:n_judged]:
                    visit(judge(x, gradient=False)[0], judge)
        except StopSearch:
            pass
        except KeyboardInterrupt:
            if scores:
                self._store(results())
            raise
        return results()

    def _route(self, sample_weight, params):
        """Return what goes to the splitter and to the scorer."""
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        unknown = sorted(set(params) - {"groups"})
        if unknown:
            raise TypeError(
                f"fit got unexpected arguments {unknown}: without metadata routing "
                "(sklearn.set_config(enable_metadata_routing=True)) it takes sample_weight and "
                "groups."
            )
        for_scorer = {} if sample_weight is None else {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split=params), scorer=Bunch(score=for_scorer))

    def get_metadata_routing(self):
        """Return how metadata reach the splitter and the scorer.

        Returns
        -------
        routing : MetadataRouter
        """
        is_ours = self.scoring is None or isinstance(self.scoring, Criterion)
        is_ours = is_ours or (isinstance(self.scoring, str) and self.scoring in CRITERIA)
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                splitter=check_cv(self.cv),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
            .add(
                scorer=get_scorer("accuracy" if is_ours else self.scoring),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
        )

    decision_function = forwarded(Classifier.decision_function)
    predict = forwarded(Classifier.predict)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = self._make_estimator().__sklearn_tags__().input_tags
        return tags


def _scored(criterion, decisions, truth, points):
    """Return the scores of several points; an error says at which of them it occurred."""
    scores: list[float] = []
    try:
        for score in criterion.score_path(decisions, truth):
            scores.append(score)
    except ValueError as error:
        where = describe_point(points[len(scores)])
        raise ValueError(f"At {where}: {error}") from error
    return scores


def _table(points, mean, is_finalist=None):
    """Return `cv_results_`; points that were judged once more rank before all others."""
    table: dict = {f"param_{name}": np.array([p[name] for p in points]) for name in points[0]}
    table["params"] = points
    table["mean_test_score"] = mean
    worst_last = np.where(np.isnan(mean), np.inf, -mean)
    if is_finalist is not None:
        table["is_finalist"] = is_finalist
        worst_last = np.where(is_finalist, worst_last, worst_last + np.ptp(mean) + 1)
    table["rank_test_score"] = rankdata(worst_last, method="min").astype(int)
    return table


def _choice(table, index):
    """Return what is said about the chosen point."""
    return {
        "best_index_": int(index),
        "best_score_": float(table["mean_test_score"][index]),
        **{f"{name}_": value for name, value in table["params"][index].items()},
    }


class KernelSelectionCV(BaseSelectionCV):
    """What estimators with a kernel add: widths, and coefficients where it is linear."""

    _parameter_constraints: dict = {
        **BaseSelectionCV._parameter_constraints,
        "gammas": ["array-like", None],
        "widths": GRID,
        **{name: KERNEL_CONSTRAINTS[name] for name in ("kernel", "degree", "coef0")},
    }

    def _kernel_choice(self):
        return KernelChoice(self.kernel, degree=self.degree, coef0=self.coef0)

    @property
    def coef_(self):
        """Coefficients of the features, of shape (1 or n_classes, n_features)."""
        if "best_estimator_" not in vars(self):
            raise AttributeError("coef_ is available after fit, with kernel='linear'.")
        return vars(self)["best_estimator_"].coef_
