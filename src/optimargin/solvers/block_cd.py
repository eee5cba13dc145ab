"""Coordinate descent by blocks of samples, with a correction in few dimensions, for kernels.

Dual   min over p   1/2 p'K p + sum_i h_i(p_i),   sum_i p_i = 0 when the intercept is fitted,
       h_i(p) = p^2 ridge_i / 2 + D |p| - t_i p

An epoch visits the samples in blocks that fit into the cache: coordinate descent within a block,
then one product updates the decision values f = K p of all samples, for all outputs at a time. At
penalties of about one per sample the ridges are not small beside the values K_ii, and few epochs
bring p close to the optimum, but for a small error in the directions of the largest eigenvalues of
K. The primal objective, which sees f and not p, is sensitive to just these. So each epoch is
followed by a step on the samples with p_i != 0,

    dp = (B B' + ridge + mu)^-1 (-grad - db),   db such that the sum of p + dp vanishes,

with B B' a Nystrom approximation of K from landmarks and mu the mean diagonal of what it leaves
over, as far as it lowers the dual. Where one penalty is zero, variables stop at zero.

The intercept follows by the method of multipliers, as in `dcd`. The variables certify themselves
(`optimargin.problems.certificates`). Where convergence is slow, or rounding of kernel values
limits the certificate, truncated Newton steps on more precise values go on from here.

References: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM, ICML
2008. Z. Frangella et al., Randomized Nystrom preconditioning, SIAM J. Matrix Anal. Appl. 44 (2023).
"""

from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from optimargin._core import _tiles
from optimargin._core._tiles import TILE_SIZE
from optimargin._linalg import Factor
from optimargin._threads import for_each, n_threads_for
from optimargin.designs.features import FeatureDesign
from optimargin.designs.tiles import TileDesign
from optimargin.losses import BandLoss
from optimargin.problems.base import relative_gap
from optimargin.problems.certificates import coefficient_gap, coefficient_roots
from optimargin.solvers.base import Solution, Solver, UnsuitableProblemError
from optimargin.solvers.newton import Newton
from optimargin.solvers.newton_cg import NewtonCG

_PASSES = 4  # over the variables of a block
_INTERCEPT_SCALE = 0.03  # see `Descent`; relative to the largest kernel value
_N_LANDMARKS = 200
_STARTED = 4  # outputs, past which such models cost more than they save
_GAP_SHARE = 0.7  # of the tolerance; the rest is for rounding,
_ROUNDING_SHARE = 0.7  # which must not take more than this
_VALUE_MARGIN = 2.0  # between the deviation of the objective and its largest error
_MOST_CYCLES = 60
_SLOW_AFTER = 10  # cycles, after which those to come are estimated
_RECENT = 5  # by the last of them
_LINE_STEPS = 20
_LINE_RTOL = 0.01  # slope left along a step
_TRACE = 1e-14  # of rounding


class BlockCD(Solver):
    """Block coordinate descent on the kernel matrix, for all outputs at a time."""

    design_type = TileDesign
    solves_together = True

    def check(self, problem):
        """Raise `UnsuitableProblemError` for losses other than the band loss, too."""
        super().check(problem)
        if not isinstance(problem.loss, BandLoss):
            raise UnsuitableProblemError(
                f"BlockCD takes problems of the BandLoss, not of the {type(problem.loss).__name__}."
            )

    def _solve(self, problem, coef, intercept):
        return self.solve_together([problem], [(coef, intercept)])[0]

    def solve_together(self, problems, starts):
        """Minimise problems over the same design."""
        for problem in problems:
            self.check(problem)
        descent = _Descent(problems, starts)
        n_iter = self._cycle(descent)
        return [
            self._finished(problem, descent.solution(k, int(n_iter[k])))
            for k, problem in enumerate(problems)
        ]

    def _cycle(self, descent):
        """Descend until all gaps are small; return the number of cycles of each output."""
        running = np.arange(descent.n_outputs)
        n_iter = np.ones(running.size, dtype=np.intp)
        allowed = np.full(running.size, _GAP_SHARE * self.tol)
        gaps = [np.ones(running.size)]
        for n in self.iterations():
            descent.epoch(running)
            descent.correct(running)
            n_iter[running] = n
            gaps.append(gaps[-1].copy())
            gaps[n][running] = [descent.gap(k) for k in running]
            done = [
                descent.is_certified(k, self.tol, allowed)
                if gaps[n][k] <= allowed[k]
                else _is_slow([gap[k] for gap in gaps], allowed[k])
                for k in running
            ]
            running = running[~np.array(done)]
            if running.size == 0 or n >= _MOST_CYCLES:
                break
        return n_iter

    def _finished(self, problem, found):
        if found.dual_gap <= self.tol or self.stopped or found.n_iter == self.max_iter:
            return found
        newton = NewtonCG(
            tol=self.tol,
            max_iter=self.max_iter - found.n_iter,
            seed=self.seed,
            on_iteration=self.on_iteration,
        )
        precise = problem.over(problem.design.precise)
        better = newton.solve(precise, found.coef, found.intercept)
        return replace(better, n_iter=found.n_iter + better.n_iter)


