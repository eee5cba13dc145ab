"""What the estimators that choose their own parameters share."""

import sys
from abc import abstractmethod
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial, wraps
from inspect import signature
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import gmean
from sklearn.base import ClassifierMixin, _fit_context, is_classifier
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
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._checks import check_sparse, check_weights, checked_splits
from optimargin._ties import ranks
from optimargin._warnings import warn_user
from optimargin.designs import canonical
from optimargin.estimators._base import BaseLearner, Estimator
from optimargin.estimators._callbacks import FitTasks, with_callbacks
from optimargin.estimators._classifier import (
    Classifier,
    HeldOutDecision,
    no_probabilities,
)
from optimargin.estimators._forms import LandmarkForm
from optimargin.estimators._relevance import Relevance, relevance_of
from optimargin.estimators.explain import explain_plan
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.selection.criteria import (
    CRITERIA,
    Accuracy,
    Criterion,
    SmoothAccuracy,
    make_criterion,
    reported,
    scored,
)
from optimargin.selection.data import SelectionData
from optimargin.selection.grid import POSITIVE, make_grid, run_grid
from optimargin.selection.loss import HeldOutLoss
from optimargin.selection.penalty import MANY, MAX_FITS, can_find_penalty, find_penalty
from optimargin.selection.relevance import MAX_STEPS, can_find_widths, find_widths
from optimargin.selection.search import search_threads, stages_of_search
from optimargin.selection.stages import Clock, Findings, Judged, Level, StopSearch, work_off
from optimargin.tasks import Classification, Regression, Task

# Scorers that routing is told of where our own criteria decide: they take the same metadata.
_PLAIN_SCORER = {Classification: "accuracy", Regression: "r2"}
_ANY_SCORER = {Classification: "accuracy", Regression: "neg_mean_absolute_error"}

GRID = ["array-like", StrOptions({"paper"}), None]


def forwarded(method):
    """Return a method that asks the refitted estimator, documented as the estimator's own."""

    @wraps(method)
    def ask(self, *args, **kwargs):
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, method.__name__)(*args, **kwargs)

    return ask


