"""One minus a held-out score, as a function of parameters, with its gradient.

For the ODM the parameters are x = (log2 C1, log2 C2/C1, D), penalties in units of the data, and,
for a radial kernel, the base-2 logarithm of its width in units of the mean distance, or those of a
width per feature; other objectives have their own (`optimargin.objectives`). The score is that of a
criterion (`optimargin.selection.criteria`) of held-out decision values. For additive objectives
these are, by default, those of repeated, stratified folds in closed form, so that one evaluation
costs about two fits whatever the number of folds; else those of exact fits to given splits. Both
are differentiated exactly, by one adjoint solve per fold on the active set.

As many widths as features fit chance, too. So widths per feature have a penalty,

    PENALTY / n_samples * sum_j (log2 width_j - mean)^2,

which is a normal prior and so counts less the more samples there are per feature.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimargin.selection.criteria import Criterion, SmoothAccuracy
from optimargin.selection.stages import Judged
from optimargin.selection.widths import Widths
from optimargin.systems import Folds
from optimargin.tasks import Classification

N_FOLDS = 5
N_REPEATS = 3
PENALTY = 0.1  # loss times samples, per squared log2 width
WIDTH_BOUNDS = (-3.5, 2.5)  # log2 of the common width in mean distances
EXACT_UP_TO = 500  # samples up to which fits without each fold, or by feature, are cheap
CHEAP_UP_TO = 200  # samples up to which a fit costs next to nothing
FEW_SAMPLES = 300  # up to which a score needs several partitions, and a search is cheap


@dataclass(frozen=True)
class Part:
    """Samples that are held out, by one refitter.

    Attributes
    ----------
    rows : ndarray of shape (n_held_out,)
    refitter : Refitter
    widths : Widths or None
        Where there are any to change.
    folds : Folds or None
        To be left out in closed form; None predicts test samples.
    """

    rows: np.ndarray
    refitter: Any
    widths: Widths | None = None
    folds: Folds | None = None

    def held_out(self, objective, gamma, gradient):
        """Return the held-out decision values at a point."""
        if self.widths is not None:
            self.widths.change(self.refitter, gamma, gradient)
        solved = self.refitter.solve(objective)
        return solved.predict_test() if self.folds is None else solved.leave_folds_out(self.folds)

    def derivatives(self, held_out, slope):
        """Return derivatives by the parameters of the loss, and by the logarithms of widths."""
        found = held_out.derivatives(slope.reshape(held_out.decision.shape))
        by_width = np.empty(0) if self.widths is None else self.widths.by_width(found)
        return found.by_loss, by_width


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
    gamma : float or ndarray of shape (n_features,), default=None
        For widths per feature: what their logarithms are relative to. Without there is a common
        width, if any.
    rows : ndarray of shape (n_rows,), default=None
        The samples of positive weight that take part; all of them when not given.

    Attributes
    ----------
    used : ndarray
        The samples of positive weight that take part.
    parts : list of Part
    rows : ndarray of shape (n_held_out,)
        The samples held out, part by part.
    truth : Truth
        Of these.
    """

    def __init__(
        self,
        data,
        splits,
        random_state,
        guide: Criterion | None = None,
        *,
        n_folds=N_FOLDS,
        n_repeats=None,
        gamma=None,
        rows=None,
    ):
        self.data, kind = data, data.objective_type
        self.used = np.flatnonzero(data.weight) if rows is None else rows
        # penalties per sample stay what they are
        self._share = 1.0 if rows is None else float(data.weight[rows].sum())
        self.guide = SmoothAccuracy() if guide is None else guide
        self._n_loss = len(kind.bounds)
        self.is_per_feature = gamma is not None
        self.has_width = data.kernel.kind.has_width and not self.is_per_feature
        of_widths = [WIDTH_BOUNDS] * self.has_width
        if self.is_per_feature:
            # As far as common widths may be apart, from where a descent starts.
            of_widths = [np.ptp(WIDTH_BOUNDS) * np.array([-1, 1])] * data.X.shape[1]
        self.bounds = np.array([*kind.bounds, *of_widths])
        self.spread = np.array([*(kind.bounds if kind.spread is None else kind.spread), *of_widths])
        self.has_gradient = kind.has_gradient and self.guide.has_slope
        if self.is_per_feature and splits is not None:
            self.has_gradient = False
        # where widths start, or the one number of a kernel without a width
        self._gamma = gamma
        if gamma is None and data.kernel.has_gamma and not self.has_width:
            self._gamma = data.default_gamma()
        self.folds: Any = None
        if splits is None:
            if n_repeats is None:
                are_two = isinstance(data.task, Classification) and len(data.targets) == 1
                enough = FEW_SAMPLES if are_two else N_REPEATS * FEW_SAMPLES
                n_repeats = N_REPEATS if self.used.size < enough else 1
            strata, n_folds = data.strata[self.used], min(n_folds, self.used.size)
            self.folds = Folds.stratified(strata, n_folds, n_repeats, random_state)
            self._hold_out([self._closed_form_part(random_state)])
        else:
            self._hold_out([self._exact_part(*split) for split in splits])

    def _closed_form_part(self, random_state):
        """Return all samples, held out fold by fold in closed form."""
        data, folds = self.data, self.folds
        if self.is_per_feature or self.used.size < np.count_nonzero(data.weight):
            refitter = data.refitter(self._first_gamma, self.used)
            widths = data.widths(self.used, per_feature=self.is_per_feature)
        else:
            refitter, widths = data.folds_refitter(self._first_gamma, folds, random_state)
        return Part(np.tile(self.used, len(folds.fold)), refitter, widths, folds)

    def _exact_part(self, train, test):
        """Return the samples of one split, held out by fitting without them."""
        refitter = self.data.refitter(self._first_gamma, train, test)
        return Part(test, refitter, self.data.widths(train, test, self.is_per_feature))

    def _hold_out(self, parts):
        """Hold out the samples of these parts."""
        self.parts = parts
        self.rows = np.concatenate([part.rows for part in parts])
        self.truth = self.data.truth(self.rows, "The held-out samples")

    def parameters(self, x):
        """Return the parameters at `x`: of the objective and, where the kernel has one, gamma."""
        point = self.data.objective_type.at(x, self._share * self.data.unit)
        gamma = self._gamma_at(x)
        return point if gamma is None else {**point, "gamma": gamma}

    def _gamma_at(self, x):
        """Return gamma: a number, one per feature, or None where the kernel has none."""
        if self.is_per_feature:
            return self._gamma * 4.0 ** -x[self._n_loss :]
        if not self.has_width:
            return self._gamma
        return self.data.gamma_at(x[-1])

    @property
    def _first_gamma(self):
        """What refitters are made with; one that has widths to change will be told others."""
        return 1.0 if self.is_per_feature else self._gamma_at(np.zeros(1))

    def roughness(self, point):
        """Return what points of equal losses are compared by; of widths the earliest are taken."""
        return () if self.is_per_feature else self.data.objective_type.roughness(point)

    def bounds_around(self, start):
        """Return the bounds of a descent."""
        bounds = self.bounds.copy()
        if self.is_per_feature:
            bounds[self._n_loss :] += start[self._n_loss :, None]
        return bounds

    @property
    def quadratic(self):
        """Coordinates of quadratic losses, NaN where they may have any value, or None."""
        of_objective = self.data.objective_type.quadratic
        if of_objective is None or len(self.bounds) == self._n_loss:
            return None
        return np.append(of_objective, np.full(len(self.bounds) - self._n_loss, np.nan))

    def of_some(self, n_samples, random_state):
        """Return the loss of some of the samples, in the same units."""
        return HeldOutLoss(self.data.looks(n_samples), None, random_state, self.guide)

    def judge(self, finalists):
        """Return the loss of finalists: fits without the same folds count as well, if cheap.

        Not where the closed form is exact anyway.

        Parameters
        ----------
        finalists : list of ndarray of shape (n_parameters,)
        """
        is_exact = all(
            self.data.objective_at(self.parameters(x))[0].is_quadratic for x in finalists
        )
        if self.folds is None or self.used.size > EXACT_UP_TO or is_exact:
            return self
        splits = [(np.delete(self.used, k), self.used[k]) for _, k in self.folds.models()]
        if self.used.size > CHEAP_UP_TO:
            splits = splits[: self.folds.n_folds]  # those of one partition
        if any(self.data.lacks_a_class(train) for train, _ in splits):
            return self
        judge = copy(self)
        judge._hold_out([*self.parts, *(self._exact_part(*split) for split in splits)])
        return judge

    def __call__(self, x, gradient=True):
        """Return the record of `x` and the gradient, or None."""
        x, gradient = np.array(x), gradient and self.has_gradient
        point = self.parameters(x)
        objective, gamma = self.data.objective_at(point)
        found = [part.held_out(objective, gamma, gradient) for part in self.parts]
        n_outputs = len(self.data.targets)
        decision = np.concatenate([each.decision.reshape(-1, n_outputs) for each in found])
        score, slope = self.guide.score_and_slope(decision, self.truth)
        penalty, apart = 0.0, 0.0
        if self.is_per_feature:
            apart = x[self._n_loss :] - x[self._n_loss :].mean()
            share = PENALTY / self.used.size
            penalty, apart = share * (apart @ apart), 2 * share * apart
        judged = Judged(x, point, 1.0 - score + penalty, self.truth, decision, score)
        if not gradient:
            return judged, None
        ends = np.cumsum([part.rows.size for part in self.parts])[:-1]
        slopes = [
            part.derivatives(held_out, some)
            for part, held_out, some in zip(self.parts, found, np.split(slope, ends), strict=True)
        ]
        by_loss, by_width = (sum(each) for each in zip(*slopes, strict=True))
        by_x = self.data.objective_type.chain(by_loss)
        return judged, np.append(-by_x, apart - by_width)