def _is_slow(gaps, allowed):
    """Return whether too many cycles are still to come, as far as the last ones tell."""
    if len(gaps) <= _SLOW_AFTER:
        return False
    progress = np.log(gaps[-1 - _RECENT] / gaps[-1]) / _RECENT
    return progress <= 0 or len(gaps) + np.log(gaps[-1] / allowed) / progress > _MOST_CYCLES


class _Descent:
    """Variables and decision values of all outputs, in the order of the tiles."""

    def __init__(self, problems, starts):
        design = problems[0].design
        self.design = design
        self.n_outputs = len(problems)
        self._n = design.n_samples
        self._random = np.random.default_rng(0)  # of the order of blocks: a fixed seed will do
        self._problems = problems
        self._place = np.argsort(design.order)
        self._fit_intercept = problems[0].fit_intercept
        target = [problem.target.take(design.order) for problem in problems]
        self._target = self._padded([t.value for t in target])
        self._orientation = self._padded([t.orientation for t in target])
        self._half_width = np.array([problem.loss.D for problem in problems])
        with np.errstate(divide="ignore"):
            ridges = [
                [1.0 / (2 * penalty * t.weight) for penalty in (problem.loss.C1, problem.loss.C2)]
                for problem, t in zip(problems, target, strict=True)
            ]
        self._ridge = [self._padded([pair[side] for pair in ridges], 1.0) for side in (0, 1)]
        self._one_sided = any(0 in (problem.loss.C1, problem.loss.C2) for problem in problems)
        largest = float(np.max(design.squared_norms, initial=0.0)) or 1.0
        self._scale = _INTERCEPT_SCALE * largest if self._fit_intercept else 0.0
        self._coarse = _Coarse(design, self.n_outputs)
        self._start(problems, starts)
        n_threads = min(n_threads_for(design.tiles.size), design.n_padded // TILE_SIZE)
        self._n_threads = n_threads
        self._work = np.empty((n_threads * (TILE_SIZE + self.n_outputs), TILE_SIZE), np.float32)

    def _padded(self, rows, value=0.0):
        out = np.full((len(rows), self.design.n_padded), value)
        out[:, : self._n] = rows
        return out

    def _start(self, problems, starts):
        """Begin at the dual of a model of few landmarks."""
        self._pull = np.zeros((self.n_outputs, self.design.n_padded))
        self.intercept = np.zeros(self.n_outputs)
        for k, (problem, start) in enumerate(zip(problems, starts, strict=True)):
            coef, self.intercept[k] = start
            if coef is not None:
                self._pull[k, : self._n] = coef[self.design.order]
            elif self.n_outputs <= _STARTED:
                rough = problem.over(self._coarse.rough_design(), self.design.order)
                found = Newton(tol=1e-3, max_iter=20, exact_up_to=0).solve(rough)
                self._pull[k, : self._n] = found.pull
                self.intercept[k] = found.intercept
        self._decision = np.zeros_like(self._pull)
        if self._pull.any():
            self._decision = self.design.product_in_order(self._pull)

    def epoch(self, running):
        """Visit every block once, for the outputs that are still running."""
        every = running.size == self.n_outputs
        state: dict = {
            "pull": self._pull,
            "decision": self._decision,
            "target": self._target,
            "orientation": self._orientation,
            "ridge1": self._ridge[0],
            "ridge2": self._ridge[1],
            "half_width": self._half_width,
            "intercept": self.intercept,
        }
        if not every:
            state = {name: np.ascontiguousarray(state[name][running]) for name in state}
        _tiles.epoch(
            self.design.tiles,
            unit=self.design.unit,
            order=self._random.permutation(self.design.n_padded // TILE_SIZE),
            n_samples=self._n,
            passes=_PASSES,
            **state,
            intercept_scale=self._scale,
            work=self._work,
            change=np.empty((running.size, TILE_SIZE)),
            moved=np.empty((running.size, self.design.n_padded), np.float32),
            n_threads=self._n_threads,
        )
        if not every:
            self._pull[running], self._decision[running] = state["pull"], state["decision"]
            self.intercept[running] = state["intercept"]
        if self._fit_intercept:
            self.intercept[running] += self._scale * self._pull[running].sum(axis=1)

    def correct(self, running):
        """Move along the directions of large eigenvalues, for the outputs still running."""
        pull, decision = self._pull[running], self._decision[running]
        active = pull != 0
        ridge, slope = _dual_terms(
            pull,
            self._orientation[running],
            self._target[running],
            [ridge[running] for ridge in self._ridge],
            self._half_width[running, None],
        )
        right = np.where(active, -slope - decision - self.intercept[running, None], 0.0)
        weight = np.where(active, 1.0 / (ridge + self._coarse.damping), 0.0)
        total = pull.sum(axis=1) if self._fit_intercept else None
        step, intercept_step = self._coarse.solve(running, weight, right, total)
        if self._one_sided:  # nothing is allowed past zero
            step = np.where(pull * (pull + step) < 0, -pull, step)
        image = self.design.product_in_order(step)
        length = np.array(
            [
                self._line_search(k, step[n], image[n], intercept_step[n])
                for n, k in enumerate(running)
            ]
        )
        moved = pull + length[:, None] * step
        # Where a variable was moved to zero, rounding leaves a trace.
        moved[np.abs(moved) < _TRACE * np.abs(pull)] = 0.0
        self._pull[running] = moved
        self._decision[running] = decision + length[:, None] * image
        self.intercept[running] += length * intercept_step

    def _line_search(self, k, step, image, intercept_step):
        """Return how far the dual falls along a step: the root of its slope, which increases."""
        rows = np.flatnonzero(step)
        pull, step = self._pull[k, rows], step[rows]
        shift = step.sum()
        linear = step @ self._decision[k, rows] + (self.intercept[k] + intercept_step) * shift
        linear += self._scale * shift * self._pull[k].sum()
        quadratic = step @ image[rows] + self._scale * shift**2
        orientation, target = self._orientation[k, rows], self._target[k, rows]
        ridges = [ridge[k, rows] for ridge in self._ridge]

        def slope(length):
            at = pull + length * step
            terms = _dual_terms(at, orientation, target, ridges, self._half_width[k])[1]
            return linear + length * quadratic + step @ terms

        low, high, length = 0.0, 2.0, 1.0
        first = slope(low)
        if not first < 0:
            return 0.0
        for _ in range(_LINE_STEPS):
            now = slope(length)
            if not abs(now) > _LINE_RTOL * abs(first):
                break
            low, high = (length, high) if now < 0 else (low, length)
            length = 0.5 * (low + high)
        return length

    def gap(self, k):
        """Return the relative duality gap of an output, but for rounding of kernel values."""
        problem, pull, decision = self._of_output(k)
        value, _ = problem.value(pull, self.intercept[k], decision)
        gap = coefficient_gap(problem, pull, decision, value)
        return relative_gap(value, gap, problem.gap_floor)

    def is_certified(self, k, tol, allowed):
        """Return whether the gap of an output is small with rounding, or cannot be.

        If neither, lower the gap that is `allowed` without.
        """
        _, _, certified, by_rounding = self._certificate(k)
        if certified <= tol or by_rounding > _ROUNDING_SHARE * tol:
            return True
        allowed[k] = _GAP_SHARE * (np.sqrt(tol) - np.sqrt(by_rounding)) ** 2
        return False

    def _certificate(self, k):
        """Return the objective and the intercept, the gap with rounding, and what that adds."""
        problem, pull, decision = self._of_output(k)
        value, intercept = problem.value(pull, self.intercept[k], decision)
        roots = coefficient_roots(problem, pull, decision, value)
        certified, by_rounding = (
            relative_gap(value, root**2, problem.gap_floor) for root in (sum(roots), roots[1])
        )
        # The objective itself is rounded, too. Errors of decision values nearly add up at random.
        _, at_pull, _ = problem.loss.evaluate(decision, problem.target, intercept)
        error = roots[1] / np.sqrt(0.5 * problem.loss.smoothness)
        of_value = error * np.linalg.norm(0.5 * pull - at_pull) * _VALUE_MARGIN
        certified = max(certified, relative_gap(value, of_value, problem.gap_floor))
        return value, intercept, certified, by_rounding

    def _of_output(self, k):
        """Return the problem, the variables and the decision values, in the order of the data."""
        place = self._place
        return self._problems[k], self._pull[k, place], self._decision[k, place]

    def solution(self, k, n_iter):
        """Return the solution of an output."""
        problem, pull, decision = self._of_output(k)
        value, intercept, certified, _ = self._certificate(k)
        return Solution(
            pull,
            float(intercept),
            problem.loss.evaluate(decision, problem.target, intercept)[1],
            value,
            certified,
            n_iter,
            decision + intercept,
        )


def _dual_terms(pull, orientation, target, ridges, half_width):
    """Return h'' and h' where variables are not zero."""
    ridge = np.where(orientation * pull > 0, *ridges)
    with np.errstate(invalid="ignore"):  # infinite ridges where variables are zero
        return ridge, ridge * pull + half_width * np.sign(pull) - target


class _Coarse:
    """Systems with a Nystrom approximation B B' of the kernel matrix instead of itself."""

    def __init__(self, design, n_outputs):
        n_samples = design.n_samples
        n_landmarks = min(_N_LANDMARKS, n_samples)
        landmarks = design.order[:n_landmarks]
        columns = design.columns(landmarks, design.order)
        block = columns[:n_landmarks]
        # Rounding of float32 values makes a kernel matrix indefinite.
        shift = 1e-6 * np.sqrt(n_landmarks) * (np.trace(block) / n_landmarks or 1.0)
        triangle = Factor(block, shift=shift).lower.astype(np.float32)
        B = solve_triangular(triangle, columns.T.astype(np.float32), lower=True, overwrite_b=True)
        self._B = np.ascontiguousarray(B.T)
        left_over = design.squared_norms[design.order] - np.einsum("ij,ij->i", self._B, self._B)
        self.damping = max(float(left_over.mean()), 0.0)
        self._weight = np.zeros((n_outputs, n_samples), dtype=np.float32)
        self._gram = np.zeros((n_outputs, n_landmarks, n_landmarks))

    def rough_design(self):
        """Return the features of the landmarks."""
        return FeatureDesign(self._B)

    def solve(self, outputs, weight, right, total):
        """Return the steps of variables and intercepts.

        Parameters
        ----------
        outputs : ndarray of shape (n_running,)
        weight : ndarray of shape (n_running, n_padded)
            ``1 / (ridge + damping)`` where variables may move, otherwise zero.
        right : ndarray of shape (n_running, n_padded)
        total : ndarray of shape (n_running,) or None
            The sums that the steps have to cancel; None without an intercept.
        """
        n_samples = self._B.shape[0]
        weight = weight.astype(np.float32)[:, :n_samples]
        sides = right.astype(np.float32)[None, :, :n_samples]
        if total is not None:
            sides = np.concatenate([sides, np.ones_like(sides)])
        sides = sides * weight
        inner = sides @ self._B
        for n, k in enumerate(outputs):
            self._update(k, weight[n])
            factor = Factor(self._gram[k] + np.eye(self._gram.shape[1]))
            inner[:, n] = factor.solve(inner[:, n].T.astype(np.float64)).T
        solved = sides - weight * (inner @ self._B.T)
        step = np.zeros(right.shape)
        intercept_step = np.zeros(outputs.size)
        step[:, :n_samples] = solved[0]
        if total is not None:
            spread = solved[1].sum(axis=1, dtype=np.float64)
            excess = step.sum(axis=1) + total
            intercept_step = np.divide(excess, spread, out=intercept_step, where=spread > 0)
            step[:, :n_samples] -= intercept_step[:, None] * solved[1]
        return step, intercept_step

    def _update(self, k, weight):
        """Give these weights to the Gram matrix of an output; only rows that changed count."""
        change = weight - self._weight[k]
        rows = np.flatnonzero(change)
        if rows.size > weight.size // 2:
            rows, change = np.flatnonzero(weight), weight
            self._gram[k] = 0.0
        self._weight[k] = weight
        halves = np.array_split(rows, 2)
        parts = np.zeros((2, *self._gram.shape[1:]), dtype=np.float32)

        def multiply(half):
            B = self._B[halves[half]]
            np.dot(B.T, change[halves[half], None] * B, out=parts[half])

        for_each(multiply, range(2), work=rows.size * self._gram.shape[1] ** 2)
        self._gram[k] += parts.sum(axis=0)
