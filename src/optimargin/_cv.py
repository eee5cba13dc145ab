"""Classifiers that choose their own parameters."""

from abc import ABCMeta
from numbers import Integral, Real

import numpy as np
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
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from optimargin._base import BaseMarginClassifier, check_two_classes
from optimargin._doc_link import DocLinkMixin
from optimargin._kernel_base import KernelClassifier
from optimargin._selection.grid import make_grid, run_grid, single_threaded
from optimargin._selection.machines import Machine
from optimargin._selection.progress import Progress
from optimargin._selection.scoring import Score, describe
from optimargin._selection.search import HeldOutLoss, search
from optimargin._selection.training import TrainingSet
from optimargin._warnings import warn_user

GRID = ["array-like", StrOptions({"paper"}), None]


class BaseSelectionCV(DocLinkMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Choose parameters by held-out scores, then fit with them.

    A subclass says which machine is tuned and by which estimator it is fitted. For every
    parameter ``p`` of the machine it has a parameter ``ps``, the grid.
    """

    _machine: Machine
    _tuned: type[BaseMarginClassifier]

    _parameter_constraints: dict = {
        "fit_intercept": ["boolean"],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "max_evals": [Interval(Integral, 1, None, closed="left")],
        "max_samples": [Interval(Integral, 2, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
    }

    def _make_estimator(self, **point):
        """Return the estimator that is tuned, with the parameters of `point`."""
        own = self.get_params(deep=False)
        shared = [name for name in self._tuned._get_param_names() if name in own]
        return self._tuned(**{name: own[name] for name in shared}, **point)

    def _make_grid(self, training):
        """Return the grid to be searched, or None to search without one."""
        given = {name: getattr(self, f"{name}s") for name in self._machine.paper}
        gammas, widths = getattr(self, "gammas", None), getattr(self, "widths", None)
        if all(values is None for values in [*given.values(), gammas, widths]):
            return None
        return make_grid(training, given, gammas, widths)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params):
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
        X_checked, y_checked = validate_data(self, X, y, **checks)
        check_classification_targets(y_checked)
        self.classes_ = np.unique(y_checked)
        check_two_classes(self.classes_)
        routed = self._route(sample_weight, params)
        weight = sample_weight
        if weight is not None:
            weight = _check_sample_weight(weight, X_checked, dtype=np.float64)
        training = TrainingSet(self._machine, self._make_estimator(), X_checked, y_checked, weight)
        grid = self._make_grid(training)
        score = Score(self.scoring, training, routed.scorer.score)
        if grid is None:
            point = self._search(training, routed.splitter.split, score)
        else:
            point = self._search_grid(training, routed.splitter.split, score, grid)
        self._refit(point, X, y, sample_weight)
        return self

    def _splits(self, training, split_params):
        """Return the folds to be fitted, or None where the closed form makes do without."""
        if self.cv is None and split_params:
            warn_user(
                f"{sorted(split_params)} are ignored without cv: give a splitter that uses them, "
                "for example cv=GroupKFold(5).",
            )
            split_params = {}
        if self.cv is None and self._machine.has_closed_form:
            return None
        labels = training.classes[training.encoded]
        cv = check_cv(self.cv, labels, classifier=True)
        splits = list(cv.split(training.X, labels, **split_params))
        for s, (train, _) in enumerate(splits):
            if np.unique(training.encoded[train]).size < 2:
                raise ValueError(
                    f"The training samples of split {s} have one class only: use a stratified "
                    "splitter or fewer folds."
                )
        return splits

    def _search_grid(self, training, split_params, score, grid):
        """Score all grid points and return the best."""
        splits = self._splits(training, split_params)
        n_splits = 1 if splits is None else len(splits)
        scores = np.full((n_splits, len(grid)), np.nan)
        used = np.flatnonzero(training.weight)
        progress = Progress(type(self).__name__, scores.size, "fits", self.verbose > 0)

        def visit(s, learner, places, points):
            if splits is None:
                decisions = np.array([learner.fit(*point).leave_one_out() for point in points])
            else:
                decisions = learner.predict_path(points)
            rows = used if splits is None else splits[s][1]
            scores[s, places] = score.of_path(decisions, rows, [grid.points[p] for p in places])
            progress.step(n_steps=len(places))

        try:
            run_grid(training, grid, splits, visit, self.n_jobs)
        finally:
            # Also after an interrupt, which goes on from here.
            mean = np.ascontiguousarray(scores.T).mean(axis=1)
            self._store_results(grid.points, mean)
            if splits is not None:
                self.cv_results_["std_test_score"] = scores.std(axis=0)
                for s in range(n_splits):
                    self.cv_results_[f"split{s}_test_score"] = scores[s]
            if not np.isnan(mean).all():
                self._store_choice(grid.smoothest_best(mean))
        return self.cv_results_["params"][self.best_index_]

    def _search(self, training, split_params, score):
        """Search without a grid and return the best point."""
        random_state = check_random_state(self.random_state)
        if self.cv is None:
            training = training.sample(self.max_samples, random_state)
        splits = self._splits(training, split_params)
        loss = HeldOutLoss(training, splits, random_state)
        n_evals = self.max_evals + 1  # the best point once more, with fewer digits
        progress = Progress(type(self).__name__, n_evals, "evaluations", self.verbose > 0)
        points: list[dict] = []
        scores: list[float] = []
        last_wins = False

        def visit(evaluation):
            point = loss.parameters(evaluation.x)
            value = 1.0 - evaluation.loss
            if self.scoring not in (None, "smooth"):
                value = score(evaluation.decision, training.rows[loss.rows], describe(point))
            points.append(point)
            scores.append(value)
            progress.step(f", best score {max(scores):.4f}")

        try:
            with single_threaded(training):
                evaluations = search(loss, self.max_evals, random_state, visit)
                # Fewer digits make the choice independent of rounding errors.
                best = evaluations[int(np.argmax(scores))].x
                visit(loss(loss.rounded(best), gradient=False)[0])
                last_wins = True
        finally:
            # Also after an interrupt, which goes on from here.
            if points:
                self._store_results(points, np.array(scores))
                self._store_choice(len(scores) - 1 if last_wins else int(np.argmax(scores)))
        return self.cv_results_["params"][self.best_index_]

    def _store_results(self, points, mean):
        self.cv_results_ = {f"param_{n}": np.array([p[n] for p in points]) for n in points[0]}
        self.cv_results_["params"] = points
        self.cv_results_["mean_test_score"] = mean
        worst_last = np.where(np.isnan(mean), np.inf, -mean)
        self.cv_results_["rank_test_score"] = rankdata(worst_last, method="min").astype(int)

    def _store_choice(self, index):
        self.best_index_ = index
        self.best_score_ = float(self.cv_results_["mean_test_score"][index])
        for name, value in self.cv_results_["params"][index].items():
            setattr(self, f"{name}_", value)

    def _refit(self, point, X, y, sample_weight):
        self.best_estimator_ = self._make_estimator(**point).fit(X, y, sample_weight)
        for name, value in vars(self.best_estimator_).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)

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
        scorer = "accuracy" if self.scoring in (None, "smooth") else self.scoring
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                splitter=check_cv(self.cv),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
            .add(
                scorer=get_scorer(scorer),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
        )

    def decision_function(self, X):
        """Return the decision values of the refitted estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive values mean ``classes_[1]``; with more than two classes, one column a
            class and the largest wins.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    def predict(self, X):
        """Predict class labels with the refitted estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = self._make_estimator().__sklearn_tags__().input_tags
        return tags


class KernelSelectionMixin:
    """What estimators with a kernel add: widths, and coefficients where it is linear."""

    _parameter_constraints: dict = {
        "gammas": ["array-like", None],
        "widths": GRID,
        **{
            name: KernelClassifier._parameter_constraints[name]
            for name in ("kernel", "degree", "coef0")
        },
    }

    @property
    def coef_(self):
        """Coefficients of the features, of shape (1 or n_classes, n_features)."""
        if "best_estimator_" not in vars(self):
            raise AttributeError("coef_ is available after fit, with kernel='linear'.")
        return vars(self)["best_estimator_"].coef_
