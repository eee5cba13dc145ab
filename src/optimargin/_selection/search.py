"""Tuning without a grid: minimise a smooth held-out loss over continuous parameters.

For the ODM the parameters are x = (log2 C1, log2 C2/C1, D) and, for the RBF kernel, the base-2
logarithm of its width in units of the mean distance; the LDM has its own
(`optimargin._selection.machines`). The loss is `smooth_loss` of held-out decision values. For
the ODM these are, by default, those of repeated, stratified folds in closed form, so that one
evaluation costs about two fits whatever the number of folds; else those of exact fits to given
splits. Both are differentiated exactly, by one adjoint solve a fold on the active set.

The loss has several valleys and, in closed form, small jumps where the active set changes.
So the search looks at well-spread points first, then descends from the best of them within
bounds, by a quasi-Newton method where there is a gradient and by simplices where there is
none, and takes the best point it has seen.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from optimargin._selection.learners import Folds
from optimargin._selection.scoring import SHARPNESS, smooth_loss

N_FOLDS = 5
N_REPEATS = 3
_EDGE = 0.15  # of the first simplex, in widths of the bounds
_LN2 = float(np.log(2.0))
# log2 of the width in mean distances
WIDTH_BOUNDS = (-3.5, 2.5)


@dataclass(frozen=True)
class Evaluation:
    """One point of the search.

    Attributes
    ----------
    x : ndarray of shape (n_parameters,)
    loss : float
    decision : ndarray of shape (n_held_out, n_problems)
    """

    x: np.ndarray
    loss: float
    decision: np.ndarray


class HeldOutLoss:
    """The smooth held-out loss as a function of the parameters.

    Parameters
    ----------
    training : TrainingSet
    splits : list of (train, test) or None
        None means closed-form repeated folds.
    random_state : RandomState
        Deals the samples out to the folds.
    n_folds, n_repeats : int
    sharpness : float
        See `smooth_loss`.
    bounds : ndarray of shape (n_parameters + 1, 2), default=None
        Of the parameters; the last row is for the width of the RBF kernel. By default those
        of the machine.
    """

    def __init__(
        self,
        training,
        splits,
        random_state,
        n_folds=N_FOLDS,
        n_repeats=N_REPEATS,
        sharpness=SHARPNESS,
        bounds=None,
    ):
        self.training = training
        self.sharpness = sharpness
        self.has_width = training.kernel == "rbf"
        if bounds is None:
            bounds = np.vstack([training.machine.bounds, WIDTH_BOUNDS])
        self.bounds = bounds if self.has_width else bounds[:-1]
        self.has_gradient = training.machine.has_closed_form
        gamma = None
        if self.has_width:
            gamma = self._gamma(0.0)
        elif training.has_gamma:
            gamma = training.default_gamma()
        self.gamma = gamma
        if splits is None:
            used = np.flatnonzero(training.weight)
            n_folds = min(n_folds, used.size)
            folds = Folds.stratified(training.encoded[used], n_folds, n_repeats, random_state)
            self.parts: list = [_ClosedFormPart(training, gamma, used, folds)]
        else:
            self.parts = [_ExactPart(training, gamma, *split) for split in splits]
        self.rows = np.concatenate([part.rows for part in self.parts])
        self._encoded = training.encoded[self.rows]
        weight = training.scoring_weight[self.rows]
        if not weight.any():
            raise ValueError("The held-out samples have zero weight: nothing can be scored.")
        self._weight = weight / weight.sum()

    def parameters(self, x):
        """Return the machine's parameters and gamma, where the kernel has one, at `x`."""
        point = self.training.machine.at(x)
        if self.has_width:
            point["gamma"] = self._gamma(x[-1])
        elif self.gamma is not None:
            point["gamma"] = self.gamma
        return point

    def rounded(self, x):
        """Return `x` to two digits, which is finer than the loss can tell apart."""
        return np.clip(np.round(x, 2), *self.bounds.T)

    def _gamma(self, log2_width):
        return float(1 / (2 * (self.training.mean_distance * 2.0**log2_width) ** 2))

    def __call__(self, x, gradient=True):
        """Return the evaluation at `x` and the gradient, or None."""
        point = self.parameters(x)
        values = [point[name] for name in self.training.machine.paper]
        for part in self.parts:
            if self.has_width:
                part.change_width(point["gamma"], gradient)
            part.learner.fit(*values)
        decision = np.concatenate([part.decision() for part in self.parts])
        loss, slope = smooth_loss(decision, self._encoded, self._weight, self.sharpness)
        evaluation = Evaluation(np.array(x), loss, decision)
        if not gradient:
            return evaluation, None
        ends = np.cumsum([part.rows.size for part in self.parts])[:-1]
        total = sum(
            part.gradient(of_part)
            for part, of_part in zip(self.parts, np.split(slope, ends), strict=True)
        )
        by_x = total * np.array([_LN2, _LN2, 1.0, _LN2])
        return evaluation, by_x[: len(x)]


