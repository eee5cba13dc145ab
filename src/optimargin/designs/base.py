"""What a design offers: products with the matrix Phi of all samples' features phi_i.

A design has its own coefficients v for a weight vector w:

    decision(v)     the values phi_i' w of all samples
    represent(r)    the coefficients of sum_i r_i phi_i
    metric(v)       M v with |w|^2 = v' M v

There are two kinds. In *feature space* v are orthonormal coordinates of w and M is the identity.
In *sample space* w = sum_i v_i phi_i, and M is the Gram matrix. Solvers and closed forms have a
method for each kind (`by_space` chooses), so that a new design is a subclass of
`FeatureSpaceDesign` or `SampleSpaceDesign` with the few abstract methods below. Everything else
has a default that is right but slow; a design overrides what it can do faster.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from optimargin._core._rows import DenseRows, GramRows
from optimargin.kernels.prepared import row_blocks


class Design(ABC):
    """Products with the features of all samples.

    Attributes
    ----------
    n_samples, n_coef : int
    own_threads : bool
        Whether threads of the compiled core do the work, so that BLAS needs only one.
    """

    n_samples: int
    n_coef: int
    own_threads: bool = False

    @property
    def is_rounded(self):
        """Whether kernel values are rounded: see `SampleSpaceDesign.precise`."""
        return False

    @abstractmethod
    def decision(self, v):
        """Return the values phi_i' w of all samples, of shape (n_samples,)."""

    @abstractmethod
    def represent(self, r):
        """Return the coefficients of sum_i r_i phi_i, of shape (n_coef,)."""

    def decisions(self, V, rows=None):
        """Return ``decision(v)`` of each column of `V`, of all samples or of `rows`."""
        values = np.stack([self.decision(v) for v in np.ascontiguousarray(V.T)], axis=1)
        return values if rows is None else values[rows]

    def represents(self, R):
        """Return ``represent(r)`` of each column of `R`."""
        return np.stack([self.represent(r) for r in np.ascontiguousarray(R.T)], axis=1)

    @abstractmethod
    def metric(self, v, decision=None):
        """Return M v; `decision` is ``decision(v)`` where the caller has it."""

    @property
    @abstractmethod
    def squared_norms(self):
        """``|phi_i|^2``, of shape (n_samples,)."""

    @abstractmethod
    def residual_image(self, residual, coef, decision, pull):
        """Return the metric applied to ``residual = coef - represent(pull)``, and its square.

        Parameters
        ----------
        residual, coef : ndarray of shape (n_coef,)
        decision, pull : ndarray of shape (n_samples,)
            ``decision(coef)``, and the pulls.

        Returns
        -------
        image : ndarray of shape (n_coef,)
            In sample space needed only where `pull` is not zero.
        square : float
            ``residual @ M @ residual``.
        """

    def decision_step(self, step, coef, decision):
        """Return ``decision(step)``, for a step from `coef`, where decision values are known."""
        return self.decision(step)

    @abstractmethod
    def sample_coefficients(self, coef, pull):
        """Return a solution as coefficients of the samples."""

    @abstractmethod
    def rows(self, r):
        """Return row access for coordinate descent, and the vector that it will update.

        Parameters
        ----------
        r : ndarray of shape (n_samples,)
            The descent starts at sum_i r_i phi_i.

        Returns
        -------
        rows : Rows
        image : ndarray
            Coefficients w in feature space, decision values in sample space.
        """


