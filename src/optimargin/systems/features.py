"""Normal equations over few features: `optimargin.systems.base` says what is asked of them.

With Z = [Phi, 1] the rows of the features, and a one where an intercept is fitted,

    H [w; b] = Z' c a,     H = diag(1, ..., 1, 0) + Z' diag(c) Z,

and the model without a fold B is (H - Z_B' c_B Z_B) w_B = Z' c a - Z_B' c_B a_B. The sums over
folds that are known beforehand are kept: Newton's method changes them by the samples that change
sides, and all models without one of them cost a factorisation each, whatever their size.

Derivatives. With s the slopes by the held-out values, v the solution of (H - ...) v = Z_B' s_B and
alpha = c Z v on the samples that took part, a function of the held-out values changes by

    alpha' (da + (a - Z w_B) dlog c)

and by what features that depend on a parameter add (`Design.feature_forms`).
"""

from typing import Any

import numpy as np

from optimargin._linalg import Factor, ThreadsafeFactor, solve_spd
from optimargin._threads import for_each
from optimargin.systems.base import ActiveSystem, Derivatives

_BLOCK_ELEMENTS = 1 << 20  # 8 MB of float64 for a block of rows
_ALL_AGAIN = 0.5  # share of the active samples on another side, past which sums are made anew
_OPERATIONS = 100  # of products of matrices that take as long as one of other loops


