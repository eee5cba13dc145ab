"""Interior point method for the large margin distribution machine, ending on an exact face.

Dual     min over d   1/2 s' H s + (1's)^2 / (2 kappa) - sum_i d_i,   s = y d,   in a box
KKT      y (f + b) - 1 = p - q,   (d - lower) p = mu,   (upper - d) q = mu,   p, q >= 0

and mu is driven to zero by Mehrotra's predictor-corrector steps. With
1/e_i = p_i / (d_i - lower_i) + q_i / (upper_i - d_i) every step solves dg + ds / e = rho for
the changes dg of the scores and ds of s, which belong together through H:

    features   (Q + Z' E Z) dz = r + Z' E rho,  dg = Z dz,   Q the curvature in z = (w, b)
    samples    (H + E^-1) ds = rho - dc,        dg = H ds + dc

A dozen or two of such steps are enough whatever C, and each costs one small Cholesky
factorisation: of the size of the features, or of the samples. At the end e is large for the
variables inside the box and near zero for the others. Setting it to a huge number and to zero
turns the same system into the equations of that face; solving them removes what mu has left.

References: M. C. Ferris and T. S. Munson, Interior-point methods for massive support vector
machines, SIAM J. Optim. 13 (2002). S. Mehrotra, On the implementation of a primal-dual interior
point method, SIAM J. Optim. 2 (1992).
"""

import numpy as np
from scipy.linalg import LinAlgError

from optimargin.certificates import GAP_FLOOR
from optimargin.problems.base import NoMinimumError
from optimargin.problems.ldm import LDMProblem
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.ldm_systems import ldm_system

_TO_BOUNDARY = 0.995  # share of the step to the boundary of the box that is taken
_FACE_WEIGHT = 1e10  # of free variables in the equations of a face, times their curvature
_FACE_ROUNDS = 12  # faces that are solved at most
_GAP_BEFORE_FACE = 1e-9  # relative gap at which the free variables are clear
_FURTHER = 1e-2  # share of the gap of one attempt on a face, at which the next is made
_MOST_STUCK = 20  # steps without a gap of half the least so far: rounding leaves no more


class InteriorPoint(Solver):
    """Primal-dual interior point method, in feature space or in sample space."""

    problem_type = LDMProblem

    def _solve(self, problem, coef, intercept):
        return Solution.from_point(*self.solve_system(ldm_system(problem)))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def solve_system(self, system):
        """Return the last point and the number of iterations, given the linear algebra."""
        problem = system.problem
        iterate = _Iterate(problem, system)
        best = system.point(iterate.d)
        n_iter, n_stuck, least, allowed = 1, 0, np.inf, min(self.tol, _GAP_BEFORE_FACE)
        for n_iter in self.iterations():
            moved = iterate.step()
            if problem.is_hard:
                problem.check_separable(iterate.d)
            gap = iterate.relative_gap(best.value)
            n_stuck = 0 if gap < 0.5 * least else n_stuck + 1
            least = min(least, gap)
            is_last = not moved or n_stuck == _MOST_STUCK
            if gap > allowed and not is_last and n_iter < self.max_iter:
                continue
            best = min(best, system.point(iterate.d), key=_gap)
            best = min(best, finish_on_face(problem, system, iterate.d, iterate.free), key=_gap)
            if best.relative_gap <= self.tol or is_last:
                break
            allowed = _FURTHER * gap
            iterate.resume()
        if self.stopped:
            best = min(best, system.point(iterate.d), key=_gap)
        if problem.is_hard and not np.isfinite(best.gap):
            raise NoMinimumError(
                f"No model with all margins at least one was found in {n_iter} iterations: the "
                "classes may not be separable. Use a finite C."
            )
        return best, n_iter


def _gap(point):
    return point.gap if np.isfinite(point.gap) else np.inf


