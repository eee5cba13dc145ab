"""What additive objectives offer: fits to chunks, and samples and folds left out in closed form."""

from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context, is_classifier
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from optimargin._checks import checked_splits
from optimargin.estimators._base import BaseLearner
from optimargin.estimators._callbacks import FitTasks, with_callbacks
from optimargin.estimators._documentation import described
from optimargin.estimators._words import explained, notify_user, warn_if_short
from optimargin.held_out import error_bound, leave_one_out, models_without
from optimargin.objectives import LARGEST
from optimargin.tasks import one_or_all
from optimargin.training.plan import is_left_out_quickly
from optimargin.training.rebuild import solution_of

if TYPE_CHECKING:
    from optimargin.chunks import Chunks


class HeldOutValues(BaseLearner):
    """Held-out values of the training samples, without fitting again."""

    _parameter_constraints: dict = {  # of band losses
        "C1": [Interval(Real, 0, LARGEST, closed="right"), None],
        "C2": [Interval(Real, 0, LARGEST, closed="both"), None],
        "D": [Interval(Real, 0, 1, closed="left")],
    }

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks: "Chunks") -> Self:
        """Fit the model to data that do not fit in memory.

        Every pass reads all chunks; a fit takes about ten passes with up to 2000 features or
        landmarks. Solves the same problem as `fit`, to the same certified gap. The threshold and
        p-values of a one-class model come from models without each of five folds.

        Parameters
        ----------
        chunks : Chunks
            From `optimargin.chunks`: `NpyChunks`, `SvmlightChunks`, `ParquetChunks`, or parts of
            arrays. A one-class model does not look at labels, which may be missing.

        Returns
        -------
        self : object
            The fitted estimator, without `support_`: landmarks have no place in one array.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from optimargin import LinearODMClassifier, ODMClassifier
        >>> from optimargin.chunks import ArrayChunks
        >>> X, y = make_moons(1000, noise=0.1, random_state=0)
        >>> model = LinearODMClassifier().fit_chunks(ArrayChunks(X, y, chunk_rows=300))
        >>> bool(model.dual_gap_ <= 1e-6)
        True

        A model with a kernel needs landmarks:

        >>> model = ODMClassifier(approximation="nystrom", n_components=50, random_state=0)
        >>> bool(model.fit_chunks(ArrayChunks(X, y, chunk_rows=300)).score(X, y) > 0.95)
        True
        """
        from optimargin.training.chunks import train_chunks  # the command starts without it

        self._check_chunks_fit()
        task_type, settings = self._task_of_chunks()
        with FitTasks(self, None) as progress, explained():
            found = train_chunks(
                chunks,
                task_type,
                settings,
                self._objective(),
                kernel=self._kernel_choice(),
                options=self._options(),
                calibrate=self._calibrator,
                progress=progress,
                notify=notify_user,
            )
        about: dict[str, Any] = {"n_features_in_": found.n_features}
        if chunks.feature_names is not None:
            about["feature_names_in_"] = np.asarray(chunks.feature_names, dtype=object)
        self._store({**about, **found.task.attributes(), **found.fit.attributes()})
        warn_if_short(self, found.fit)
        return self

    def _is_left_out_quickly(self, X):
        """Return whether held-out values of its samples X take about as long as another fit."""
        kernel = getattr(self._minimum, "kernel", None)
        n_active = X.shape[0] if kernel is None else self.dual_coef_.shape[1]
        return is_left_out_quickly(X, kernel, self._options(), n_active)

    def _leave_one_out(self, X, y, sample_weight, exact, share=None):
        """Return for each training sample the value of the model without it.

        No model is refitted: the loss is quadratic on the active set of the fit, so the values
        follow in closed form, at about the cost of one more fit. That holds as long as no other
        sample enters or leaves the active set, which is always so for a regressor with
        ``epsilon=0`` and ``C1 = C2``; `exact` follows those that do. The weights of the
        remaining samples are kept, so a model without sample i is the one fitted with `C1` and
        `C2` times ``(sum(s) - s_i) / sum(s)``, s being the weights; with their defaults, which
        grow with the sum, it is the one fitted without the sample. `gamma` and `epsilon` stay
        the numbers of the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The training data. A fitted estimator remembers them until it is pickled; then
            pass them again.
        y : array-like of shape (n_samples,), default=None
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.
        exact : bool, default=False
            Make the values equal those of refits, by a few Newton steps for each sample, or
            fold, whose removal changes the active set.
        share : ndarray of shape (n_samples,), default=None
            How much of the weight of each sample is left out; all of it by default.
        """
        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        rebuilt, solutions = self._rebuilt_solutions(X, y, sample_weight)
        rows = rebuilt.rows
        share = None if share is None else share[rows]
        scores = np.empty((len(y), len(solutions)))
        if rows.size < len(y):
            # Samples of zero weight took no part: their value is that of the model itself.
            scores[:] = self._scores(X)
        shift = self._shift()
        with explained():
            for k, solution in enumerate(solutions):
                left_out = leave_one_out(*solution, share=share, exact=exact)
                scores[rows, k] = solution[0].target.scale.restored(left_out) + shift[k]
        return one_or_all(self._told(scores))

    def _leave_folds_out(self, cv, X, y, sample_weight, groups, exact):
        """Return for each training sample the value of the model without its fold.

        No model is refitted: it is the block form of leaving one sample out, for any splitter
        whose test sets hold every sample once.

        Parameters
        ----------
        cv : int, cross-validation generator or iterable, default=5
            As in `sklearn.model_selection.cross_val_predict`.
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter.
        """
        from sklearn.model_selection import check_cv  # slow to import

        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        cv = check_cv(cv, y, classifier=is_classifier(self))
        folds = [test for _, test in checked_splits(cv.split(X, y, groups), len(y))]
        times = np.bincount(np.concatenate(folds), minlength=len(y))
        for wrong, what in ((times > 1, "into two test sets"), (times < 1, "into no test set")):
            if wrong.any():
                raise ValueError(
                    f"cv puts sample {np.argmax(wrong)} {what}: test sets must be a partition."
                )
        rebuilt, solutions = self._rebuilt_solutions(X, y, sample_weight)
        rows, X = rebuilt.rows, self._checked_rows(X)
        every, place = np.arange(rows.size), np.full(len(y), -1)
        place[rows] = every
        left_out = [np.sort(place[fold][place[fold] >= 0]) for fold in folds]
        # Samples of zero weight have a fold, too, whose model they are asked of like new ones.
        others = [fold[place[fold] < 0] for fold in folds]
        new = [rebuilt.coordinates(X[fold], every) if fold.size else None for fold in others]
        scores = np.empty((len(y), len(solutions)))
        with explained():
            for k, (problem, coef, intercept) in enumerate(solutions):
                models = models_without(problem, coef, intercept, left_out, exact=exact)
                for j, (w, b) in enumerate(models):
                    scores[rows[left_out[j]], k] = problem.design.decision(w)[left_out[j]] + b
                    if new[j] is not None:
                        scores[others[j], k] = new[j] @ w + b
                scores[:, k] = problem.target.scale.restored(scores[:, k])
        return one_or_all(self._told(scores + self._shift()))

    def _rebuilt_solutions(self, X, y, sample_weight):
        """Return a `Rebuilt` and, per problem, (problem, coef, intercept)."""
        rebuilt = self._rebuilt(X, y, sample_weight)
        options, model = self._options(), self._minimum
        objective = np.ravel(getattr(self, "objective_", []))  # none after a stream
        with explained():
            solutions = [
                solution_of(rebuilt, model, k, options, objective[k] if objective.size else None)
                for k in range(len(rebuilt.problems))
            ]
        return rebuilt, solutions


