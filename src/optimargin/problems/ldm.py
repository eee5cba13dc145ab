"""The large margin distribution machine: variance, mean and hinge loss of the margins.

Primal   min over w, b   1/2 |w|^2 + l1 Var(g) - l2 Mean(g) + C sum_i w_i max(0, 1 - g_i)
         with margins g_i = y_i (phi_i' w + b), Mean(g) = sum_i w_i g_i and
         Var(g) = sum_i w_i g_i^2 - Mean(g)^2, so that a weight is a number of repetitions.

The variance is a quadratic form of the decision values f = Phi w + b:

    l1 Var(g) = 1/2 f' A f,    A = 2 l1 (W - (w y)(w y)'),    W = diag(w),   A y = 0.

Dual     max over d   -1/2 min-norm quadratic of s = y d  + sum_i (d_i - l2 w_i)
         subject to l2 w_i <= d_i <= (C + l2) w_i: the mean only moves the box.

Intercept. With u_i = w_i / (2 w(class of i)), w(.) the weight of a class, and
c = b + u' Phi w, the value half-way between the mean scores of the classes,

    1/2 f' A f = l1 (within-class variance of the scores) + 1/2 kappa c^2,
    kappa = 2 l1 (1 - (sum_i w_i y_i)^2):

centring the features by their class-balanced mean Phi' u separates w from c. The dual gains
the term -(sum_i y_i d_i)^2 / (2 kappa), or the constraint sum_i y_i d_i = 0 if l1 = 0.

Certificate. For any w, b and any d in the box, with the residuals
r = w + Phi' (A f - s) and r_b = 1' (A f - s),

    P(w, b) - D(d) <= sum_i [C w_i max(0, 1 - g_i) - (d_i - l2 w_i)(1 - g_i)]
                      + 1/2 |r - r_b Phi' u|^2 + r_b^2 / (2 kappa).

Reference: T. Zhang and Z.-H. Zhou, Large margin distribution machine, KDD 2014.
"""

from dataclasses import dataclass

import numpy as np

from optimargin.certificates import GAP_FLOOR
from optimargin.problems.base import Iterate, NoMinimumError, UnboundedError
from optimargin.targets import LABELS

_INSEPARABLE = 1e-7  # margins below this share of the largest norm count as zero
_ROUNDING = 4096 * float(np.finfo(np.float64).eps)  # of margins that have to be one


@dataclass(frozen=True)
class LDMPoint(Iterate):
    """A primal and a dual point with their certificate.

    Attributes
    ----------
    decision : ndarray of shape (n_samples,)
        Decision values without the intercept.
    box_dual : ndarray of shape (n_samples,)
        The dual variables d.
    """

    coef: np.ndarray
    intercept: float
    decision: np.ndarray
    box_dual: np.ndarray
    pull: np.ndarray
    value: float
    gap: float


