"""Tuning without a grid: maximise a held-out score over continuous parameters.

For the ODM the parameters are x = (log2 C1, log2 C2/C1, D), penalties in units of the data, and,
for a radial kernel, the base-2 logarithm of its width in units of the mean distance; other
objectives have their own (`optimargin.objectives`). The score is that of a criterion
(`optimargin.selection.criteria`) of held-out decision values. For additive objectives these are, by
default, those of repeated, stratified folds in closed form, so that one evaluation costs about two
fits whatever the number of folds; else those of exact fits to given splits. Both are
differentiated exactly, by one adjoint solve per fold on the active set.

The score has several hills and, in closed form, small jumps where the active set changes.
So the search takes first looks at well-spread points, and climbs from the best of them within
bounds, by a quasi-Newton method where there is a gradient and by simplices where there is
none. First looks are cheap: at few samples, and with kernels at quadratic losses, which have no
active set to find and share all factors between classes. What they found is where the search of all
samples begins; of many samples, some make most of the way, and all of them the last steps. With
many classes or samples that search stays at quadratic losses, too.

The closed form keeps the active set of all samples, which makes it pessimistic at large
penalties. So the best points, and the best of those with a larger penalty, are judged once more: by
the closed form together with fits without each fold, where these are cheap. The best of them is
taken.
"""

import time
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass

import numpy as np

from optimargin._threads import one_blas_thread, one_thread
from optimargin._ties import ranking
from optimargin.kernels import gamma_of_width
from optimargin.selection.criteria import Criterion, SmoothAccuracy
from optimargin.selection.descents import APART, Evaluations, OutOfBudget
from optimargin.selection.parts import closed_form_part, exact_part
from optimargin.systems import Folds
from optimargin.tasks import Classification

