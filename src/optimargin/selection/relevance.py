"""Widths per feature of a radial kernel, found by the gradient of the held-out loss.

From a tuned common width, the logarithms of the widths of all features and the penalty descend
together (L-BFGS) on the closed-form fold loss of `optimargin.selection.search`: at quadratic
losses, where all classes share their factors, since the loss matters little for the widths.
With Z the rows divided by their widths, s_ab the squared distances of Z and K_ab = k(s_ab), a
function of held-out decision values has derivatives G_ab by K_ab: sums of adjoints times
coefficients over all models without a fold. With W = G k'(s) + (G k'(s))',

    d loss / d log gamma_j = sum_ab G_ab k'(s_ab) (z_aj - z_bj)^2
                           = sum_a z_aj^2 (sum_b W_ab) - sum_a z_aj (W Z)_aj,

for all features together one product of matrices.

As many parameters as features fit chance, too. Two restraints: a penalty on widths that differ,

    PENALTY / n_samples * sum_j (log2 width_j - mean)^2,

which is a normal prior and so counts less the more samples there are per feature; and the widths
are taken only where fits confirm them on samples that took no part in finding them. Other folds of
the same samples cannot tell, since all of them were seen: so the descent is repeated without each
of three outer folds.

Most data gain nothing by widths, and those that do gain much. So a few steps from each half of some
hundred samples, scored on the other half, tell whether the rest is worth its time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from optimargin._ties import TOLERANCE, exceeds, largest, place_of_best
from optimargin.kernels import gamma_of_width, squared_distances
from optimargin.selection.search import HeldOutLoss, climb
from optimargin.systems import Folds

N_FOLDS = 5
N_REPEATS = 2
N_OUTER = 3  # folds that confirm
N_BLOCKS = 3  # of each outer fold: the spread of their gains says how sure the mean gain is
PENALTY = 0.1
MARGIN = 1.0  # standard errors by which the gain must exceed zero
MAX_SAMPLES = 500  # that widths are found on
MAX_WIDTHS = 300  # features beyond the most promising ones share a width
HALF = 200  # samples of each half that tells whether widths are worth looking for
PROMISING = (0.01, 0.04)  # gains, as shares of the loss: of the first half, and of both on average
_STEPS = 25  # evaluations of a descent
_FEW_STEPS = 10  # where it only has to tell which start, or whether widths, promise more
_LARGEST_DENSE = 20_000_000  # elements of sparse data that are made dense
_BOUND = 5.0  # of log2 width, from the common one
_MAX_LAST = 15  # evaluations with all samples
_RTOL = 1e-3  # fall of the loss by a step, relative to itself, below which a descent ends
_STEP = 0.3  # first step, in log2 width
_SHARE = 0.03  # first step of the other coordinates, in widths of their bounds
_NEARLY_LINEAR = 1.0  # log2 of a common width, in mean distances
_LN2 = float(np.log(2.0))


@dataclass(frozen=True)
class Widths:
    """Confirmed widths.

    Attributes
    ----------
    x : ndarray of shape (n_parameters,)
        Coordinates of the objective.
    gamma : ndarray of shape (n_features,)
    score : float
        Of the guide, for the held-out decision values.
    rows : ndarray of shape (n_held_out,)
        Samples that were held out.
    decision : ndarray of shape (n_held_out, n_outputs)
        Their decision values for models whose widths, too, were found without them.
    """

    x: np.ndarray
    gamma: np.ndarray
    score: float
    rows: np.ndarray
    decision: np.ndarray


def can_find_widths(data, guide):
    """Return whether widths per feature can be found for these data and this criterion."""
    n_samples = min(data.n_samples, MAX_SAMPLES)
    return (
        data.kernel.kind.has_width
        and data.objective_type.has_gradient
        and guide.has_slope
        and data.X.shape[1] > 1
        and (not issparse(data.X) or n_samples * data.X.shape[1] <= _LARGEST_DENSE)
    )


class WidthsLoss:
    """The closed-form fold loss of some samples, as a function of widths per feature.

    Parameters
    ----------
    data : SelectionData
    rows : ndarray of shape (n_rows,)
        The samples.
    gamma : float or ndarray of shape (n_features,)
        Where widths start.
    guide : Criterion
        One that `has_slope`.
    random_state : RandomState
        Deals the samples out to folds.
    n_repeats : int
        Partitions into folds.
    """

    def __init__(self, data, rows, gamma, guide, random_state, n_repeats=N_REPEATS):
        self.data, self.guide = data, guide
        self.rows, targets = data.part_targets(rows)
        # Penalties per sample stay what they are where samples are left out.
        self._unit = data.unit * float(data.weight[self.rows].sum())
        self.n_loss = len(data.objective_type.bounds)
        strata = data.strata[self.rows]
        n_folds = min(N_FOLDS, self.rows.size)
        self._folds = Folds.stratified(strata, n_folds, n_repeats, random_state)
        self._truth = data.truth(np.tile(self.rows, n_repeats))
        self._kernel = data.kernel.at(1.0)
        X = _dense(data.X[self.rows])
        self._center = X.mean(axis=0)
        self.n_features = X.shape[1]
        self._root = np.sqrt(gamma)
        self._rows = self._root * (X - self._center)
        K = self._kernel.of_distances(squared_distances(self._rows))
        self._refitter = data.gram_refitter(K, targets)

    def _solve(self, x):
        Z = self._rows * 2.0 ** -x[self.n_loss :]
        squares = squared_distances(Z)
        K = self._kernel.of_distances(squares)
        self._refitter.change_kernel(K)
        objective_type = self.data.objective_type
        parameters = objective_type.at(x[: self.n_loss], self._unit)
        return Z, squares, self._refitter.solve(self.data.make_objective(**parameters))

    def __call__(self, x):
        """Return the loss at ``(coordinates of the objective, log2 widths)`` and its gradient."""
        Z, squares, solved = self._solve(x)
        held_out = solved.leave_folds_out(self._folds)
        shape = held_out.decision.shape
        score, slope = self.guide.score_and_slope(
            held_out.decision.reshape(-1, shape[-1]), self._truth
        )
        found = held_out.derivatives(slope.reshape(shape))
        G = found.by_kernel(len(squares))
        G *= self._kernel.profile_slope(squares)
        W = G + G.T
        by_log_gamma = W.sum(axis=1) @ Z**2 - np.einsum("ij,ij->j", Z, W @ Z)
        by_loss = self.data.objective_type.chain(found.by_loss)
        # gamma falls with the square of the width, and the loss is one minus the score
        return 1.0 - score, np.concatenate([-by_loss, 2 * _LN2 * by_log_gamma])

    def decide(self, x, rows):
        """Return the decision values of other samples for the model of all samples at `x`."""
        Z, _, solved = self._solve(x)
        new = self._root * (_dense(self.data.X[rows]) - self._center) * 2.0 ** -x[self.n_loss :]
        K = self._kernel.of_distances(squared_distances(new, Z))
        return K @ solved.coef.T + solved.intercept

    def groups(self, x):
        """Return a group per feature: its own where the gradient is large, else a common one."""
        if self.n_features <= MAX_WIDTHS:
            return np.arange(self.n_features)
        slope = np.abs(self(x)[1][self.n_loss :])
        groups = np.full(self.n_features, MAX_WIDTHS)
        groups[largest(slope, MAX_WIDTHS)] = np.arange(MAX_WIDTHS)
        return groups


def descend(loss, start, tick=lambda: None, *, together=False, max_evals=_STEPS):
    """Return the point of the smallest penalised loss that a descent saw, and that loss.

    Of the objective, coordinates that are those of quadratic losses stay.

    Parameters
    ----------
    loss : WidthsLoss
    start : ndarray of shape (n_parameters + n_features,)
        Coordinates of the objective, and log2 widths in units of those of the loss.
    tick : callable
        Called before each evaluation.
    together : bool
        Whether all widths change by the same factor.
    max_evals : int

    Returns
    -------
    x : ndarray of shape (n_parameters + n_features,)
    value : float
    """
    n_loss, n_samples = loss.n_loss, loss.rows.size
    bounds = loss.data.objective_type.bounds
    quadratic = loss.data.objective_type.quadratic
    is_free = np.ones(n_loss, dtype=bool) if quadratic is None else np.isnan(quadratic)
    groups = np.zeros(loss.n_features, dtype=np.intp) if together else loss.groups(start)
    n_groups = groups.max() + 1
    step = np.concatenate([_SHARE * np.ptp(bounds, axis=1), np.full(n_groups, _STEP)])
    best: dict[str, Any] = {"value": np.inf, "x": None}

    def point(u):
        moved = u * step
        return start + np.concatenate([moved[:n_loss], moved[n_loss:][groups]])

    def evaluate(u):
        tick()
        at = point(u)
        value, slope = loss(at)
        apart = at[n_loss:] - at[n_loss:].mean()
        value += PENALTY / n_samples * (apart @ apart)
        slope[n_loss:] += 2 * PENALTY / n_samples * apart
        if best["x"] is None or exceeds(best["value"], value):
            best.update(value=value, x=at)
        by_group = np.bincount(groups, slope[n_loss:], minlength=n_groups)
        return value, np.concatenate([slope[:n_loss] * is_free, by_group]) * step

    first = np.linalg.norm(evaluate(np.zeros(step.size))[1])
    if first <= _RTOL * abs(best["value"]):
        return start, best["value"]
    # In units in which the first step, along the gradient, is of length one.
    low = np.concatenate([bounds[:, 0] - start[:n_loss], np.full(n_groups, -_BOUND)]) / step
    high = np.concatenate([bounds[:, 1] - start[:n_loss], np.full(n_groups, _BOUND)]) / step

    def scaled(u):
        value, slope = evaluate(u)
        return value / first, slope / first

    minimize(
        scaled,
        np.zeros(step.size),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"maxfun": max_evals, "maxiter": 25, "maxls": 10, "ftol": _RTOL, "gtol": 1e-7},
    )
    return best["x"], best["value"]


def find_widths(
    tuned, x, decision, random_state, tick=lambda: None, *, at_once=False
) -> Widths | None:
    """Return widths per feature where fits without each fold confirm them, else None.

    They are found and confirmed on at most `MAX_SAMPLES`; then the coordinates of the objective
    and a common factor of the widths follow from all samples. Where these are many, those that
    widths were not found on have to confirm them as well.

    Parameters
    ----------
    tuned : HeldOutLoss
        Of a common width, for all samples.
    x : ndarray of shape (n_parameters + 1,)
        The tuned point.
    decision : ndarray of shape (n_held_out, n_outputs)
        Held-out decision values at that point.
    random_state : RandomState
    tick : callable
        Called before each evaluation.
    at_once : bool
        Whether to look for widths without asking first whether they promise anything.
    """
    data, guide = tuned.data, tuned.guide
    gamma = tuned.parameters(x)["gamma"]
    x = _quadratic(data, x[:-1])
    if not (at_once or _promise(data, x, gamma, guide, random_state, tick)):
        return None
    every, data = data, data.sample(MAX_SAMPLES, random_state)
    used = np.flatnonzero(data.weight)
    if used.size < 2 * N_OUTER * N_BLOCKS:
        return None
    strata = data.strata[used]
    outer = Folds.stratified(strata, N_OUTER, 1, random_state).fold[0]
    start = _start(data, used, x, gamma, guide, random_state, tick)
    losses, widths = [], []
    before, after = np.empty((2, used.size, len(data.targets)))
    gains: list[float] = []
    for k in range(N_OUTER):
        kept, left_out = used[outer != k], outer == k
        if _lacks_a_class(data, kept):
            return None
        loss = WidthsLoss(data, kept, gamma, guide, random_state)
        found, _ = descend(loss, start, tick)
        before[left_out] = loss.decide(_common(x, data), used[left_out])
        after[left_out] = loss.decide(found, used[left_out])
        losses.append(loss)
        widths.append(found[loss.n_loss :])
        for block in range(N_BLOCKS):
            some = np.flatnonzero(left_out)[block::N_BLOCKS]
            new, old = (_score(guide, data, used, values, some) for values in (after, before))
            gains.append(new - old)
        # Scores of guides are of the order of one, and so is what rounding adds to them.
        if k > 0 and np.mean(gains) <= TOLERANCE:
            return None  # the other folds would have to make up for it
    if np.mean(gains) <= MARGIN * np.std(gains, ddof=1) / np.sqrt(len(gains)):
        return None
    loss = WidthsLoss(data, used, gamma, guide, random_state)
    found, _ = descend(loss, start, tick)
    gammas = gamma * 4.0 ** -found[loss.n_loss :]
    last, factor, on_all = _last_steps(
        every, found[: loss.n_loss], gammas, guide, random_state, tick
    )
    if every.n_samples >= 2 * MAX_SAMPLES:
        common = tuned, decision
        return _confirmed_by_others(every, data.rows, common, on_all, last, gammas * factor, guide)
    for k, (of_fold, found) in enumerate(zip(losses, widths, strict=True)):
        point = np.concatenate([last, found - 0.5 * np.log2(factor)])
        after[outer == k] = of_fold.decide(point, used[outer == k])
    return Widths(
        last,
        gammas * factor,
        float(np.mean([_score(guide, data, used, after, outer == k) for k in range(N_OUTER)])),
        data.rows[used],
        after,
    )


def _confirmed_by_others(every, drawn, common, found, x, gamma, guide):
    """Return widths where they help samples that they were not found on, else None.

    Parameters
    ----------
    every : SelectionData
        All samples.
    drawn : ndarray
        Those that widths were found on, as in `SelectionData.rows`.
    common, found : pair of (HeldOutLoss, ndarray)
        With all samples: of the tuned common width, and of the widths; and decision values.
    x, gamma, guide
        See `Widths` and `find_widths`.
    """
    scores = []
    for loss, decision in (common, found):
        rows = loss.rows
        others = np.flatnonzero(~np.isin(every.rows[rows], drawn))
        scores.append(guide.score(decision[others], every.truth(rows[others])))
    if not exceeds(scores[1], scores[0]):
        return None
    return Widths(x, gamma, scores[1], every.rows[rows[others]], decision[others])


def _promise(data, x, gamma, guide, random_state, tick):
    """Return whether the widths of each half of some samples help the other half."""
    data = data.sample(2 * HALF, random_state)
    used = np.flatnonzero(data.weight)
    half = Folds.stratified(data.strata[used], 2, 1, random_state).fold[0]
    gains: list[float] = []
    for k, least in enumerate(PROMISING):
        kept, others = used[half == k], used[half != k]
        if kept.size < N_FOLDS or _lacks_a_class(data, kept) or _lacks_a_class(data, others):
            return False
        loss = WidthsLoss(data, kept, gamma, guide, random_state, n_repeats=1)
        common, _ = descend(loss, _common(x, data), tick, together=True, max_evals=_FEW_STEPS // 2)
        _, found = _lowest(loss, _starts(data, x, gamma), tick, _FEW_STEPS)
        truth = data.truth(others)
        old, new = (guide.score(loss.decide(at, others), truth) for at in (common, found))
        gains.append((new - old) / max(1.0 - old, np.finfo(float).tiny))
        if np.mean(gains) <= least:
            return False
    return True


def _last_steps(data, x, gamma, guide, random_state, tick):
    """Return coordinates of the objective, and a factor of gamma, that suit all samples.

    With its features divided by their widths, the data have a common width again. The loss of that,
    and its decision values, are returned as well.
    """
    scaled = data.scaled(np.sqrt(gamma))
    loss = HeldOutLoss(scaled, None, random_state, guide)
    of_one = 0.5 * np.log2(gamma_of_width(scaled.mean_distance))  # where gamma is one
    start = np.clip(np.append(x, of_one), *loss.bounds.T)
    middle = loss.middle(random_state)  # some of many samples go all the way
    evaluations = climb(middle or loss, [start], _MAX_LAST, lambda evaluation: tick())
    best = next(loss.ranked(evaluations))
    if middle is not None:
        best, _ = loss(best.x, gradient=False)
    return best.x[:-1], loss.parameters(best.x)["gamma"], (loss, best.decision)


def _quadratic(data, x):
    """Return coordinates of the objective where it is quadratic, if it is anywhere."""
    fixed = data.objective_type.quadratic
    return x if fixed is None else np.where(np.isnan(fixed), x, fixed)


def _common(x, data, log2_width=0.0):
    """Return the point of a common width."""
    return np.concatenate([x, np.full(data.X.shape[1], log2_width)])


def _starts(data, x, gamma):
    """Return where descents start: at the tuned point, and maybe at the default one.

    Among features that say nothing, the best common width may be so large that the model is nearly
    linear. No small change of widths leads from there to a kernel that is not.
    """
    starts = [_common(x, data)]
    default = data.objective_type.default_x
    away = 0.5 * np.log2(gamma_of_width(data.mean_distance) / gamma)
    if default is not None and exceeds(away, _NEARLY_LINEAR):  # widths have two digits
        starts.append(_common(_quadratic(data, default), data, -away))
    return starts


def _lowest(loss, starts, tick, max_evals):
    """Return the number of the descent that ends lowest, of ties the first, and its end."""
    descents = [descend(loss, start, tick, max_evals=max_evals) for start in starts]
    k = place_of_best([-value for _, value in descents])
    return k, descents[k][0]


def _start(data, used, x, gamma, guide, random_state, tick):
    """Return the start that leads lowest."""
    starts = _starts(data, x, gamma)
    if len(starts) == 1:
        return starts[0]
    loss = WidthsLoss(data, used, gamma, guide, random_state)
    return starts[_lowest(loss, starts, tick, _FEW_STEPS)[0]]


def _lacks_a_class(data, rows):
    return np.unique(data.strata[rows]).size < np.unique(data.strata[data.weight > 0]).size


def _score(guide, data, used, decision, some):
    """Return the score of some held-out samples."""
    return guide.score(decision[some], data.truth(used[some]))


def _dense(X) -> Any:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
