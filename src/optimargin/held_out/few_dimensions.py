"""Refitters of the band loss in few dimensions: held-out values of many samples.

Samples have few features Z: their own, or those of landmarks. With K the kernel values between
samples and landmarks and A = L L' those between landmarks, Z = K L^-T. On the active set, with
curvatures c and aims a (see `closed_form`),

    H w = Z' c a,     H = I + Z' diag(c) Z     (no penalty on the intercept, a feature of ones).

Without a fold B the model is (H - Z_B' c_B Z_B) w_B = Z' c a - Z_B' c_B a_B: all folds of a
partition cost one pass over the samples and a factorisation each, whatever their size. Newton's
method finds the active set. It keeps the sums over folds, and adds what samples that change sides
change in them. Where the loss is one quadratic function, all outputs with the same weights share
curvatures, sums and factors.

Derivatives. With s the slopes by the held-out values, v the solution of (H - ...) v = Z_B' s_B,
alpha = c Z v and theta = c (a - Z w_B) on the samples that took part, a function F of the
held-out values changes by

    dF = alpha' (da + (a - Z w_B) dlog c)
         + s_B' dK_B b - alpha' dK b + theta' dK u - u' dA b,     b = L^-T w_B,   u = L^-T v.

Products over samples are in the precision of the features, float32 for many samples; systems are
solved in float64.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, solve_triangular

from optimargin._linalg import Factor, ThreadsafeFactor
from optimargin._threads import for_each
from optimargin.held_out.quadratic import is_quadratic
from optimargin.held_out.refitter import Derivatives, Folds, HeldOut, Refitter, Solved

# Added to kernel values of landmarks with themselves: rounding must not make them dependent.
_JITTER = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-10}
_MAX_ITER = 50
_SETTLED = 1e-9  # relative decrease of the objective below which changes of sides do not matter
_ALL_AGAIN = 0.3  # share of samples on another side from which sums are made anew
_BLOCK_ELEMENTS = 1 << 24  # 64 MB of float32 for scaled rows
_OPERATIONS = 100  # of products of matrices that take as long as one of other loops


@dataclass(frozen=True)
class LandmarkData:
    """Samples given by their distances to some of them.

    Attributes
    ----------
    distances : ndarray of shape (n_samples, n_landmarks)
        Squared; their type is the precision of products over samples.
    between : ndarray of shape (n_landmarks, n_landmarks), float64
        Squared distances between the landmarks.
    folds : Folds
        That will be left out.
    """

    distances: np.ndarray
    between: np.ndarray
    folds: Folds


@dataclass(frozen=True)
class FewFeatures:
    """Samples given by few features.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centred; its type is the precision of products over samples.
    folds : Folds
        That will be left out.
    """

    X: np.ndarray
    folds: Folds


class Features:
    """The features of all samples, and products with them.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_coef)
        The last column is one where an intercept is fitted.
    fit_intercept : bool
    """

    def __init__(self, Z, fit_intercept):
        self.Z, self.dtype = Z, Z.dtype
        self.n_coef = Z.shape[1]
        self.penalised = np.ones(self.n_coef)
        self.penalised[self.n_coef - fit_intercept :] = 0.0

    def gram(self, rows, weight):
        """Return ``Z[rows].T @ diag(weight) @ Z[rows]``, float64; weights may be negative."""
        total = np.zeros((self.n_coef, self.n_coef))
        n_block = max(_BLOCK_ELEMENTS // self.n_coef, 1)
        for first in range(0, rows.size, n_block):
            some = slice(first, first + n_block)
            total += self._gram_of(rows[some], weight[some].astype(self.dtype))
        return total

    def _gram_of(self, rows, weight):
        part = self.Z[rows]
        if (weight < 0).any():
            return (part * weight[:, None]).T @ part
        part *= np.sqrt(weight)[:, None]
        return part.T @ part  # which NumPy knows to be symmetric

    def product(self, coef):
        """Return ``Z @ coef`` of a vector or of columns, float64."""
        return (self.Z @ coef.astype(self.dtype)).astype(np.float64)

    def represent(self, values, rows=slice(None)):
        """Return ``Z[rows].T @ values`` of a vector or of columns, float64."""
        return (self.Z[rows].T @ values.astype(self.dtype)).astype(np.float64)

    def by_width(self, pairs):
        """Return a derivative by the logarithm of the width: none."""
        return 0.0


class LandmarkFeatures(Features):
    """The features of landmarks at one width of the kernel.

    Parameters
    ----------
    data : LandmarkData
    kernel : RadialKernel
    fit_intercept : bool
    gradient : bool
        Whether derivatives by the width will be asked for.
    """

    def __init__(self, data, kernel, fit_intercept, *, gradient):
        n_samples, n_landmarks = data.distances.shape
        dtype = data.distances.dtype
        A = kernel.of_distances(data.between)
        K = kernel.of_distances(data.distances)
        self._slopes: Any = None
        if gradient:
            self._slopes = (
                kernel.width_slope(data.distances, K),
                kernel.width_slope(data.between, A),
            )
        A[np.diag_indices_from(A)] += _JITTER[dtype]
        self._factor = Factor(A).lower
        inverse = solve_triangular(self._factor, np.eye(n_landmarks), lower=True)
        multiply = blas.strmm if dtype == np.float32 else blas.dtrmm
        Z = np.empty((n_samples, n_landmarks + fit_intercept), dtype=dtype)
        Z[:, n_landmarks:] = 1.0
        Z[:, :n_landmarks] = multiply(
            1.0, inverse.astype(dtype, order="F"), K.T, lower=1, overwrite_b=1
        ).T
        super().__init__(Z, fit_intercept)
        self._n_landmarks = n_landmarks

    def to_landmarks(self, coef):
        """Return the coefficients of landmarks, of columns of coefficients of features."""
        inner = coef[: self._n_landmarks]
        return solve_triangular(self._factor, inner, lower=True, trans="T", check_finite=False)

    def by_width(self, pairs):
        """Return the derivative by the logarithm of the width.

        Parameters
        ----------
        pairs : iterable of (left, coef, right, adjoint)
            As in ``left' dK L^-T coef + right' dK L^-T adjoint - adjoint' L^-1 dA L^-T coef``:
            columns over samples and over features, float64.
        """
        of_samples, of_landmarks = self._slopes
        total = 0.0
        for left, coef, right, adjoint in pairs:
            b, u = self.to_landmarks(coef), self.to_landmarks(adjoint)
            moved = of_samples @ np.hstack([b, u]).astype(self.dtype)
            total += np.vdot(np.hstack([left, right]), moved) - np.vdot(u, of_landmarks @ b)
        return float(total)


class FewDimensionsRefitter(Refitter):
    """Problems of the band loss over few features.

    With landmarks, `change_width` must be called before the first solve.

    Parameters
    ----------
    data : LandmarkData or FewFeatures
    targets : list of Target
        Of positive weights.
    fit_intercept : bool
    """

    def __init__(self, data, targets, fit_intercept):
        self.data = data
        self.targets = targets
        self.fit_intercept = fit_intercept
        self.features: Any = None
        if isinstance(data, FewFeatures):
            ones = np.ones((data.X.shape[0], int(fit_intercept)), dtype=data.X.dtype)
            self.features = Features(np.hstack([data.X, ones]), fit_intercept)
        self._decisions = [np.zeros(target.n_samples) for target in targets]
        first = targets[0].weight
        self._share_weights = all(np.array_equal(target.weight, first) for target in targets)

    def change_width(self, kernel, *, gradient):
        """Go on with another width; its derivatives are found where a gradient is wanted."""
        self.features = None  # frees its memory for the new one
        self.features = LandmarkFeatures(self.data, kernel, self.fit_intercept, gradient=gradient)

    def solve(self, objective):
        """Solve the problem of every output."""
        losses = [objective.loss(target.scale) for target in self.targets]
        folds = self.data.folds
        if self._share_weights and is_quadratic(losses):
            systems = [_solve_quadratic(self.features, folds, self.targets, losses[0])]
        else:
            systems = [
                _Newton(self.features, folds, target, loss).solve(decision)
                for target, loss, decision in zip(
                    self.targets, losses, self._decisions, strict=True
                )
            ]
        self._decisions = [column for system in systems for column in system.decision.T]
        return FewDimensionsSolved(self.features, folds, systems)


class _FoldSums:
    """Sums over the samples of each fold, for one set of curvatures."""

    def __init__(self, features, folds):
        self.features = features
        self.parts = [rows for _, rows in folds.models()]
        self._n_folds = folds.n_folds  # of one repeat, which together are all samples
        self.curvature = np.zeros(features.Z.shape[0])
        self._grams: list[np.ndarray] = []

    def move_to(self, curvature):
        """Change the sums to those of other curvatures."""
        changed = curvature != self.curvature
        again = not self._grams or np.count_nonzero(changed) > _ALL_AGAIN * changed.size
        first_repeat = self.parts[: self._n_folds]
        n_moved = changed.size if again else np.count_nonzero(changed)
        if again:
            self._grams = [np.empty(0)] * self._n_folds

        def move(j):
            rows = first_repeat[j]
            some = rows[changed[rows]]
            if again:
                self._grams[j] = self._gram(rows, curvature)
            elif some.size:
                change = curvature[some] - self.curvature[some]
                self._grams[j] += self.features.gram(some, change)

        self.for_folds(move, range(self._n_folds), n_moved)
        self.curvature = curvature

    def for_folds(self, function, items, n_rows):
        """Call a function for each item, in threads where so many rows are worth it."""
        for_each(function, items, n_rows * self.features.n_coef**2 / _OPERATIONS)

    def _gram(self, rows, curvature):
        active = rows[curvature[rows] > 0]
        return self.features.gram(active, curvature[active])

    def matrix(self):
        """Return the matrix of all samples."""
        H = np.sum(self._grams, axis=0)
        H[np.diag_indices_from(H)] += self.features.penalised
        if H[-1, -1] == 0.0:
            H[-1, -1] = 1.0  # no sample is active: the intercept stays
        return H

    def factor_without(self, matrix, j):
        """Return the factor of the matrix of all samples without fold `j`."""
        rows = self.parts[j]
        gone = self._grams[j] if j < self._n_folds else self._gram(rows, self.curvature)
        return ThreadsafeFactor(matrix - gone)


@dataclass(frozen=True)
class _System:
    """Solutions of outputs that share their curvatures.

    Attributes
    ----------
    sums : _FoldSums
    aim, decision, outward : ndarray of shape (n_samples, n_outputs)
        Aims, decision values, and how aims change with the half-width of the band.
    below : ndarray of shape (n_samples, n_outputs), dtype bool
        Which samples have the curvature of C1; the other active ones have that of C2.
    coef : ndarray of shape (n_coef, n_outputs)
    objective : ndarray of shape (n_outputs,)
    """

    sums: _FoldSums
    aim: np.ndarray
    decision: np.ndarray
    outward: np.ndarray
    below: np.ndarray
    coef: np.ndarray
    objective: np.ndarray

    @cached_property
    def models(self):
        """Factors of the models without each fold, and their coefficients by folds."""
        features, curvature = self.sums.features, self.sums.curvature
        pull = curvature[:, None] * self.aim
        right = features.represent(pull)
        parts, matrix = self.sums.parts, self.sums.matrix()
        factors: list[Any] = [None] * len(parts)
        coef: list[Any] = [None] * len(parts)

        def leave_out(j):
            factors[j] = self.sums.factor_without(matrix, j)
            coef[j] = factors[j].solve(right - features.represent(pull[parts[j]], parts[j]))

        self.sums.for_folds(leave_out, range(len(parts)), curvature.size)
        return factors, coef


def _solve_quadratic(features, folds, targets, loss):
    """Return the system of all outputs of a quadratic loss."""
    weight = targets[0].weight
    curvature = 2 * loss.C1 * weight
    sums = _FoldSums(features, folds)
    sums.move_to(curvature)
    aim = np.stack([target.value for target in targets], axis=1)
    coef = Factor(sums.matrix()).solve(features.represent(curvature[:, None] * aim))
    decision = features.product(coef)
    orientation = np.stack([target.orientation for target in targets], axis=1)
    error = aim - decision
    below = orientation * error > 0
    value = 0.5 * (curvature @ error**2 + features.penalised @ coef**2)
    outward = orientation * np.where(below, -1.0, 1.0)
    return _System(sums, aim, decision, outward, below, coef, value)


class _Newton:
    """The problem of one output: Newton's method, keeping sums over folds."""

    def __init__(self, features, folds, target, loss):
        self.features, self.target, self.loss = features, target, loss
        self.sums = _FoldSums(features, folds)

    def _state(self, decision):
        """Return sides, curvatures and aims at decision values."""
        loss, target = self.loss, self.target
        shortfall = target.shortfall(decision)
        side = ((shortfall < -loss.D) & (loss.C2 > 0)).astype(np.int8) - (shortfall > loss.D)
        penalty = np.where(side < 0, loss.C1, np.where(side > 0, loss.C2, 0.0))
        return side, 2 * penalty * target.weight, target.value + target.orientation * side * loss.D

    def solve(self, start):
        """Return the solution, from the active set of some decision values."""
        features, sums = self.features, self.sums
        coef: Any = None
        decision, value = start, np.inf
        side, curvature, aim = self._state(start)
        for _ in range(_MAX_ITER):
            sums.move_to(curvature)
            new = Factor(sums.matrix()).solve(features.represent(curvature * aim))
            moved = features.product(new)
            if coef is not None:
                length = self._length(coef, new - coef, decision, moved - decision)
                new, moved = coef + length * (new - coef), decision + length * (moved - decision)
            coef, decision = new, moved
            before = value
            now, curvature, aim = self._state(decision)
            value = self._value(coef, curvature, aim - decision)
            if (now == side).all() or before - value <= _SETTLED * value:
                break
            side = now
        sums.move_to(curvature)
        return _System(
            sums,
            aim[:, None],
            decision[:, None],
            (self.target.orientation * now)[:, None],
            (now < 0)[:, None],
            coef[:, None],
            np.array([value]),
        )

    def _value(self, coef, curvature, error):
        return 0.5 * float(curvature @ error**2 + self.features.penalised @ coef**2)

    def _length(self, coef, step, decision, change):
        """Return the step length, of at most one, that minimises the objective."""
        penalised = self.features.penalised
        linear, quadratic = penalised @ (coef * step), penalised @ step**2

        def slopes(length):
            here = decision + length * change
            _, curvature, aim = self._state(here)
            first = linear + length * quadratic - (curvature * (aim - here)) @ change
            return first, quadratic + curvature @ change**2

        start, _ = slopes(0.0)
        low, high, length = 0.0, 1.0, 1.0
        if start >= 0:
            return length  # flat, up to rounding
        for _ in range(40):
            slope, curvature = slopes(length)
            if abs(slope) <= -1e-3 * start or (slope < 0 and length == 1.0):
                break
            low, high = (length, high) if slope < 0 else (low, length)
            length -= slope / curvature
            if not low < length < high:
                length = 0.5 * (low + high)
        return length


