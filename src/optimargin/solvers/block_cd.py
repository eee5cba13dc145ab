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

Samples inside the band have p_i = 0, and their kernel values serve to find that out alone. So a
descent begins with the samples that a model of few landmarks finds outside. Once these have
settled, it checks all others, adds those that left the band, and continues.

The intercept follows by the method of multipliers, as in `dcd`. The variables certify themselves
(`optimargin.certificates`). Where convergence is slow, or rounding of kernel values
limits the certificate, the plan's next machine goes on from here.

References: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM, ICML
2008. Z. Frangella et al., Randomized Nystrom preconditioning, SIAM J. Matrix Anal. Appl. 44 (2023).
"""

from dataclasses import dataclass, replace

import numpy as np

from optimargin._core import _tiles
from optimargin._core._tiles import TILE_SIZE
from optimargin._linalg import line_search
from optimargin._threads import n_threads_for
from optimargin.certificates import coefficient_gap, relative_gap
from optimargin.designs.kernel import KernelMatrix
from optimargin.losses import BandLoss
from optimargin.problems.additive import AdditiveProblem
from optimargin.solvers._coarse import Coarse, CoarseSystems
from optimargin.solvers.base import Solver, UnsuitableProblemError, certified_solution
from optimargin.solvers.newton import Newton

_PASSES = 4  # over the variables of a block
_INTERCEPT_SCALE = 0.03  # see `Descent`; relative to the largest kernel value
_STARTED = 4  # outputs, past which such models cost more than they save
_GAP_SHARE = 0.7  # of the tolerance; the rest is for rounding, which must not take as much
MOST_CYCLES = 60
_SLOW_AFTER = 10  # cycles, after which those to come are estimated
_RECENT = 5  # by the last of them
_LINE_STEPS = 20
_LINE_RTOL = 0.01  # slope left along a step
_TRACE = 1e-14  # of rounding
_FIRST_LOOK = 1e-2  # the gap of the samples kept at which the others are looked at first
_KEEP_ALL_FROM = 0.8  # share of the samples
_MOST_LOOKS = 5  # after which all are kept
_SPARE = 2  # samples are taken in per sample that strayed: others are about to


class BlockCD(Solver):
    """Block coordinate descent on the kernel matrix, for all outputs at a time."""

    design_type = KernelMatrix
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
        solutions = []
        for k in range(len(problems)):
            found = replace(descent.solution(k)[0], n_iter=int(n_iter[k]))
            solutions.append(replace(found, stopped=True) if self.stopped else found)
        return solutions

    def _cycle(self, descent):
        """Descend until all gaps are small; return the number of cycles of each output."""
        running = np.arange(descent.n_outputs)
        n_iter = np.ones(running.size, dtype=np.intp)
        allowed = np.full(running.size, _GAP_SHARE * self.tol)
        if not descent.is_whole:
            allowed[:] = np.maximum(allowed, _FIRST_LOOK)
        gaps = [np.ones(running.size)]
        for n in self.iterations():
            descent.epoch(running)
            descent.correct(running)
            n_iter[running] = n
            gaps.append(gaps[-1].copy())
            gaps[-1][running] = [descent.gap(k) for k in running]
            done = [
                descent.is_certified(k, self.tol, allowed)
                if gaps[-1][k] <= allowed[k]
                else _is_slow([gap[k] for gap in gaps], allowed[k])
                for k in running
            ]
            running = running[~np.array(done)]
            if running.size == 0 or n >= MOST_CYCLES:
                break
            if descent.grow():
                gaps = [np.ones(descent.n_outputs)]
        return n_iter


def _is_slow(gaps, allowed):
    """Return whether too many cycles are still to come, as far as the last ones tell."""
    if len(gaps) <= _SLOW_AFTER:
        return False
    if not np.isfinite(gaps[-1]):
        return True
    progress = np.log(gaps[-1 - _RECENT] / gaps[-1]) / _RECENT
    return progress <= 0 or len(gaps) + np.log(gaps[-1] / allowed) / progress > MOST_CYCLES


@dataclass(frozen=True)
class _Layout:
    """What does not change while the same samples are kept.

    Arrays have a row per output, and samples in the order of the tiles, padded to whole blocks.

    Attributes
    ----------
    order, outside : ndarray of shape (n_kept,), (n_samples - n_kept,)
        The samples that are kept and those that are not.
    problems : list of AdditiveProblem
        Of the samples that are kept.
    coarse : CoarseSystems
        Of the samples that are kept.
    target, orientation : ndarray of shape (n_outputs, n_padded)
    ridges : tuple of ndarray of shape (n_outputs, n_padded)
        Where the orientation times a variable is positive, and where it is negative.
    """

    order: np.ndarray
    outside: np.ndarray
    problems: list
    coarse: CoarseSystems
    target: np.ndarray
    orientation: np.ndarray
    ridges: tuple

    @classmethod
    def of(cls, triangle, problems, coarse):
        """Return the layout of the samples that a triangle keeps."""
        order = triangle.order
        kept = [
            AdditiveProblem(
                problem.loss,
                problem.design,
                problem.target.take(order, 1.0),
                fit_intercept=problem.fit_intercept,
            )
            for problem in problems
        ]
        targets = [problem.target for problem in kept]
        with np.errstate(divide="ignore"):
            ridges = [
                [
                    1.0 / (2 * getattr(problem.loss, name) * problem.target.weight)
                    for problem in kept
                ]
                for name in ("C1", "C2")
            ]
        return cls(
            order,
            triangle.outside,
            kept,
            coarse.restricted(order, len(problems)),
            _padded(triangle, [target.value for target in targets]),
            _padded(triangle, [target.orientation for target in targets]),
            tuple(_padded(triangle, side, 1.0) for side in ridges),
        )


@dataclass
class _Iterate:
    """Where a descent is.

    Attributes
    ----------
    pull, decision : ndarray of shape (n_outputs, n_padded)
        In the order of the tiles.
    intercept : ndarray of shape (n_outputs,)
    outside : list of ndarray or None
        The decision values of the samples that are not kept, where an output looked at them since
        its last epoch.
    strayed : ndarray of shape (n_outside,)
        How far outside the band these were found.
    """

    pull: np.ndarray
    decision: np.ndarray
    intercept: np.ndarray
    outside: list
    strayed: np.ndarray


class _Descent:
    """Block coordinate descent for all outputs."""

    def __init__(self, problems, starts):
        self.design = problems[0].design
        self._triangle = self.design.triangle
        self._problems = problems
        self._random = np.random.default_rng(0)  # of the order of blocks: a fixed seed will do
        self._half_width = np.array([problem.loss.D for problem in problems])
        largest = float(np.max(self.design.squared_norms, initial=0.0)) or 1.0
        self._scale = _INTERCEPT_SCALE * largest if problems[0].fit_intercept else 0.0
        smoothness = max(problem.loss.smoothness for problem in problems)
        self._coarse = Coarse(self.design, smoothness / self.design.n_samples)
        self._n_looks = 0
        self._layout, self._at = self._laid_out(*self._start(starts))

    @property
    def n_outputs(self):
        """The number of problems."""
        return len(self._problems)

    @property
    def is_whole(self):
        """Whether all samples are kept."""
        return self._layout.outside.size == 0

    def _start(self, starts):
        """Keep samples, and return variables and intercepts: those of a model of few landmarks."""
        n_samples = self.design.n_samples
        pull, intercept = np.zeros((self.n_outputs, n_samples)), np.zeros(self.n_outputs)
        excess = np.full(n_samples, -np.inf)
        for k, (problem, start) in enumerate(zip(self._problems, starts, strict=True)):
            coef, intercept[k] = start
            if coef is None and self.n_outputs <= _STARTED:
                rough = problem.over(self._coarse.design)
                found = Newton(tol=1e-3, max_iter=20, exact_up_to=0).solve(rough)
                pull[k], intercept[k] = found.pull, found.intercept
                excess = np.maximum(excess, _excess(problem, found.decision))
            else:
                pull[k] = 0.0 if coef is None else coef
                excess[:] = np.inf
        self._keep(np.arange(n_samples), excess, np.count_nonzero(excess > 0))
        return pull, intercept

    def _keep(self, samples, excess, n_wanted):
        """Keep as many samples as wanted, those furthest outside the band, in whole blocks."""
        n_wanted = -(-n_wanted // TILE_SIZE) * TILE_SIZE
        if self._triangle.order.size + n_wanted >= _KEEP_ALL_FROM * self.design.n_samples:
            n_wanted = samples.size
        chosen = samples[np.argsort(-excess, kind="stable")[:n_wanted]]
        # In random order every block is like all samples.
        self._triangle.keep(self._random.permutation(chosen))

    def _laid_out(self, pull, intercept):
        """Return the layout of the samples that are kept, and variables and intercepts in it.

        Parameters
        ----------
        pull : ndarray of shape (n_outputs, n_samples)
        intercept : ndarray of shape (n_outputs,)
        """
        layout = _Layout.of(self._triangle, self._problems, self._coarse)
        pull = _padded(self._triangle, pull[:, layout.order])
        n_outside = layout.outside.size
        at = _Iterate(
            pull,
            self._image(pull) if pull.any() else np.zeros_like(pull),
            intercept,
            [None if n_outside else np.empty(0)] * self.n_outputs,
            np.full(n_outside, -np.inf),
        )
        return layout, at

    def _image(self, step):
        """Return the change of decision values by a step."""
        return self._triangle.product(step.astype(np.float32))

    def epoch(self, running):
        """Visit every block once, for the outputs that are still running."""
        layout, at, triangle = self._layout, self._at, self._triangle
        arrays: dict = {
            "pull": at.pull,
            "decision": at.decision,
            "target": layout.target,
            "orientation": layout.orientation,
            "ridge1": layout.ridges[0],
            "ridge2": layout.ridges[1],
            "half_width": self._half_width,
            "intercept": at.intercept,
        }
        if running.size < self.n_outputs:
            arrays = {name: np.ascontiguousarray(array[running]) for name, array in arrays.items()}
        n_threads = min(n_threads_for(triangle.n_values), triangle.n_padded // TILE_SIZE)
        _tiles.epoch(
            triangle.tiles,
            unit=triangle.unit,
            order=self._random.permutation(triangle.n_padded // TILE_SIZE),
            n_samples=layout.order.size,
            passes=_PASSES,
            **arrays,
            intercept_scale=self._scale,
            work=np.empty((n_threads * (TILE_SIZE + running.size), TILE_SIZE), np.float32),
            change=np.empty((running.size, TILE_SIZE)),
            moved=np.empty((running.size, triangle.n_padded), np.float32),
            n_threads=n_threads,
        )
        if running.size < self.n_outputs:
            at.pull[running], at.decision[running] = arrays["pull"], arrays["decision"]
            at.intercept[running] = arrays["intercept"]
        at.intercept[running] += self._scale * at.pull[running].sum(axis=1)
        if not self.is_whole:
            for k in running:
                at.outside[k] = None

    def correct(self, running):
        """Move along the directions of large eigenvalues, for the outputs still running."""
        layout, at = self._layout, self._at
        pull, decision = at.pull[running], at.decision[running]
        active = pull != 0
        ridges = [ridge[running] for ridge in layout.ridges]
        ridge, slope = _dual_terms(
            pull,
            layout.orientation[running],
            layout.target[running],
            ridges,
            self._half_width[running, None],
        )
        right = np.where(active, -slope - decision - at.intercept[running, None], 0.0)
        weight = np.where(active, 1.0 / (ridge + self._coarse.damping), 0.0)
        total = pull.sum(axis=1) if self._problems[0].fit_intercept else None
        step, intercept_step = layout.coarse.solve(running, weight, right, total)
        # Where one penalty is zero, nothing is allowed past zero.
        one_sided = np.isinf(ridges[0]) | np.isinf(ridges[1])
        step = np.where(one_sided & (pull * (pull + step) < 0), -pull, step)
        image = self._image(step)
        length = np.array(
            [
                self._line_search(k, step[n], image[n], intercept_step[n])
                for n, k in enumerate(running)
            ]
        )
        moved = pull + length[:, None] * step
        # Where a variable was moved to zero, rounding leaves a trace.
        moved[np.abs(moved) < _TRACE * np.abs(pull)] = 0.0
        at.pull[running] = moved
        at.decision[running] = decision + length[:, None] * image
        at.intercept[running] += length * intercept_step

    def _line_search(self, k, step, image, intercept_step):
        """Return how far the dual falls along a step."""
        layout, at, rows = self._layout, self._at, np.flatnonzero(step)
        pull, step = at.pull[k, rows], step[rows]
        shift = step.sum()
        linear = step @ at.decision[k, rows] + (at.intercept[k] + intercept_step) * shift
        linear += self._scale * shift * at.pull[k].sum()
        quadratic = step @ image[rows] + self._scale * shift**2
        orientation, target = layout.orientation[k, rows], layout.target[k, rows]
        ridges = [ridge[k, rows] for ridge in layout.ridges]

        def derivatives(length):
            at = pull + length * step
            ridge, terms = _dual_terms(at, orientation, target, ridges, self._half_width[k])
            first = linear + length * quadratic + step @ terms
            second = np.where(at == 0, 0.0, ridge) @ step**2
            return first, 0.0, quadratic + second

        steepness = -derivatives(0.0)[0]
        if not steepness > 0:
            return 0.0
        allowed = _LINE_RTOL * steepness
        return line_search(
            derivatives, start=1.0, allowed=allowed, low=0.0, high=2.0, max_steps=_LINE_STEPS
        )

    def gap(self, k):
        """Return the relative gap of an output on the samples kept, but for rounding."""
        at, n_kept = self._at, self._layout.order.size
        problem, pull, decision = (
            self._layout.problems[k],
            at.pull[k, :n_kept],
            at.decision[k, :n_kept],
        )
        value = problem.evaluate(pull, at.intercept[k], decision)[0]
        gap = coefficient_gap(problem, pull, decision, value)
        return relative_gap(value, gap, self._problems[k].gap_floor)

    def is_certified(self, k, tol, allowed):
        """Return whether the gap of an output is small with rounding, or cannot be.

        If neither, lower the gap that is `allowed` without.
        """
        found, by_rounding = self.solution(k)
        if found.dual_gap <= tol or by_rounding > _GAP_SHARE * tol:
            return True
        strayed = _excess(self._problems[k], found.decision)[self._layout.outside]
        self._at.strayed = np.maximum(self._at.strayed, strayed)
        room = _GAP_SHARE * (np.sqrt(tol) - np.sqrt(by_rounding)) ** 2
        allowed[k] = room if (strayed > 0).any() else min(room, _GAP_SHARE * allowed[k])
        return False

    def grow(self):
        """Take in the samples that strayed, if any; return whether there were some."""
        layout, at = self._layout, self._at
        n_strayed = np.count_nonzero(at.strayed > 0)
        if n_strayed == 0:
            return False
        self._n_looks += 1
        pull = np.zeros((self.n_outputs, self.design.n_samples))
        pull[:, layout.order] = at.pull[:, : layout.order.size]
        n_wanted = _SPARE * n_strayed if self._n_looks < _MOST_LOOKS else layout.outside.size
        self._keep(layout.outside, at.strayed, n_wanted)
        self._layout, self._at = self._laid_out(pull, at.intercept)
        return True

    def solution(self, k):
        """Return the solution of an output, and what rounding alone adds to its gap."""
        layout, at = self._layout, self._at
        order, outside, kept = layout.order, layout.outside, at.pull[k, : layout.order.size]
        if at.outside[k] is None:
            active = np.flatnonzero(kept)
            at.outside[k] = self.design.kernel.product(outside, order[active], kept[active])
        pull, decision = np.zeros(self.design.n_samples), np.empty(self.design.n_samples)
        pull[order], decision[order] = kept, at.decision[k, : order.size]
        decision[outside] = at.outside[k]
        return certified_solution(self._problems[k], pull, at.intercept[k], decision)


def _padded(triangle, rows, value=0.0):
    """Return rows in the order of a triangle, filled up to whole blocks."""
    rows = np.asarray(rows)
    out = np.full((len(rows), triangle.n_padded), value)
    out[:, : rows.shape[1]] = rows
    return out


def _excess(problem, decision):
    """Return how far outside the band decision values are, negative inside."""
    shortfall, loss = problem.target.shortfall(decision), problem.loss
    below = shortfall - loss.D if loss.C1 > 0 else -np.inf
    above = -shortfall - loss.D if loss.C2 > 0 else -np.inf
    return np.maximum(below, above)


def _dual_terms(pull, orientation, target, ridges, half_width):
    """Return h'' and h' where variables are not zero."""
    ridge = np.where(orientation * pull > 0, *ridges)
    with np.errstate(invalid="ignore"):  # infinite ridges where variables are zero
        return ridge, ridge * pull + half_width * np.sign(pull) - target