class FeatureSystem(ActiveSystem):
    """The system in the coordinates of the features.

    Parameters
    ----------
    design : FeatureSpaceDesign
    fit_intercept : bool
    folds : Folds, default=None
        Those that will be left out; sums over the folds of the first partition are kept.
    """

    def __init__(self, design, *, fit_intercept, folds=None):
        super().__init__(design, fit_intercept=fit_intercept)
        self._folds = folds
        self._parts = [np.arange(design.n_samples)]
        if folds is not None:
            self._parts = [rows for _, rows in folds.models()][: folds.n_folds]
        self._weight = np.zeros(design.n_samples)
        self._grams: list = []  # of `_weight`, one per part
        self._size = design.n_coef + fit_intercept
        self._factor: Any = None
        self._models: Any = None
        self._kept_pivots: Any = None

    @property
    def operations(self):
        """Those of the sums over all samples."""
        return self.design.n_samples * float(self.design.n_coef) ** 2

    @property
    def n_bytes(self):
        """The sums of every part and of all, a factor, and one for each model that is kept."""
        n_models = 0 if self._folds is None else self._folds.fold.shape[0] * self._folds.n_folds
        return 8.0 * self._size**2 * (len(self._parts) + 2 + n_models)

    def _sum_to(self, curvature):
        """Change the sums to those of other curvatures."""
        changed = curvature != self._weight
        n_changed = np.count_nonzero(changed)
        again = not self._grams or n_changed > _ALL_AGAIN * np.count_nonzero(curvature)
        if again:
            self._grams = [np.zeros(())] * len(self._parts)
        elif n_changed == 0:
            return

        def move(k):
            rows = self._parts[k]
            change = np.zeros(curvature.size)
            change[rows] = curvature[rows] if again else (curvature - self._weight)[rows]
            self._grams[k] = self._grams[k] + self.design.weighted_gram(change)

        for_each(move, range(len(self._parts)), self._work(curvature.size if again else n_changed))
        self._weight = curvature
        if not again and np.sum(self._grams, axis=0).diagonal().min() < 0:
            self._grams = []  # rounding of rows that differ much in length
            self._sum_to(curvature)

    def _work(self, n_rows):
        """Return the operations of sums over folds, where there are several."""
        return n_rows * float(self._size) ** 2 / _OPERATIONS if len(self._parts) > 1 else 0.0

    def step(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept."""
        self._sum_to(curvature)
        gradient = np.append(point.residual, -point.pull.sum())
        return feature_step(np.sum(self._grams, axis=0), gradient, self.fit_intercept)

    def _solve(self, decision):
        self._sum_to(self.curvature)
        self._models = self._kept_pivots = None
        # Of all matrices the lower triangle is enough.
        self._matrix = np.sum(self._grams, axis=0)[: self._size, : self._size].copy()
        penalised = np.arange(self.design.n_coef)
        self._matrix[penalised, penalised] += 1.0
        self._right = self._represent(self.curvature[:, None] * self.aim)
        if self.fit_intercept and self.active.size == 0:
            self._matrix[-1, -1] = 1.0  # the intercept stays at zero
        self._factor = Factor(self._matrix)
        self._solution = self._factor.solve(self._right)
        self.coef, self.intercept = self._split(self._solution)
        self.decision = self._images(self._solution)
        self.error = (self.aim - self.decision)[self.active]

    def _split(self, found):
        """Return coefficients and intercepts."""
        if self.fit_intercept:
            return found[:-1], found[-1]
        return found, np.zeros(found.shape[1])

    def _represent(self, values, design=None):
        """Return ``Z' values`` of columns, of all samples or of those of a design."""
        sums = (design or self.design).represents(values)
        return np.vstack([sums, values.sum(axis=0)]) if self.fit_intercept else sums

    def _images(self, solved, rows=None):
        """Return ``Z solved`` of columns, of all samples or of `rows`."""
        coef, intercept = self._split(solved)
        return self.design.decisions(coef, rows) + intercept

    def _packed(self, rows):
        packed = self.design.feature_rows(rows)
        return np.column_stack([packed, np.ones(rows.size)]) if self.fit_intercept else packed

    def _blocks(self):
        """Yield parts of the active samples that fit into a block."""
        n_block = max(_BLOCK_ELEMENTS // self._size, 1)
        for first in range(0, self.active.size, n_block):
            yield slice(first, first + n_block)

    def _pivots(self):
        """Return one minus the leverages."""
        if self._kept_pivots is None:
            whitened = self._factor.inverse_root()
            self._kept_pivots = np.empty(self.active.size)
            for part in self._blocks():
                rows = self.active[part]
                image = self._packed(rows) @ whitened
                square = np.einsum("ij,ij->i", image, image)
                self._kept_pivots[part] = 1 - self.curvature[rows] * square
        return self._kept_pivots

    def influence(self, new):
        """Return the influence of the aims on new samples."""
        if self.fit_intercept:
            new = np.column_stack([new, np.ones(new.shape[0])])
        solved = self._factor.solve(new.T)
        out = np.empty((new.shape[0], self.active.size))
        for part in self._blocks():
            out[:, part] = (self._packed(self.active[part]) @ solved).T
        return out * self.curvature[self.active]

    def without(self, rows):
        """Return coefficients and intercepts without `rows`."""
        return self._split(self._leave_out(rows)[1])

    def _leave_out(self, rows, gram=None):
        """Return the factor without some samples, and its solution.

        Parameters
        ----------
        rows : ndarray
        gram : ndarray, default=None
            Their part of the normal equations, where it is known.
        """
        rows = rows[self.curvature[rows] > 0]
        weight = self.curvature[rows]
        design, pull = self.design, weight[:, None] * self.aim[rows]
        if gram is None:
            design = design.take(rows)
            gram = design.weighted_gram(weight)
        else:
            spread = np.zeros_like(self.aim)
            spread[rows], pull = pull, spread
        matrix = self._matrix - gram[: self._size, : self._size]
        right = self._right - self._represent(pull, design)
        if self.fit_intercept and rows.size == self.active.size:
            matrix[-1, :-1] = 0.0  # no sample is left: the intercept stays
            matrix[-1, -1], right[-1] = 1.0, self.intercept
        factor = ThreadsafeFactor(matrix)
        return factor, factor.solve(right)

    def _each_model(self, folds, function):
        """Call a function for the model without each fold, in threads.

        The factors are kept for the folds that were known beforehand, which are few.
        """
        known = folds is self._folds
        self._sum_to(self.curvature)
        if known and self._models is None:
            self._models = [None] * (folds.fold.shape[0] * folds.n_folds)
        grams = self._grams if known else []

        def leave_out(item):
            j, (repeat, rows) = item
            model = self._models[j] if known else None
            if model is None:
                model = self._leave_out(rows, grams[j] if j < len(grams) else None)
            if known:
                self._models[j] = model
            function(j, repeat, rows, model)

        for_each(leave_out, enumerate(folds.models()), self._work(self.curvature.size))

    def _values_without(self, rows, model):
        return self._images(model[1], rows)

    def _differentiate_without(self, rows, model, slope):
        spread, kept = np.zeros_like(self.aim), self.curvature.copy()
        spread[rows], kept[rows] = slope, 0.0
        return self._differentiate(self._represent(spread), spread, kept, *model)

    def _differentiate_test(self, test, slope):
        by_coef = test.represents(slope)
        if self.fit_intercept:
            by_coef = np.vstack([by_coef, slope.sum(axis=0)])
        none = np.zeros_like(self.aim)
        return self._differentiate(by_coef, none, self.curvature, self._factor, self._solution)

    def _differentiate(self, by_coef, spread, kept, factor, solution):
        """Return the derivatives of a function of a model of some samples.

        Parameters
        ----------
        by_coef : ndarray of shape (n_coef, n_outputs)
            Its derivatives by the coefficients and intercepts.
        spread : ndarray of shape (n_samples, n_outputs)
            The same by the values of these samples.
        kept : ndarray of shape (n_samples,)
            The curvatures of the samples that took part.
        factor, solution : Factor, ndarray
            Of the model.
        """
        adjoint = factor.solve(by_coef)
        both = self._images(np.hstack([adjoint, solution]))
        n_outputs = self.aim.shape[1]
        alpha = kept[:, None] * both[:, :n_outputs]
        error = self.aim - both[:, n_outputs:]
        forms = self.design.feature_forms(
            (spread - alpha, self._split(solution)[0]),
            (kept[:, None] * error, self._split(adjoint)[0]),
        )
        return Derivatives(alpha, alpha * error, forms)


def feature_step(gram, gradient, fit_intercept):
    """Solve the Newton system of w and b.

    Parameters
    ----------
    gram : ndarray of shape (n_coef + 1, n_coef + 1)
        ``[Phi, 1]' C [Phi, 1]``, lower triangle.
    gradient : ndarray of shape (n_coef + 1,)
        In w, then in b.
    fit_intercept : bool

    Returns
    -------
    coef_step : ndarray of shape (n_coef,)
    intercept_step : float
    """
    n_coef = gradient.size - 1
    hessian = gram.copy()
    hessian[np.arange(n_coef), np.arange(n_coef)] += 1.0
    if not (fit_intercept and hessian[-1, -1] > 0):
        hessian, gradient = np.ascontiguousarray(hessian[:n_coef, :n_coef]), gradient[:n_coef]
    step = solve_spd(hessian, -gradient)
    return step[:n_coef], step[n_coef] if step.size > n_coef else 0.0