class _Iterate:
    """Dual variables, their multipliers, and the steps between iterates."""

    def __init__(self, problem, system):
        self.y, self.system = problem.y, system
        self.lower, self.upper = problem.lower, problem.upper
        self.bounded = np.isfinite(self.upper)
        typical = problem.weight / max(float(problem.weight @ system.diagonal), 1e-300)
        width = np.where(self.bounded, self.upper - self.lower, 2 * typical)
        self.d = self.lower + 0.5 * np.minimum(width, 2 * np.maximum(typical, 1e-3 * width))
        system.start(self.y * self.d)
        margin = self.y * system.score - 1.0
        self.p = np.maximum(margin, 0.0) + 1.0
        self.q = np.where(self.bounded, np.maximum(-margin, 0.0) + 1.0, 0.0)

    @property
    def _room(self):
        above = np.where(self.bounded, self.upper - self.d, 1.0)
        return self.d - self.lower, above

    @property
    def free(self):
        """Which variables are inside the box, as far as one can tell."""
        below, above = self._room
        with np.errstate(divide="ignore"):
            return self.system.diagonal > self.p / below + self.q / above

    def gap(self):
        below, above = self._room
        return float(below @ self.p + above @ self.q)

    def relative_gap(self, value):
        return self.gap() / max(abs(value) if np.isfinite(value) else 0.0, GAP_FLOOR)

    def resume(self):
        """Take the linear algebra back from an attempt on a face."""
        self.system.start(self.y * self.d)

    def step(self):
        """Make one predictor-corrector step; return whether it moved."""
        y, system = self.y, self.system
        below, above = self._room
        n_terms = self.d.size + np.count_nonzero(self.bounded)
        mu = self.gap() / n_terms
        if not (np.isfinite(mu) and mu > 0 and below.min() > 0 and above.min() > 0):
            return False
        try:
            system.factorise(1.0 / (self.p / below + self.q / above))
        except LinAlgError:
            return False
        slack = 1.0 - y * system.score

        def direction(right_p, right_q):
            # right_p and right_q are what the products below * p and above * q should become.
            rho = slack + right_p / below - right_q / above
            change = system.solve(y * rho)
            dd = y * change
            dp = right_p / below - self.p - self.p / below * dd
            dq = right_q / above - self.q + self.q / above * dd
            return dd, dp, dq

        dd, dp, dq = direction(0.0, 0.0)
        length = self._length(dd, dp, dq)
        after = (below + length * dd) @ (self.p + length * dp)
        after += (above - length * dd)[self.bounded] @ (self.q + length * dq)[self.bounded]
        target = mu * max(after / (n_terms * mu), 0.0) ** 3
        dd, dp, dq = direction(target - dd * dp, np.where(self.bounded, target + dd * dq, 0.0))
        length = min(1.0, _TO_BOUNDARY * self._length(dd, dp, dq))
        if not (np.isfinite(length) and length > 1e-12):
            return False
        self.d = self.d + length * dd
        self.p = self.p + length * dp
        self.q = self.q + length * dq
        system.advance(length)
        return True

    def _length(self, dd, dp, dq):
        """Return the longest step that keeps all products positive, if below 1/0.995."""
        below, above = self._room
        b = self.bounded
        shrink = max(
            np.max(-dd / below),
            np.max(-dp / self.p),
            np.max((dd / above)[b], initial=0.0),
            np.max(-dq[b] / self.q[b], initial=0.0),
        )
        return min(1.0 / _TO_BOUNDARY, 1.0 / shrink) if shrink > 0 else 1.0 / _TO_BOUNDARY


def finish_on_face(problem, system, d, free, rounds=_FACE_ROUNDS):
    """Return the best point found by solving faces of the box exactly.

    Variables that leave the box are fixed at the bound they cross, and those whose gradient
    points inside are freed, until neither happens.
    """
    y, lower, upper = problem.y, problem.lower, problem.upper
    d = np.where(free, d, np.where(d - lower <= upper - d, lower, upper))
    system.start(y * d)
    best = system.point(d)
    for _ in range(rounds):
        d = np.clip(d, lower, upper)
        weight = np.where(free, _FACE_WEIGHT / system.diagonal, 0.0)
        system.start(y * d)
        if free.any():
            try:
                system.factorise(weight)
            except LinAlgError:
                break
            for _ in range(3):
                d = d + y * system.solve(y - system.score)
                system.advance(1.0)
        elif problem.fit_intercept and problem.kappa == 0 and not problem.is_hard:
            system.move_intercept()
        point = system.point(d)
        best = min(best, point, key=_gap)
        outside = free & ((d < lower) | (d > upper))
        gradient = y * system.score - 1.0
        wrong = ~free & (((d <= lower) & (gradient < -1e-12)) | ((d >= upper) & (gradient > 1e-12)))
        if not (outside.any() or wrong.any()):
            break
        free = (free & ~outside) | wrong
    return best