N_FOLDS = 5
N_REPEATS = 3
_SMALL = 1500  # samples up to which points are so cheap that threads wait more than they work
_SMALL_LINEAR = 5000  # the same of linear models
N_FINALISTS = 3  # points that are judged once more
_LARGER = 2.0  # in log2 of the penalty, for the finalist that the closed form may underrate
_EXACT_UP_TO = 500  # samples up to which fits without each fold are cheap
_CHEAP_UP_TO = 300  # samples up to which a second descent is
_ALL_FOLDS_UP_TO = 200  # samples up to which these are the folds of all partitions
_LOOKS = 250  # samples that first looks are taken at, or
_LOOKS_PER_CLASS = 32  # so many per class,
_MOST_LOOKS = 600  # within this number
_LINEAR_LOOKS = 3000
_LOOKS_SHARE = 0.55  # of the evaluations
_ONE_REPEAT_FROM = 1000  # samples, which are enough for one partition to tell points apart:
_ONE_REPEAT_OF_TWO_FROM = 300  # fewer of two classes, where points take longest per sample
_EVERY_LOSS_UP_TO = 1.5e8  # sum of n_samples^3 up to which outputs have active sets of their own
_FEWEST = 20  # evaluations of a search with first looks of their own
_DESCENT = 12  # evaluations, at most, from one start
_MIDDLE_FROM = 1500  # samples from which most of the way is made on some of them:
_MIDDLE_SHARE = 0.25  # this share,
_MIDDLE = (1000, 5000)  # within these numbers;
_LAST = 3  # evaluations, at most, of all samples after that
_SHAPE = np.array([1.0, -2.0, 0.5])  # from the best quadratic loss to one with a band
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
        One minus the score of the guide.
    decision : ndarray of shape (n_held_out, n_outputs)
    """

    x: np.ndarray
    loss: float
    decision: np.ndarray


def search_threads(data):
    """Return the context of a search: threads of BLAS, of our own over folds, or none.

    With kernels BLAS stays in one thread: its matrices are small, and NumPy's and SciPy's threads
    wait for each other. Pairs of classes are solved side by side.
    """
    if not data.kernel.kind.is_linear:
        return one_blas_thread() if data.are_pairs or data.n_samples > _SMALL else one_thread()
    return one_thread() if data.n_samples <= _SMALL_LINEAR else nullcontext()


class HeldOutLoss:
    """One minus a held-out score, as a function of the parameters.

    Parameters
    ----------
    data : SelectionData
    splits : list of (train, test) or None
        None means closed-form repeated folds.
    random_state : RandomState
        Deals the samples out to the folds.
    guide : Criterion, default=None
        What is maximised; the smooth accuracy when not given.
    n_folds : int
    n_repeats : int, default=None
        Partitions into folds; by default three, of many samples one.
    bounds : ndarray of shape (n_parameters + 1, 2), default=None
        Of the parameters; the last row is for the width of a radial kernel. By default those
        of the objective.
    """

    def __init__(
        self,
        data,
        splits,
        random_state,
        guide: Criterion | None = None,
        n_folds=N_FOLDS,
        n_repeats=None,
        bounds=None,
    ):
        self.data = data
        self.guide = SmoothAccuracy() if guide is None else guide
        self.has_width = data.kernel.kind.has_width
        spread = bounds
        if bounds is None:
            kind = data.objective_type
            bounds = np.vstack([kind.bounds, WIDTH_BOUNDS])
            spread = bounds if kind.spread is None else np.vstack([kind.spread, WIDTH_BOUNDS])
        self.bounds = bounds if self.has_width else bounds[:-1]
        self.spread = spread[: len(self.bounds)]
        self.has_gradient = data.objective_type.has_gradient and self.guide.has_slope
        gamma = None
        if self.has_width:
            gamma = self._gamma(0.0)
        elif data.kernel.has_gamma:
            gamma = data.default_gamma()
        self.gamma = gamma
        self._folds: Folds | None = None
        self._used = np.flatnonzero(data.weight)
        if splits is None:
            n_folds = min(n_folds, self._used.size)
            if n_repeats is None:
                n_repeats = N_REPEATS if self._used.size < _one_repeat_from(data) else 1
            self._folds = Folds.stratified(
                data.strata[self._used], n_folds, n_repeats, random_state
            )
            self._use([closed_form_part(data, gamma, self._used, self._folds, random_state)])
        else:
            self._use([exact_part(data, gamma, *split) for split in splits])

    def _use(self, parts):
        """Hold out the samples of these parts."""
        self.parts = parts
        self.rows = np.concatenate([part.rows for part in parts])
        self.truth = self.data.truth(self.rows, "The held-out samples")

    def parameters(self, x):
        """Return the parameters of the objective and gamma, where the kernel has one, at `x`."""
        point = self.parameters_of_loss(x)
        if self.has_width:
            point["gamma"] = self._gamma(x[-1])
        elif self.gamma is not None:
            point["gamma"] = self.gamma
        return point

    def parameters_of_loss(self, x):
        """Return the parameters of the objective at `x`."""
        return self.data.objective_type.at(x, self.data.unit)

    @property
    def quadratic(self):
        """Coordinates of quadratic losses, NaN where they may have any value, or None."""
        of_objective = self.data.objective_type.quadratic
        if of_objective is None or not self.has_width:
            return None
        return np.append(of_objective, np.nan)

    @property
    def is_cheap(self):
        """Whether samples are so few that a second descent costs next to nothing."""
        return self._used.size <= _CHEAP_UP_TO

    @property
    def stays_quadratic(self):
        """Whether active sets of all outputs would cost too much, or tell too little.

        Pairs of classes have few samples each, whose closed form jumps where active sets change.
        """
        n_asked = np.array(self.data.n_asked, dtype=np.float64)
        if self.quadratic is None or n_asked.size == 1:
            return False
        return self.data.are_pairs or np.sum(n_asked**3) > _EVERY_LOSS_UP_TO

    def looks(self, random_state):
        """Return the loss of first looks: at few samples, or at quadratic losses; or None.

        Parameters
        ----------
        random_state : RandomState
            Draws samples and folds.
        """
        if self._folds is None or not self.has_gradient:
            return None
        n_classes = np.unique(self.data.strata).size
        n_looks = max(_LOOKS, min(_LOOKS_PER_CLASS * n_classes, _MOST_LOOKS))
        if self.data.n_samples <= n_looks:
            return self if self.quadratic is not None else None
        n_looks = n_looks if self.has_width else _LINEAR_LOOKS
        if self.data.n_samples <= n_looks:
            return None
        return HeldOutLoss(self.data.looks(n_looks), None, random_state, self.guide)

    def middle(self, random_state):
        """Return the loss of most of the descent, that of some of many samples; or None.

        Parameters
        ----------
        random_state : RandomState
            Draws folds.
        """
        n_samples = self.data.n_samples
        if not (self._folds and self.has_gradient and self.has_width and n_samples > _MIDDLE_FROM):
            return None
        some = self.data.looks(int(np.clip(_MIDDLE_SHARE * n_samples, *_MIDDLE)))
        return HeldOutLoss(some, None, random_state, self.guide)

    def judge(self, finalists):
        """Return the loss of finalists: fits without the same folds count as well, if cheap.

        Not where the closed form is exact anyway.

        Parameters
        ----------
        finalists : list of ndarray of shape (n_parameters,)
        """
        objectives = [self.data.make_objective(**self.parameters_of_loss(x)) for x in finalists]
        is_exact = all(objective.is_quadratic for objective in objectives)
        if self._folds is None or self._used.size > _EXACT_UP_TO or is_exact:
            return self
        splits = [
            (np.delete(self._used, left_out), self._used[left_out])
            for _, left_out in self._folds.models()
        ]
        if self._used.size > _ALL_FOLDS_UP_TO:
            splits = splits[: self._folds.n_folds]  # those of one partition
        strata = self.data.strata
        n_strata = np.unique(strata).size
        if any(np.unique(strata[train]).size < n_strata for train, _ in splits):
            return self  # a fold holds all samples of a class
        judge = copy(self)
        judge._use([*self.parts, *(exact_part(self.data, self.gamma, *split) for split in splits)])
        return judge

    def finalists(self, evaluations, scores):
        """Return the coordinates of points to be judged once more, to two digits.

        These are the best points that are not alike, and the best one of a larger penalty. Two
        digits are finer than the loss can tell apart, and hide what rounding does to descents.
        """
        apart = APART * np.ptp(self.bounds, axis=1)
        ranked = [each.x for each in self.ranked(evaluations, scores)]
        larger = [x for x in ranked if x[0] > ranked[0][0] + _LARGER]
        chosen: list[np.ndarray] = []
        for x in [ranked[0], *larger[:1], *ranked[1:]]:
            x = np.clip(np.round(x, 2), *self.bounds.T)
            if all((np.abs(x - other) > apart).any() for other in chosen):
                chosen.append(x)
        return chosen[:N_FINALISTS]

    def ranked(self, evaluations, scores=None):
        """Yield evaluations, the best first, by scores or by their losses; see `_ties`."""
        scores = [-each.loss for each in evaluations] if scores is None else scores
        kind = self.data.objective_type
        found = ranking(scores, lambda k: kind.roughness(self.parameters(evaluations[k].x)))
        return (evaluations[k] for k in found)

    def _gamma(self, log2_width):
        return float(gamma_of_width(self.data.mean_distance * 2.0**log2_width))

    def __call__(self, x, gradient=True):
        """Return the evaluation at `x` and the gradient, or None."""
        objective_type = self.data.objective_type
        objective = self.data.make_objective(**self.parameters_of_loss(x))
        gradient = gradient and self.has_gradient
        kernel = self.data.kernel.at(self._gamma(x[-1])) if self.has_width else None
        found = [part.held_out(objective, kernel, gradient) for part in self.parts]
        decision = np.concatenate([_flat(held_out.decision) for held_out in found])
        score, slope = self.guide.score_and_slope(decision, self.truth)
        evaluation = Evaluation(np.array(x), 1.0 - score, decision)
        if not gradient:
            return evaluation, None
        ends = np.cumsum([part.rows.size for part in self.parts])[:-1]
        by_loss, by_width = 0.0, 0.0
        for part, held_out, some in zip(self.parts, found, np.split(slope, ends), strict=True):
            of_part = part.derivatives(held_out, some)
            by_loss, by_width = by_loss + of_part[0], by_width + of_part[1]
        by_x = objective_type.chain(by_loss)
        if self.has_width:
            by_x = np.append(by_x, _LN2 * by_width)
        return evaluation, -by_x


def _one_repeat_from(data):
    """Return the number of samples from which folds are not repeated."""
    are_two = isinstance(data.task, Classification) and len(data.targets) == 1
    return _ONE_REPEAT_OF_TWO_FROM if are_two else _ONE_REPEAT_FROM


def _flat(decision):
    """Return decision values with one row per held-out sample."""
    return decision.reshape(-1, decision.shape[-1])


class StopSearch(Exception):
    """Raised by one who visits evaluations, to end the search."""


def search(
    loss,
    max_evals,
    random_state,
    visit=None,
    looks=None,
    middle=None,
    max_time=np.inf,
    expect=None,
    rtol=5e-4,
):
    """Minimise a `HeldOutLoss` within its bounds.

    Parameters
    ----------
    loss : HeldOutLoss
    max_evals : int
        How many points may be evaluated, first looks included.
    random_state : RandomState
        Places the first, spread points (a scrambled Sobol sequence).
    visit : callable, default=None
        Called with each `Evaluation` of `loss`, first looks excepted.
    looks : HeldOutLoss, default=None
        The loss of first looks (`HeldOutLoss.looks`). Without, they are taken at `loss` itself.
    middle : HeldOutLoss, default=None
        The loss of most of the descent (`HeldOutLoss.middle`). Without, it is `loss` itself.
    max_time : float
        In seconds, after which no evaluation is begun.
    expect : callable, default=None
        Called with the largest number of evaluations to come, when first looks have been taken.
    rtol : float
        A descent ends when a step lowers the loss by less than this share of it.

    Returns
    -------
    evaluations : list of Evaluation
        In the order in which they were made, without first looks.
    """
    now = time.monotonic()
    anywhere = np.full(len(loss.bounds), np.nan)
    if looks is None or max_evals < _FEWEST:
        every = Evaluations(loss, max_evals, now + max_time, visit)
        _look_around(every, anywhere, random_state, rtol)
        return every.all
    fixed = anywhere if loss.quadratic is None else loss.quadratic
    some = Evaluations(looks, round(_LOOKS_SHARE * max_evals), now + _LOOKS_SHARE * max_time)
    _look_around(some, fixed, random_state, rtol)
    starts, n_left = some.best(2, hills=True), max_evals - len(some.all)
    if middle is None:
        return climb(loss, starts, n_left, visit, now + max_time, expect, rtol)
    found = climb(middle, starts, n_left - _LAST, deadline=now + max_time, rtol=rtol)
    if expect is not None:
        expect(_LAST + N_FINALISTS)
    every = Evaluations(loss, _LAST, now + max_time, visit)
    within = loss.quadratic if loss.stays_quadratic else anywhere
    _climb_from(every, [next(middle.ranked(found)).x], within, 1, rtol)
    return every.all


def climb(loss, starts, max_evals, visit=None, deadline=np.inf, expect=None, rtol=5e-4):
    """Descend from the best of some points, or from a point beside the first of them.

    Parameters
    ----------
    loss : HeldOutLoss
    starts : list of ndarray of shape (n_parameters,)
        The best ones first; those of quadratic losses, where the loss has any.
    max_evals : int
        How many points may be evaluated.
    visit, expect, rtol
        As in `search`.
    deadline : float
        Of the clock of `time.monotonic`, after which no evaluation is begun.

    Returns
    -------
    evaluations : list of Evaluation
        In the order in which they were made.
    """
    starts = list(starts)
    within = np.full(len(loss.bounds), np.nan)
    if loss.stays_quadratic:
        within = loss.quadratic
    elif loss.quadratic is not None:
        shaped = starts[0].copy()
        shaped[:3] += _SHAPE
        starts.insert(1, np.clip(shaped, *loss.bounds.T))
    n_descents = 2 if loss.is_cheap else 1
    n_left = min(max_evals, len(starts) + n_descents * _DESCENT)
    if expect is not None:
        expect(n_left + N_FINALISTS)
    every = Evaluations(loss, n_left, deadline, visit)
    _climb_from(every, starts, within, n_descents, rtol)
    return every.all


def _look_around(evaluations, fixed, random_state, rtol):
    """Look at spread points, and descend from the best two."""
    n_spread = min(max(round(0.4 * evaluations.max_evals), 1), evaluations.max_evals)
    try:
        evaluations.spread(n_spread, fixed, random_state)
        starts = evaluations.best(2, hills=True)
        for k, start in enumerate(starts):
            share = evaluations.n_left // (len(starts) - k)
            if share > 0:
                evaluations.descend(start, share, fixed, rtol)
    except OutOfBudget:
        pass


def _climb_from(evaluations, starts, fixed, n_descents, rtol):
    """Descend from the best of some points."""
    try:
        for x in starts:
            evaluations(x, gradient=True)
        for k, start in enumerate(evaluations.best(n_descents)):
            share = evaluations.n_left // (n_descents - k)
            if share > 0:
                evaluations.descend(start, share, fixed, rtol)
    except OutOfBudget:
        pass
