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
from optimargin.systems.base import PRODUCTS, ActiveSystem, Derivatives


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
        self._work = self.operations / PRODUCTS
        self._factor: Any = None

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
        """Change the sums to those of other curvatures; return the sum over all samples."""
        change = curvature - self._weight
        # A sum with weights of both signs takes twice as long as one of squares.
        is_new = 2 * np.count_nonzero(change) > np.count_nonzero(curvature)
        if is_new or not self._grams:
            shape = (self.design.n_coef + 1, self.design.n_coef + 1)
            self._grams, change = [np.zeros(shape)] * len(self._parts), curvature
        n_changed = np.count_nonzero(change)

        def move(k):
            weight = np.zeros_like(change)
            weight[self._parts[k]] = change[self._parts[k]]
            self._grams[k] = self._grams[k] + self.design.weighted_gram(weight)

        if n_changed:
            for_each(move, range(len(self._parts)), self._work * n_changed / change.size)
        self._weight = curvature
        total = np.sum(self._grams, axis=0)
        if not is_new and total.diagonal().min() < 0:  # rounding of rows that differ much in length
            self._weight = np.zeros_like(curvature)
            return self._sum_to(curvature)
        return total

    def _prepare(self):
        self._sum_to(self.curvature)

    def step(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept."""
        gradient = np.append(point.residual, -point.pull.sum())
        return feature_step(self._sum_to(curvature), gradient, self.fit_intercept)

    def _solve(self, decision):
        # Of all matrices the lower triangle is enough.
        self._matrix = self._sum_to(self.curvature)[: self._size, : self._size].copy()
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

    def _represent(self, values):
        """Return ``Z' values`` of columns."""
        sums = self.design.represents(values)
        return np.vstack([sums, values.sum(axis=0)]) if self.fit_intercept else sums

    def _images(self, solved, rows=None):
        """Return ``Z solved`` of columns, of all samples or of `rows`."""
        coef, intercept = self._split(solved)
        return self.design.decisions(coef, rows) + intercept

    def _active_rows(self):
        """Yield blocks of the rows of Z of active samples."""
        for rows in self.design.blocks(self.active):
            Z = self.design.feature_rows(rows)
            yield np.column_stack([Z, np.ones(rows.size)]) if self.fit_intercept else Z

    def _pivots(self):
        root, leverage = self._factor.inverse_root(), [np.zeros(0)]
        for Z in self._active_rows():
            image = Z @ root
            leverage.append(np.einsum("ij,ij->i", image, image))
        return 1 - self.curvature[self.active] * np.concatenate(leverage)

    def influence(self, new):
        """Return the influence of the aims on new samples."""
        if self.fit_intercept:
            new = np.column_stack([new, np.ones(new.shape[0])])
        solved = self._factor.solve(new.T)
        images = [(Z @ solved).T for Z in self._active_rows()]
        return np.hstack([new[:, :0], *images]) * self.curvature[self.active]

    def without(self, rows):
        """Return coefficients and intercepts without `rows`."""
        return self._split(self._leave_out(rows)[1])

    def _leave_out(self, rows, known=None):
        """Return the factor without some samples, and its solution."""
        gone = np.zeros_like(self.curvature)
        gone[rows] = self.curvature[rows]
        gram = self.design.weighted_gram(gone) if known is None else self._grams[known]
        matrix = self._matrix - gram[: self._size, : self._size]
        right = self._right - self._represent(gone[:, None] * self.aim)
        if self.fit_intercept and np.count_nonzero(gone) == self.active.size:
            matrix[-1, :-1] = 0.0  # no sample is left: the intercept stays
            matrix[-1, -1], right[-1] = 1.0, self.intercept
        factor = ThreadsafeFactor(matrix)
        return factor, factor.solve(right)

    def _keeps_models(self, folds):
        # Each has a factor of its own: those of hundreds of pairs of classes would be too many.
        return folds is self._folds

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