class BaseSelectionCV(Estimator):
    """Choose parameters by held-out scores, then fit with them.

    A subclass says which objective is tuned, by which estimator it is fitted, and what held-out
    decision values are worth. For every parameter ``p`` of the objective it has a parameter
    ``ps``, the grid.

    Parameters
    ----------
    max_time : float, default=None
        Seconds after which the search without a grid looks at no further point. The final fit
        comes after it.
    n_jobs : int, default=None
        The number of threads for a grid, which work on its widths and folds. The search without
        a grid does not use them: most of its points follow from the ones before, and above
        1500 samples a point keeps the threads of BLAS busy by itself.
    verbose : int, default=0
        Above zero, progress, the time left and how the last fit is done are written to standard
        error.
    random_state : int, RandomState instance or None, default=0
        Deals samples out to folds and places the first points of the search. The default
        makes fits reproducible.

    Attributes
    ----------
    best_params_ : dict
        The chosen parameters by name.
    best_score_ : float
        The held-out score of the chosen point.
    best_index_ : int
        Its place in `cv_results_`.
    cv_results_ : dict of ndarray
        One entry per point, ready for a data frame: ``params``, ``param_C1``, ...,
        ``mean_test_score``, ``rank_test_score`` and, with `cv` and a grid,
        ``split0_test_score``, ... and ``std_test_score``. Without a grid ``is_finalist`` marks
        the points that were judged once more; they rank before all others. After an interrupt
        it holds what was computed until then; an estimator that was fitted before keeps that
        model instead.
    """

    objective_type: type[Objective]
    """The machine whose parameters are chosen. One that restricts them may be put in its place."""
    _tuned: type[BaseLearner]
    _task_type: type[Task]
    max_time: float | None = None  # unless a subclass has it as a parameter

    _parameter_constraints: dict = {
        "cv": ["cv_object"],
        "scoring": [str, callable, Criterion, None],
        "max_evals": [Interval(Integral, 1, None, closed="left")],
        "max_samples": [Interval(Integral, 2, None, closed="left"), None],
        "max_time": [POSITIVE, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # What is passed on to the estimator that is tuned may be what it may be there.
        passed_on = getattr(getattr(cls, "_tuned", None), "_parameter_constraints", {})
        names = signature(cls.__init__).parameters
        shared = {name: passed_on[name] for name in passed_on if name in names}
        cls._parameter_constraints = shared | cls._parameter_constraints

    @abstractmethod
    def _default_criterion(self, has_grid) -> Criterion:
        """Return what decides where no `scoring` is given."""

    def _criterion(self, has_grid, n_classes=2):
        default = self._default_criterion(has_grid)
        return make_criterion(self.scoring, default, self._task_type, n_classes)

    def _plain_criterion(self):
        """Return what `score` measures, for people: the accuracy, or R²."""
        name = _PLAIN_SCORER[self._task_type]
        return make_criterion(name, self._default_criterion(has_grid=False), self._task_type)

    def _fixed(self) -> dict[str, Any]:
        """Return the parameters of the objective that are not chosen."""
        return {}

    def _make_estimator(self, **point):
        """Return the estimator that is tuned, with the parameters of `point`."""
        own = self.get_params(deep=False)
        shared = [name for name in self._tuned._get_param_names() if name in own]
        return self._tuned(**{**{name: own[name] for name in shared}, **point})

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
            Class labels of any type; for regressors numbers, also of shape
            (n_samples, n_targets).
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
        tuned = self._make_estimator()
        # A copy is told about features: the estimator changes when there are results to store.
        X_checked, y_checked = validate_data(
            copy(self), check_sparse(X), y, **tuned._input_checks(), **tuned._y_checks
        )
        X_checked = canonical(X_checked)
        weight = check_weights(sample_weight, X_checked)
        routed = self._route(weight, params)
        task = tuned._make_task(y_checked, weight, X_checked.dtype)
        with FitTasks(self, None) as tasks:
            self._store(self._selected((X, y), (X_checked, y_checked), weight, task, routed, tasks))
        return self

    def _selected(self, given, checked, weight, task, routed, tasks):
        """Choose parameters, fit with them, and return the attributes of that.

        Parameters
        ----------
        given : tuple of (X, y)
            As the user gave them.
        checked : tuple of (X, y)
            Validated.
        weight : ndarray of shape (n_samples,) or None
        task : Task
        routed : Bunch
            What goes to the splitter and to the scorer.
        tasks : FitTasks
        """
        X, y = checked
        data = SelectionData(
            self.objective_type,
            X,
            y,
            weight,
            task=task,
            kernel=self._kernel_choice(),
            fit_intercept=self.fit_intercept,
            fixed=self._fixed(),
            score_params=routed.scorer.score,
        )
        grid = self._make_grid(data)
        if grid is None:
            results, held_out = self._search(data, routed.splitter.split, tasks)
        else:
            results, held_out = self._search_grid(data, routed.splitter.split, grid, tasks)
        with self._keeping(lambda: results):
            best = self._make_estimator(**results["best_params_"])
            best._validate_params()
            if self.verbose:
                how = explain_plan(best, given[0], given[1], weight)
                print(f"The last fit is by {how}", file=sys.stderr, flush=True)
            best._fit(*given, weight, held_out, self._score_of_held_out(data, grid is not None))
        return {**best._public_attributes(), **results, "best_estimator_": best}

    @contextmanager
    def _keeping(self, results):
        """Store what an interrupted search has found; one that has a model keeps that instead.

        Parameters
        ----------
        results : callable
            Returns what is to be stored.
        """
        try:
            yield
        except KeyboardInterrupt:
            if "best_estimator_" not in vars(self) and (found := results()):
                self._store(found)
            raise

    def _score_of_held_out(self, data, has_grid):
        """Return `scoring` as a function of rows and their decision values; None is None."""
        if self.scoring in (None, "smooth"):
            return None
        criterion = self._criterion(has_grid, np.unique(data.strata).size)

        def score(rows, decision):
            used = data.weight[rows] > 0
            return criterion.score(decision[used], data.truth(rows[used]))

        return score

    def _kernel_choice(self):
        return KernelChoice("linear")

    def _make_grid(self, data):
        """Return the grid to be searched, or None to search without one."""
        names = self.objective_type.grid_names
        given = {name: getattr(self, f"{name}s") for name in names}
        gammas, widths = getattr(self, "gammas", None), getattr(self, "widths", None)
        if all(values is None for values in [*given.values(), gammas, widths]):
            return None
        allowed = {name: self._tuned._parameter_constraints[name][0] for name in names}
        return make_grid(data, given, gammas, widths, allowed)

    def _splits(self, data, split_params):
        """Return the folds to be fitted, or None if the closed form needs none."""
        if self.cv is None and split_params:
            warn_user(
                f"{sorted(split_params)} are ignored without cv: give a splitter that uses them, "
                "for example cv=GroupKFold(5).",
            )
            split_params = {}
        if self.cv is None and self.objective_type.has_closed_form:
            return None
        cv = check_cv(self.cv, data.y, classifier=is_classifier(self))
        splits = [
            (train, _scorable(test, data.weight))
            for train, test in checked_splits(
                cv.split(data.X, data.y, **split_params), data.n_samples
            )
        ]
        n_needed = min(np.unique(data.strata).size, 2)
        for s, (train, _) in enumerate(splits):
            if np.unique(data.strata[train]).size < n_needed:
                raise ValueError(
                    f"The training samples of split {s} have one class only: use a stratified "
                    "splitter or fewer folds."
                )
        return splits

    def _search_grid(self, data, split_params, grid, tasks):
        """Score all grid points; return the results and, of given folds, held-out values."""
        splits = self._splits(data, split_params)
        criterion, plain = self._criterion(has_grid=True), self._plain_criterion()
        n_splits = 1 if splits is None else len(splits)
        scores, plain_scores = np.full((2, n_splits, len(grid)), np.nan)
        used = np.flatnonzero(data.weight)
        clock = Clock(
            type(self).__name__,
            scores.size,
            "fits",
            verbose=self.verbose > 0,
            tick=lambda: tasks.tick("points"),
        )

        def visit(s, refitter, places, objectives):
            if splits is None:
                decisions = [refitter.solve(each).leave_one_out() for each in objectives]
            else:
                decisions = refitter.predict_path(objectives)
            rows = used if splits is None else splits[s][1]
            where = f"split {s}" if splits is not None else "the grid"
            truth = data.truth(rows, f"The samples scored at {where}")
            for place, decision in zip(places, decisions, strict=True):
                scores[s, place] = scored(criterion, decision, truth, grid.points[place])
                plain_scores[s, place] = reported(plain, decision, truth)
            clock.step(n_steps=len(places))
            clock.check()

        def results():
            if not np.isfinite(scores).any():
                return {}
            mean = np.ascontiguousarray(scores.T).mean(axis=1)
            if np.isnan(mean).all():  # stopped so early that no point has been through all splits
                n_scored = np.isfinite(scores).sum(axis=0)
                mean = np.where(n_scored, np.nansum(scores, axis=0) / np.maximum(n_scored, 1), mean)
            plain_means = plain_scores.mean(axis=0)
            told = zip(grid.points, mean, plain_means, strict=True)
            records = [Judged(None, point, np.nan, None, None, *each) for point, *each in told]
            found = _results_of(records, grid.smoothest_best(mean))
            if splits is not None:
                found["cv_results_"] |= {"std_test_score": scores.std(axis=0)}
                found["cv_results_"] |= {f"split{s}_test_score": scores[s] for s in range(n_splits)}
            return found

        with suppress(StopSearch), self._keeping(results):
            run_grid(data, grid, splits, visit, self.n_jobs)
        found = results()
        if splits is None or getattr(self, "calibration", None) is None:
            return found, None
        objective, gamma = data.objective_at(found["best_params_"])
        solved = (data.refitter(gamma, *split).solve(objective) for split in splits)
        rows = np.concatenate([test for _, test in splits])
        decision = np.concatenate([each.predict_test().decision for each in solved])
        return found, HeldOutDecision(data.rows[rows], decision)

    def _search(self, whole, split_params, tasks):
        """Search without a grid; return the results and the held-out values of the chosen point.

        There are none where the search has seen some of the samples only, unless a further step
        found some.
        """
        random_state = check_random_state(self.random_state)
        data = whole
        if self.cv is None:
            data = whole.searched(self.max_samples, random_state)
        splits = self._splits(data, split_params)
        criterion = self._criterion(False, np.unique(data.strata).size)
        findings = Findings(criterion, self._plain_criterion(), self.objective_type.roughness)
        clock = Clock(
            type(self).__name__,
            self.max_evals,
            "evaluations",
            verbose=self.verbose > 0,
            max_time=self.max_time,
            tick=lambda: tasks.tick("evaluation"),
        )
        loss = HeldOutLoss(data, splits, random_state, criterion.guide)
        clock.later, find_more = self._further_step(loss, whole, criterion)

        def results():
            if not findings.all:
                return {}
            return _results_of(findings.all, findings.all.index(findings.chosen))

        with self._keeping(results):
            with search_threads(data):
                stages = stages_of_search(loss, self.max_evals, random_state, findings, clock)
                work_off(stages, self.max_evals)
            clock.later = 0
            with suppress(StopSearch):
                random_state = check_random_state(self.random_state)
                found = find_more(findings.chosen, random_state, clock)
                if found is not None:
                    findings.add(found, Level.FURTHER)
        best = findings.chosen
        clock.end(f", best objective {best.score:.4f}")
        is_of_some = best.level < Level.FURTHER and data.n_samples < whole.n_samples
        # Probabilities could not know of a class that held-out values lack.
        if is_of_some or best.decision is None or whole.lacks_a_class(best.truth.rows):
            return results(), None
        return results(), HeldOutDecision(best.truth.rows, best.decision)

    def _further_step(self, loss, whole, criterion):
        """Return how many evaluations come after a search, about, and what makes them.

        That takes the chosen record, a random state and the clock, and returns a record or None.

        Parameters
        ----------
        loss : HeldOutLoss
            Of the search.
        whole : SelectionData
            All samples.
        criterion : Criterion
        """
        looks_for_widths = self.cv is None and getattr(self, "relevance", False)
        if looks_for_widths and can_find_widths(loss.data, loss.guide):
            return MAX_STEPS, partial(find_widths, loss, at_once=self.relevance != "auto")
        is_linear = whole.objective_type.has_closed_form and whole.kernel.kind.is_linear
        if self.cv is None and is_linear:
            every = whole.sample(self.max_samples, check_random_state(self.random_state))
            if loss.data.n_samples < every.n_samples and can_find_penalty(every):
                # Of many samples the accuracy itself tells more than its smooth form.
                is_smooth = self.scoring is None and isinstance(every.task, Classification)
                if is_smooth and every.task.class_weight is None and every.n_samples >= MANY:
                    criterion = self._plain_criterion()
                options = self._make_estimator()._options()
                return MAX_FITS, partial(find_penalty, every, criterion, options)
        return 0, lambda *_: None

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
                scorer=get_scorer(_ANY_SCORER[self._task_type] if is_ours else self.scoring),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        of_tuned = self._make_estimator().__sklearn_tags__()
        tags.input_tags, tags.target_tags = of_tuned.input_tags, of_tuned.target_tags
        return tags


class ClassifierCV(ClassifierMixin, BaseSelectionCV):
    """A classifier that chooses its own parameters.

    Attributes
    ----------
    held_out_score_ : float
        The accuracy of held-out predictions at the chosen point, whatever it was chosen by.
    """

    _task_type = Classification

    def _default_criterion(self, has_grid):
        return Accuracy() if has_grid else SmoothAccuracy()

    decision_function = forwarded(Classifier.decision_function)
    predict = forwarded(Classifier.predict)
    predict_proba = no_probabilities()


def _scorable(rows, weight):
    """Return the rows with a weight, which scorers of scikit-learn would count all alike."""
    rows = np.asarray(rows)
    kept = rows[weight[rows] > 0]
    return kept if kept.size else rows


def _results_of(records, best):
    """Return `cv_results_`, and what is said about the chosen point.

    Ties share a rank, as equal scores do in scikit-learn's searches: the chosen point is one of
    those of rank one. Points of a higher level rank before all others.

    Parameters
    ----------
    records : list of Judged
    best : int
        Which of them was chosen.
    """
    table: dict = {}
    for name in records[0].point:
        values = [each.point[name] for each in records]
        # Tables are of numbers: widths per feature are shown by their geometric mean.
        shown = [value if np.ndim(value) == 0 else gmean(value) for value in values]
        table[f"param_{name}"] = np.array(shown)
    table["params"] = [each.point for each in records]
    scores = table["mean_test_score"] = np.array([each.score for each in records])
    level = np.array([each.level for each in records])
    if records[0].x is not None:  # a grid has none
        table["is_finalist"] = level > Level.SEARCHED
    rank = table["rank_test_score"] = np.empty(len(records), dtype=int)
    for k in np.unique(level):
        rank[level == k] = np.count_nonzero(level > k) + ranks(scores[level == k])
    chosen = records[best]
    return {
        "cv_results_": table,
        "best_index_": int(best),
        "best_params_": dict(chosen.point),
        "held_out_score_": float(chosen.plain),
        "best_score_": float(chosen.score),
        **{f"{name}_": value for name, value in chosen.point.items()},
    }


class KernelSelectionCV(Relevance, BaseSelectionCV):
    """What estimators with a kernel add: widths, and coefficients where it is linear.

    Parameters
    ----------
    gammas : array-like, default=None
        The values of `gamma`, for the kernels "rbf", "poly" and "sigmoid".
    """

    _parameter_constraints: dict = {
        "gammas": ["array-like", None],
        "widths": GRID,
    }

    def _kernel_choice(self):
        return KernelChoice(self.kernel, degree=self.degree, coef0=self.coef0)

    def _selected(self, given, checked, weight, task, routed, tasks):
        tuned = self._make_estimator()
        if isinstance(tuned, LandmarkForm):
            sizes = [np.count_nonzero(each.weight) for each in task.encode(checked[1], weight)]
            tuned._check_plan(max(sizes))
        found = super()._selected(given, checked, weight, task, routed, tasks)
        if self._kernel_choice().kind.has_width:
            found |= relevance_of(found["gamma_"], checked[0], weight)
        return found

    @property
    def coef_(self):
        """Coefficients of the features, of shape (1 or n_classes, n_features)."""
        if "best_estimator_" not in vars(self):
            raise AttributeError("coef_ is available after fit, with kernel='linear'.")
        return vars(self)["best_estimator_"].coef_
