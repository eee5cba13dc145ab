"""Projected Newton steps on a quadratic over a box, ending exactly on the final face.

    min over d   1/2 s' H s + (1's + shift)^2 / (2 kappa) - sum_i d_i,   s = y d,
    lower <= d <= upper;   c = (1's + shift) / kappa is the intercept.

Variables at a bound that the gradient holds there stay; the others, F, solve

    [ H_FF   1     ] [ds]   [ y_F - (H s)_F ]
    [ 1'    -kappa ] [c ] = [ -1's - shift  ],

whose solution is exact once F is final. H_FF may be singular (equal samples, few features): a
ridge of rounding size makes the step a proximal one, which repeats to the same end. Where
kappa is zero, or too small for a projected step to go anywhere, so is the intercept's: it is
anchored at its last value c_k, which adds 1/sigma to kappa and c_k / sigma to the shift.

Reference: D. P. Bertsekas, Projected Newton methods for optimization problems with simple
constraints, SIAM J. Control Optim. 20 (1982).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

_RIDGE = 1e-13
_HALVINGS = 10
_ANCHOR = 1e-3


@dataclass
class BoxState:
    """The iterate: variables d, intercept c and decision values f without it."""

    d: np.ndarray
    c: float
    f: np.ndarray


class BoxQP:
    """The dual of an LDM problem as the solvers in sample space see it.

    Parameters
    ----------
    dual : LDMDual
    """

    def __init__(self, dual):
        self.dual = dual
        self.H = dual.H
        self.y = dual.problem.y
        self.lower, self.upper = dual.problem.lower, dual.problem.upper
        self.diagonal = np.maximum(np.diagonal(dual.H), 0.0)
        self.scale = float(np.mean(self.diagonal)) or 1.0

    def state(self, d, c):
        """Return the iterate at these variables."""
        return BoxState(d, c, self.H @ (self.y * d))

    def anchor(self, strength):
        """Return (kappa, 1/sigma): the curvature in the intercept and its proximal part."""
        kappa = self.dual.kappa
        pull = 0.0 if kappa * self.scale >= strength else strength / self.scale
        return kappa + pull, pull

    def gradient(self, state):
        """Return the gradient ``y (f + c) - 1``."""
        return self.y * (state.f + state.c) - 1.0

    def gap(self, state):
        """Return the duality gap, apart from what the intercept's own condition lacks."""
        gradient = self.gradient(state)
        with np.errstate(invalid="ignore"):
            down = np.where(gradient > 0, (state.d - self.lower) * gradient, 0.0)
            up = np.where(gradient < 0, (state.d - self.upper) * gradient, 0.0)
        return float(down.sum() + up.sum())

    def newton_step(self, state):
        """Return the next iterate and the step length, or None if no step descends.

        A length of one means that the step stayed inside the box: the new iterate is the
        exact minimum over the variables that were free.
        """
        gradient = self.gradient(state)
        d, y = state.d, self.y
        held = ((d <= self.lower) & (gradient >= 0)) | ((d >= self.upper) & (gradient <= 0))
        free = np.flatnonzero(~held)
        has_intercept = self.dual.kappa is not None
        kappa, total = 1.0, 0.0
        if has_intercept:
            kappa, pull = self.anchor(_ANCHOR)
            total = float(y @ d) + pull * state.c
        if free.size == 0:
            return (BoxState(d, total / kappa, state.f), 1.0) if has_intercept else None
        p, q = self._solve(free, y[free] - state.f[free])
        c = (p.sum() + total) / (q.sum() + kappa) if has_intercept else 0.0
        step = y[free] * (p - c * q)
        current = total / kappa if has_intercept else 0.0
        slope = y[free] * (state.f[free] + current) - 1.0
        length = 1.0
        for _ in range(_HALVINGS):
            target = np.clip(d[free] + length * step, self.lower[free], self.upper[free])
            inside = length == 1.0 and np.array_equal(target, d[free] + step)
            change = y[free] * (target - d[free])
            image = self.H[:, free] @ change if free.size < y.size else self.H @ change
            descent = slope @ (target - d[free])
            rise = 0.5 * (change @ image[free])
            if has_intercept:
                rise += 0.5 * change.sum() ** 2 / kappa
            if inside or (descent < 0 and descent + rise <= 0.1 * descent):
                moved = d.copy()
                moved[free] = target
                new_c = (total + change.sum()) / kappa if has_intercept else 0.0
                return BoxState(moved, c if inside else new_c, state.f + image), length
            length *= 0.5
        return None

    def _solve(self, free, right):
        """Return the solutions of H_FF x = right and H_FF x = 1."""
        block = self.H[np.ix_(free, free)]
        ridge = _RIDGE * max(np.max(np.diagonal(block)), 1e-300)
        right = np.column_stack([right, np.ones_like(right)])
        index = np.arange(free.size)
        while True:
            M = block.copy()
            M[index, index] += ridge
            try:
                factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
                return cho_solve(factor, right, check_finite=False).T
            except LinAlgError:
                ridge *= 100.0