class HeldOutDecisions(HeldOutValues):
    """Held-out decision values, and bounds of the error."""

    @described(HeldOutValues._leave_one_out)
    def loo_decision_function(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """Return for each training sample the decision value of the model without it.

        ...

        Parameters
        ----------
        X, y, sample_weight, exact

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As in `decision_function`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from optimargin import ODMClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = ODMClassifier().fit(X / X.max(axis=0), y)
        >>> error = ((model.loo_decision_function() > 0) != y).mean()
        >>> print(f"leave-one-out error {error:.3f}")
        leave-one-out error 0.019
        """
        return self._leave_one_out(X, y, sample_weight, exact)

    @described(HeldOutValues._leave_folds_out, HeldOutValues._leave_one_out)
    def kfold_decision_function(
        self, cv=5, X=None, y=None, sample_weight=None, *, groups=None, exact=False
    ):
        """Return for each training sample the decision value of the model without its fold.

        ...

        Parameters
        ----------
        cv, X, y, sample_weight, groups, exact

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import KFold
        >>> from optimargin import LinearODMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> folds = KFold(10, shuffle=True, random_state=0)
        >>> LinearODMClassifier().fit(X, y).kfold_decision_function(folds).shape
        (150, 3)
        """
        return self._leave_folds_out(cv, X, y, sample_weight, groups, exact)

    @validate_params(
        {"kind": [StrOptions({"printed", "valid", "count"})]},
        prefer_skip_nested_validation=True,
    )
    @described(HeldOutValues._leave_one_out)
    def loo_error_bound(self, X=None, y=None, sample_weight=None, *, kind="valid"):
        """Bound the leave-one-out error by what the fit has already computed.

        Parameters
        ----------
        X, y, sample_weight
        kind : {"printed", "valid", "count"}, default="valid"
            ``"printed"`` is the bound as the paper prints it, which can be below the error;
            ``"valid"`` its corrected form, and ``"count"`` a tighter valid one. The last two
            hold for models without an intercept; with one, both return the share of samples
            with a margin below 1 - D, which is safe. `optimargin.held_out.error_bound`
            has the formulas.

        Returns
        -------
        bound : float or ndarray of shape (n_classes,) or (n_pairs,)
            One number for two classes, otherwise one per class, or per pair of classes with
            ``multi_class="ovo"``: bounds of the share of all samples that its output gets wrong.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from optimargin import ODMClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = ODMClassifier(fit_intercept=False).fit(X / X.max(axis=0), y)
        >>> bool(model.loo_error_bound(kind="count") <= model.loo_error_bound())
        True
        """
        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        _, solutions = self._rebuilt_solutions(X, y, sample_weight)
        bounds = [
            error_bound(problem, coef, intercept, kind) for problem, coef, intercept in solutions
        ]
        return bounds[0] if len(bounds) == 1 else np.array(bounds)


class HeldOutPredictions(HeldOutValues):
    """Held-out predictions."""

    @described(HeldOutValues._leave_one_out)
    def loo_prediction(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """Return for each training sample the prediction of the model without it.

        ...

        Parameters
        ----------
        X
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        sample_weight, exact

        Returns
        -------
        predictions : ndarray of shape (n_samples,) or (n_samples, n_targets)
            As in `predict`.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.metrics import r2_score
        >>> from optimargin import LinearODMRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = LinearODMRegressor(C1=1e5).fit(X, y)
        >>> print(f"leave-one-out R2 {r2_score(y, model.loo_prediction()):.2f}")
        leave-one-out R2 0.49
        """
        return self._leave_one_out(X, y, sample_weight, exact)

    @described(HeldOutValues._leave_folds_out, HeldOutValues._leave_one_out)
    def kfold_prediction(
        self, cv=5, X=None, y=None, sample_weight=None, *, groups=None, exact=False
    ):
        """Return for each training sample the prediction of the model without its fold.

        ...

        Parameters
        ----------
        cv, X
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        sample_weight, groups, exact

        Returns
        -------
        predictions : ndarray of shape (n_samples,) or (n_samples, n_targets)

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.model_selection import KFold
        >>> from optimargin import LinearODMRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> folds = KFold(10, shuffle=True, random_state=0)
        >>> LinearODMRegressor().fit(X, y).kfold_prediction(folds).shape
        (442,)
        """
        return self._leave_folds_out(cv, X, y, sample_weight, groups, exact)