class FeatureSpaceDesign(Design):
    """Coefficients are orthonormal coordinates of w."""

    @abstractmethod
    def feature_rows(self, rows):
        """Return the features of the samples `rows` as a dense float64 array."""

    def decision(self, v):
        """Return the values phi_i' w of all samples."""
        return np.concatenate(
            [self.feature_rows(part) @ v for part in self.blocks(np.arange(self.n_samples))]
        )

    def represent(self, r):
        """Return sum_i r_i phi_i."""
        total = np.zeros(self.n_coef)
        for part in self.blocks(np.flatnonzero(r)):
            total += r[part] @ self.feature_rows(part)
        return total

    def metric(self, v, decision=None):
        """Return `v`: the coordinates are orthonormal."""
        return v

    @cached_property
    def squared_norms(self):
        """Squared norms of the rows."""
        norms = np.empty(self.n_samples)
        for part in self.blocks(np.arange(self.n_samples)):
            norms[part] = np.square(self.feature_rows(part)).sum(axis=1)
        return norms

    def residual_image(self, residual, coef, decision, pull):
        """Return `residual` and its squared norm."""
        return residual, residual @ residual

    def sample_coefficients(self, coef, pull):
        """Return the pulls: at the optimum w is their sum over the samples."""
        return pull

    def take(self, rows):
        """Return the design of the samples `rows` alone."""
        from optimargin.designs.features import FeatureDesign

        return FeatureDesign(self.feature_rows(rows))

    def decision_on(self, rows, v):
        """Return ``decision(v)[rows]``."""
        return self.decision(v)[rows]

    def weighted_gram(self, weight):
        """Return ``Z.T @ diag(weight) @ Z`` with ``Z = [Phi, 1]``; the lower triangle is enough.

        Rows of zero weight are skipped. Weights may be negative, which makes changes of a known
        matrix cheap: only the rows whose weight changed are read.
        """
        total = np.zeros((self.n_coef + 1, self.n_coef + 1))
        for part in self.blocks(np.flatnonzero(weight)):
            Z = np.column_stack([self.feature_rows(part), np.ones(part.size)])
            total += Z.T @ (weight[part, None] * Z)
        return total

    def decisions(self, V, rows=None):
        """Return ``decision(v)`` of each column of `V`, of all samples or of `rows`."""
        if rows is None:
            return super().decisions(V)
        return np.stack([self.decision_on(rows, v) for v in np.ascontiguousarray(V.T)], axis=1)

    def feature_forms(self, *products):
        """Return derivatives by what the features depend on: `systems.base.Form`, by default none.

        Parameters
        ----------
        *products : pair of ndarray of shape (n_samples, k), (n_coef, k)
            A function changes by the sum over pairs of ``left' dPhi coef``.
        """
        return []

    def hessian_product(self, rows, weight, v):
        """Return ``Z.T @ image`` and ``image = weight * (Z @ v)`` with ``Z = Phi[rows]``."""
        image = weight * self.decision_on(rows, v)
        spread = np.zeros(self.n_samples)
        spread[rows] = image
        return self.represent(spread), image

    def diagonal(self, rows, weight):
        """Return or estimate ``1 + sum_i weight_i phi_i**2`` over `rows`, of shape (n_coef,)."""
        out = np.ones(self.n_coef)
        for part in self.blocks(np.arange(rows.size)):
            out += weight[part] @ np.square(self.feature_rows(rows[part]))
        return out

    def rows(self, r):
        """Return row access, and w as the vector that it will update."""
        w = self.represent(r) if r.any() else np.zeros(self.n_coef)
        return self.rows_of(w), w

    def rows_of(self, w):
        """Return row access; moving along a row updates `w`."""
        Z = np.ascontiguousarray(self.feature_rows(np.arange(self.n_samples)))
        return DenseRows(Z, None, w, self.squared_norms)

    def blocks(self, rows):
        """Yield parts of some rows whose features fit into a block."""
        for part in row_blocks(rows.size, self.n_coef):
            yield rows[part]


class SampleSpaceDesign(Design):
    """Coefficients belong to samples: w = sum_i v_i phi_i, and the metric is the Gram matrix.

    Attributes
    ----------
    complete : bool
        Whether products with all samples are cheap, because all kernel values are in memory.
    account : RoundingProbe or None
        What rounding of kernel values changes, where these have less than double precision.
    rounds_independently : bool
        Whether the rounding errors of all kernel values have nothing to do with each other.
    """

    complete: bool = True
    account: Any = None
    rounds_independently: bool = False

    @property
    def is_rounded(self):
        """Whether kernel values are rounded to less than double precision."""
        return self.account is not None

    @cached_property
    def precise(self):
        """The same design in double precision, where this one is rounded."""
        return self._in_double(self.account.precise_kernel())

    def _in_double(self, kernel):
        """Return the same design of a kernel in double precision."""
        raise NotImplementedError

    def rounding(self, coef, decision, weight, *, is_stiff=False):
        """Return what rounding can do; see `RoundingProbe.effects`."""
        return self.account.effects(coef, decision, weight, is_stiff=is_stiff)

    @abstractmethod
    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""

    @abstractmethod
    def columns(self, columns, rows=slice(None)):
        """Return ``K[rows][:, columns]`` as float64."""

    def decision(self, v):
        """Return ``K @ v``."""
        return self.product(v[None])[0]

    def represent(self, r):
        """Return `r`: coefficients belong to samples."""
        return r

    def metric(self, v, decision=None):
        """Return ``K @ v``, taken from `decision` where the caller has it."""
        return self.decision(v) if decision is None else decision

    def residual_image(self, residual, coef, decision, pull):
        """Return ``K @ residual`` and its product with `residual`."""
        image = self.metric(residual)
        return image, residual @ image

    def sample_coefficients(self, coef, pull):
        """Return `coef`."""
        return coef

    def product_on(self, rows, V):
        """Return ``V @ K[rows][:, rows]`` for vectors in the rows of `V`."""
        padded = np.zeros((V.shape[0], self.n_samples))
        padded[:, rows] = V
        return self.product(padded)[:, rows]

    def block(self, rows):
        """Return ``K[rows][:, rows]`` as a new float64 array."""
        return np.ascontiguousarray(self.columns(rows, rows))

    def take(self, rows):
        """Return the design of the samples `rows` alone, to be used before this one."""
        from optimargin.designs.gram import GramDesign

        return GramDesign(self.block(rows))

    def max_landmarks(self, n_rows):
        """Return how many columns of `n_rows` samples the memory limit allows."""
        return n_rows

    @property
    def low_rank_factor(self):
        """B of shape (n_samples, rank) with B B' = K to rounding, or None."""
        return None

    def rows(self, r):
        """Return row access, and the decision values as the vector that it will update."""
        decision = self.decision(r)

        def row(i):
            return np.ascontiguousarray(self.columns(np.array([i]))[:, 0])

        return GramRows(None, row, decision, self.squared_norms), decision


def by_space(design, in_features, in_samples):
    """Return the one of two things that suits the space of a design."""
    return in_features if isinstance(design, FeatureSpaceDesign) else in_samples