class FewDimensionsSolved(Solved):
    """Solutions over few features, and their closed forms."""

    def __init__(self, features, folds, systems):
        self._features, self._folds, self._systems = features, folds, systems
        self.objective = np.concatenate([system.objective for system in systems])
        self.dual_gap = np.zeros(self.objective.size)
        coef = np.hstack([system.coef for system in systems])
        penalised = features.penalised > 0
        self.coef, self.intercept = coef[penalised].T, coef[~penalised].sum(axis=0)

    def predict_test(self):
        """Raise an error: there are no test samples."""
        raise TypeError("There are no test samples.")

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives.

        Parameters
        ----------
        folds : Folds
            Those of the data.
        """
        if folds is not self._folds:
            raise ValueError("The folds must be those that the refitter was made with.")
        out = np.empty((*folds.fold.shape, self.objective.size))
        n_done = 0
        for system in self._systems:
            n_outputs = system.aim.shape[1]
            columns = slice(n_done, n_done + n_outputs)
            for (repeat, rows), coef in zip(folds.models(), system.models[1], strict=True):
                part = self._features.Z[rows] @ coef.astype(self._features.dtype)
                out[repeat, rows, columns] = part
            n_done += n_outputs
        return HeldOut(out, self._derivatives)

    def _derivatives(self, slope):
        by_loss, pairs = np.zeros(3), []
        n_done = 0
        for system in self._systems:
            n_outputs = system.aim.shape[1]
            of_system = slope[..., n_done : n_done + n_outputs]
            n_done += n_outputs
            factors, coefs = system.models
            found: list[Any] = [None] * len(factors)

            def of_fold(item, system=system, of_system=of_system, found=found):
                j, (repeat, rows), factor, coef = item
                found[j] = self._of_fold(system, of_system[repeat], rows, factor, coef)

            models = enumerate(zip(self._folds.models(), factors, coefs, strict=True))
            items = [(j, *model) for j, model in models]
            system.sums.for_folds(of_fold, items, system.aim.shape[0])
            for by_fold, pair in found:
                by_loss += by_fold
                pairs.append(pair)
        return Derivatives(by_loss, self._features.by_width(pairs))

    def _of_fold(self, system, slope, rows, factor, coef):
        """Return what one fold adds to derivatives by the loss, and to `by_width`."""
        n_outputs = system.aim.shape[1]
        spread = np.zeros_like(system.aim)
        spread[rows] = slope[rows]
        adjoint = factor.solve(self._features.represent(spread[rows], rows))
        kept = system.sums.curvature.copy()
        kept[rows] = 0.0
        both = self._features.product(np.hstack([adjoint, coef]))
        alpha = kept[:, None] * both[:, :n_outputs]
        error = system.aim - both[:, n_outputs:]
        by_log = alpha * error
        below = by_log[system.below].sum()
        by_loss = np.array([below, by_log.sum() - below, np.vdot(alpha, system.outward)])
        return by_loss, (spread - alpha, coef, kept[:, None] * error, adjoint)