class _ClosedFormPart:
    """All samples, held out fold by fold in closed form."""

    def __init__(self, training, gamma, used, folds):
        self.folds = folds
        self.rows = np.tile(used, folds.fold.shape[0])
        self.learner = training.learner(gamma)
        self._distances = None
        if training.kernel == "rbf":
            whole = used.size == training.distances.shape[0]
            self._distances = (
                training.distances if whole else training.distances[np.ix_(used, used)]
            )

    def change_width(self, gamma, gradient):
        K = self._distances * -gamma
        np.exp(K, out=K)
        slope = K * self._distances * (2 * gamma) if gradient else None
        self.learner.change_kernel(K, slope=slope)

    def decision(self):
        values = self.learner.leave_folds_out(self.folds)
        return values.reshape(-1, values.shape[-1])

    def gradient(self, slope):
        shape = (*self.folds.fold.shape, slope.shape[-1])
        return self.learner.fold_gradient(self.folds, slope.reshape(shape))


class _ExactPart:
    """The samples of one split, held out by fitting without them."""

    def __init__(self, training, gamma, train, test):
        self.rows = test
        self.learner = training.learner(gamma, train, test)
        if training.kernel == "rbf":
            kept = train[training._weights(train, training.sample_weight) > 0]
            self._distances = training.distances[np.ix_(kept, kept)]
            self._test_distances = training.distances[np.ix_(test, kept)]

    def change_width(self, gamma, gradient):
        K, K_test = np.exp(self._distances * -gamma), np.exp(self._test_distances * -gamma)
        slopes: tuple = ()
        if gradient:
            slopes = (
                K * self._distances * (2 * gamma),
                K_test * self._test_distances * (2 * gamma),
            )
        self.learner.change_kernel(K, K_test, *slopes)

    def decision(self):
        return self.learner.predict_test()

    def gradient(self, slope):
        return self.learner.test_gradient(slope)


class _OutOfBudget(Exception):
    """Ends a descent when the evaluations are used up."""


def search(loss, max_evals, random_state, visit=None, n_descents=2, spread_share=0.4, rtol=1e-4):
    """Minimise a `HeldOutLoss` within its bounds.

    Parameters
    ----------
    loss : HeldOutLoss
    max_evals : int
        How many points may be evaluated.
    random_state : RandomState
        Places the first, spread points (a scrambled Sobol sequence).
    visit : callable, default=None
        Called with each `Evaluation`.
    n_descents : int
        How many of the spread points a descent starts from.
    spread_share : float
        The share of the evaluations that goes to spread points.
    rtol : float
        A descent ends when a step lowers the loss by less than this share of it.

    Returns
    -------
    evaluations : list of Evaluation
        In the order in which they were made.
    """
    bounds = loss.bounds
    evaluations: list[Evaluation] = []

    def evaluate(x, gradient):
        if len(evaluations) >= max_evals:
            raise _OutOfBudget
        evaluation, slope = loss(x, gradient)
        evaluations.append(evaluation)
        if visit is not None:
            visit(evaluation)
        return evaluation.loss, slope

    n_spread = min(max(round(spread_share * max_evals), 1), max_evals)
    sobol = qmc.Sobol(len(bounds), rng=np.random.default_rng(random_state.randint(2**31)))
    spread = qmc.scale(sobol.random(1 << max(n_spread - 1, 0).bit_length()), *bounds.T)
    for x in spread[:n_spread]:
        evaluate(x, gradient=False)
    starts = sorted(evaluations, key=lambda evaluation: evaluation.loss)[:n_descents]
    # Scaled to the unit cube, so that one step length suits all parameters.
    low, width = bounds[:, 0], np.ptp(bounds, axis=1)

    def in_cube(z):
        value, slope = evaluate(low + z * width, gradient=loss.has_gradient)
        return (value, slope * width) if loss.has_gradient else value

    for k, start in enumerate(starts):
        share = (max_evals - len(evaluations)) // (len(starts) - k)
        if share < 1:
            break
        try:
            _descend(in_cube, (start.x - low) / width, share, rtol, loss.has_gradient)
        except _OutOfBudget:
            break
    return evaluations


def _descend(function, start, max_evals, rtol, has_gradient):
    """Minimise within the unit cube."""
    bounds = [(0.0, 1.0)] * start.size
    if has_gradient:
        options = {"maxfun": max_evals, "maxls": 8, "ftol": rtol, "gtol": 1e-4}
        minimize(function, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return
    # From the start towards the middle of the cube along each axis.
    simplex = np.vstack([start, start + np.diag(np.where(start < 0.5, _EDGE, -_EDGE))])
    options = {"initial_simplex": simplex, "maxfev": max_evals, "xatol": 0.01, "fatol": rtol}
    minimize(function, start, method="Nelder-Mead", bounds=bounds, options=options)