class LDMProblem:
    """Margin variance, margin mean and hinge loss over a design matrix.

    Parameters
    ----------
    design : Design
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    weight : ndarray of shape (n_samples,)
        Positive sample weights that sum to one.
    C : float
        Infinite for a hard margin.
    lambda1, lambda2 : float
    fit_intercept : bool

    Attributes
    ----------
    lower, upper : ndarray of shape (n_samples,)
        The box of the dual variables.
    kappa : float
        The curvature in the centred intercept.
    """

    scale, gap_floor = LABELS, GAP_FLOOR

    def __init__(self, design, y, weight, C, lambda1, lambda2, *, fit_intercept):
        self.design = design
        self.y = y
        self.weight = weight
        self.C = C
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.fit_intercept = fit_intercept
        self.lower = lambda2 * weight
        self.upper = (C + lambda2) * weight
        self.imbalance = float(weight @ y)
        self.kappa = 2 * lambda1 * max(1 - self.imbalance**2, 0.0)
        self._check_bounded()

    def _check_bounded(self):
        rare = (1 - abs(self.imbalance)) / 2
        if (
            self.fit_intercept
            and self.lambda1 == 0
            and self.lambda2 * abs(self.imbalance) > self.C * rare
        ):
            raise UnboundedError(
                f"With lambda1=0 and an intercept, lambda2={self.lambda2:g} has no minimum on "
                "classes of such unequal weight: moving the intercept raises the mean margin "
                "faster than the hinge loss."
            )

    def over(self, design):
        """Return the same problem over another design."""
        penalties = self.C, self.lambda1, self.lambda2
        return LDMProblem(design, self.y, self.weight, *penalties, fit_intercept=self.fit_intercept)

    @property
    def is_hard(self):
        """Whether every margin has to be at least one."""
        return np.isinf(self.C)

    @property
    def balanced(self):
        """u: sample weights that give both classes weight one half."""
        return self.weight * (1 - self.imbalance * self.y) / (1 - self.imbalance**2)

    def variance_gradient(self, score):
        """Return A f for the decision values f, intercept included."""
        mean = self.weight @ (self.y * score)
        return 2 * self.lambda1 * self.weight * (score - mean * self.y)

    def value(self, squared_norm, score):
        """Return the primal objective at the given decision values, intercept included."""
        margin = self.y * score
        mean = float(self.weight @ margin)
        variance = float(self.weight @ np.square(margin - mean))
        value = 0.5 * squared_norm + self.lambda1 * variance - self.lambda2 * mean
        slack = 1.0 - margin
        if self.is_hard:
            return np.inf if self._misses(slack) else value
        return value + self.C * float(self.weight @ np.maximum(0.0, slack))

    def _misses(self, slack):
        """Return whether some margin is below one by more than rounding."""
        return bool((slack > _ROUNDING).any())

    def objective_at(self, coef, intercept):
        """Return the objective of these numbers."""
        decision = self.design.decision(coef)
        squared_norm = max(float(coef @ self.design.metric(coef, decision)), 0.0)
        return self.value(squared_norm, decision + intercept)

    def point(self, coef, intercept, box_dual, decision=None):
        """Return the primal point (`coef`, `intercept`) with the certificate of `box_dual`."""
        design, y = self.design, self.y
        if decision is None:
            decision = design.decision(coef)
        if self.is_hard:
            # A model that misses the margin by rounding is made feasible by scaling it.
            worst = np.min(y * (decision + intercept))
            if 0.5 < worst < 1.0:
                coef, intercept, decision = coef / worst, intercept / worst, decision / worst
        score = decision + intercept
        slack = 1.0 - y * score
        box_dual = np.clip(box_dual, self.lower, self.upper)
        if self.fit_intercept and self.kappa == 0:
            box_dual = self._balance(box_dual, slack)
        pull = kernel_coef = y * box_dual - self.variance_gradient(score)
        squared_norm = max(float(coef @ design.metric(coef, decision)), 0.0)
        value = self.value(squared_norm, score)
        gap = self._complementarity(box_dual, slack)
        if self.fit_intercept and self.kappa > 0:
            excess = kernel_coef.sum()
            gap += excess**2 / (2 * self.kappa)
            kernel_coef = kernel_coef - excess * self.balanced
        residual = coef - design.represent(kernel_coef)
        gap += 0.5 * max(float(residual @ design.metric(residual)), 0.0)
        return LDMPoint(coef, intercept, decision, box_dual, pull, value, gap)

    def _complementarity(self, box_dual, slack):
        terms = -(box_dual - self.lower) * slack
        lost = slack > 0
        if self.is_hard:
            return np.inf if self._misses(slack) else float(np.maximum(terms, 0.0).sum())
        terms[lost] += self.C * self.weight[lost] * slack[lost]
        return float(np.maximum(terms, 0.0).sum())

    def check_separable(self, box_dual):
        """Raise if the dual variables prove that no model has all margins above zero.

        For weights n_i >= 0 of sum one, the smallest margin of a model is at most
        sum_i n_i g_i = w' sum_i n_i y_i phi_i + b sum_i n_i y_i, and both sums vanish.
        """
        share = box_dual - self.lower
        if not share.sum() > 0:
            return
        share = self.y * share / share.sum()
        excess = float(share.sum())
        if self.fit_intercept:
            if abs(excess) > _INSEPARABLE:
                return
            share = share - excess * self.balanced
        r = self.design.represent(share)
        if r @ self.design.metric(r) <= _INSEPARABLE**2 * np.max(self.design.squared_norms):
            raise NoMinimumError(
                "The classes cannot be separated, so a hard margin (C=inf) has no solution: use a "
                "finite C."
            )

    def _balance(self, box_dual, slack):
        """Return `box_dual` moved within the box so that ``sum(y * box_dual)`` is zero.

        A move by a of a sample with slack z costs ``a |z|`` in the duality gap, so samples with
        margins closest to one move first, each as far as its box allows.
        """
        total = float(self.y @ box_dual)
        if total == 0:
            return box_dual
        up = self.y * total < 0
        room = np.where(up, self.upper - box_dual, box_dual - self.lower)
        order = np.argsort(np.abs(slack), kind="stable")
        used = np.minimum(np.cumsum(room[order]), abs(total))
        amount = np.empty_like(room)
        amount[order] = np.diff(used, prepend=0.0)
        moved = box_dual + np.where(up, amount, -amount)
        return np.clip(moved, self.lower, self.upper)

    def best_intercept(self, decision):
        """Return the exact minimiser over the intercept and the hinge duals that prove it.

        The derivative in the intercept increases, linearly with slope kappa and by C w_i where
        the margin of sample i passes one, so sorting those places finds its zero.

        Returns
        -------
        intercept : float
        box_dual : ndarray of shape (n_samples,)
        """
        y, weight = self.y, self.weight
        if not self.fit_intercept:
            return 0.0, self.lower + np.where(y * decision < 1, self.C * weight, 0.0)
        places = y - decision
        order = np.argsort(places, kind="stable")
        jumps = self.C * weight[order]
        center = float(self.balanced @ decision)
        # Slope just left and right of every place.
        base = self.kappa * (places[order] + center) - self.lambda2 * self.imbalance
        right = base + np.cumsum(jumps) - self.C * weight[y > 0].sum()
        left = right - jumps
        k = int(np.searchsorted(right, 0.0))
        box_dual = self.lower.copy()
        if k < y.size and left[k] <= 0.0:
            intercept = float(places[order[k]])
            share = -left[k] / jumps[k] if jumps[k] > 0 else 0.0
        else:
            # Between two places: the derivative is linear there.
            reference = order[min(k, y.size - 1)]
            slope = left[k] if k < y.size else right[-1]
            intercept = float(places[reference]) - (slope / self.kappa if self.kappa > 0 else 0.0)
            share = None
        below = y * (decision + intercept) < 1
        box_dual[below] += self.C * weight[below]
        if share is not None:
            i = order[k]
            box_dual[i] = self.lower[i] + self.C * weight[i] * (1 - share if y[i] > 0 else share)
        return intercept, box_dual
