"""Quadratic losses over a Gram matrix: all outputs share one inverse.

With C1 = C2 and no band every sample is active, whatever the target. So the bordered inverse P of
`closed_form` is one for all outputs and for all folds,

    theta = P t,   u = (P_BB)^-1 theta_B,   f_B = t_B - u,

and the closed form is exact. With g = (P_BB)^-1 s_B for slopes s by the held-out values,
p = P_:B g and theta' = theta - P_:B u the model without the fold, a function of the held-out
values changes by p' dM theta', M = K + diag(1 / c).
"""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from optimargin._linalg import Factor, solve_spd
from optimargin.held_out.refitter import Derivatives, HeldOut, Solved

_SINGULAR = 1e-13  # of a pivot that is at most one


def is_quadratic(losses):
    """Return whether the losses of all outputs are one and the same quadratic function."""
    return all(loss.D == 0 and loss.C1 == loss.C2 == losses[0].C1 for loss in losses)


def change_alone(theta, pivot, ridge):
    """Return how far decision values of samples are from their targets for models without them.

    Parameters
    ----------
    theta : ndarray
        Coefficients.
    pivot, ridge : ndarray
        Diagonals of the bordered inverse, and of what was added to the kernel; broadcast with
        `theta`. Where a pivot vanishes there is no model without the sample, and it is not left
        out.
    """
    known = pivot * ridge > _SINGULAR
    return np.where(known, theta / np.where(known, pivot, 1.0), ridge * theta)


class QuadraticSolved(Solved):
    """The solutions of all outputs, by the inverse that they share.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), float64
    targets : list of Target
        Of positive weights.
    fit_intercept : bool
    loss : BandLoss
        A quadratic one.
    """

    def __init__(self, K, targets, fit_intercept, loss):
        self._ridge = 1 / (2 * loss.C1 * targets[0].weight)
        self._values = np.stack([target.value for target in targets], axis=1)
        M = K.copy()
        M[np.diag_indices_from(M)] += self._ridge
        P = _inverse(M)
        self._at_intercept = np.zeros(P.shape[0])  # how the intercept changes with the values
        if fit_intercept:
            ones = P.sum(axis=0)
            border = ones.sum()
            self._at_intercept = ones / border
            P -= np.outer(ones, self._at_intercept)
        self._inverse = P
        self.theta = P @ self._values
        self.offset = self._at_intercept @ self._values
        # theta' (K + ridge) theta / 2
        self.objective = 0.5 * np.einsum("ik,ik->k", self.theta, self._values - self.offset)
        self.dual_gap = np.zeros(len(targets))
        orientation = np.stack([target.orientation for target in targets], axis=1)
        self._below = orientation * self.theta > 0
        self._outward = orientation * np.where(self._below, -1.0, 1.0)

    @property
    def coef(self):
        """Coefficients of samples, of shape (n_outputs, n_samples)."""
        return self.theta.T

    @property
    def intercept(self):
        """Intercepts, of shape (n_outputs,)."""
        return self.offset

    def leave_one_out(self):
        """Return decision values of shape (n_samples, n_outputs)."""
        pivot, ridge = np.diagonal(self._inverse)[:, None], self._ridge[:, None]
        return self._values - change_alone(self.theta, pivot, ridge)

    def leave_folds_out(self, folds, width_slope=None):
        """Return decision values without each fold, with derivatives.

        Parameters
        ----------
        folds : Folds
        width_slope : ndarray of shape (n_samples, n_samples), default=None
            The derivative of the kernel by the logarithm of its width.
        """
        P, theta = self._inverse, self.theta
        out = np.empty((*folds.fold.shape, theta.shape[1]))
        changes = []
        for repeat, rows in folds.models():
            u = solve_spd(np.ascontiguousarray(P[np.ix_(rows, rows)]), theta[rows])
            changes.append(u)
            out[repeat, rows] = self._values[rows] - u

        def derivatives(slope):
            total = Derivatives(np.zeros(3))
            for (repeat, rows), u in zip(folds.models(), changes, strict=True):
                columns = P[:, rows]
                g = solve_spd(np.ascontiguousarray(columns[rows]), slope[repeat, rows])
                both = columns @ np.hstack([g, u])
                adjoint, model = both[:, : u.shape[1]], theta - both[:, u.shape[1] :]
                by_width = 0.0
                if width_slope is not None:
                    by_width = float(np.vdot(adjoint, width_slope @ model))
                by_kernel = ((slice(None), adjoint.T.copy(), model.T),)
                adjoint[rows] = 0.0  # ridges and values of the fold itself do not matter
                total += Derivatives(self._by_loss(-adjoint, model), by_width, by_kernel)
            return total

        return HeldOut(out, derivatives)

    def predict_test(self, K_test=None, width_slope=None, slope_test=None):
        """Return decision values of the test samples, with derivatives.

        Parameters
        ----------
        K_test : ndarray of shape (n_test, n_samples)
        width_slope, slope_test : ndarray, default=None
            Derivatives of both kernels by the logarithm of their width.
        """
        decision = K_test @ self.theta + self.offset

        def derivatives(slope):
            adjoint = self._inverse @ (K_test.T @ slope)
            adjoint += np.outer(self._at_intercept, slope.sum(axis=0))
            by_width = 0.0
            if width_slope is not None:
                by_width = float(np.vdot(slope, slope_test @ self.theta))
                by_width -= float(np.vdot(adjoint, width_slope @ self.theta))
            return Derivatives(self._by_loss(adjoint, self.theta), by_width)

        return HeldOut(decision, derivatives)

    def _by_loss(self, adjoint, theta):
        """Return derivatives by log C1, log C2 and D: a ridge falls with its penalty."""
        by_log = self._ridge[:, None] * adjoint * theta
        below = by_log[self._below].sum()
        return np.array([below, by_log.sum() - below, np.vdot(adjoint, self._outward)])


def _inverse(M):
    """Return the inverse of a positive definite matrix."""
    upper, info = dpotrf(M.T, lower=0)
    if info == 0:
        inverse, info = dpotri(upper, lower=0, overwrite_c=1)
        if info == 0:
            return np.triu(inverse) + np.triu(inverse, 1).T
    return Factor(M).solve(np.eye(M.shape[0]))
